// Package e2e goes the road from a row to a topic with clients that are not ours: psql writes, kcat
// reads. It holds tests only.
package e2e

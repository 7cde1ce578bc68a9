// Package devstack runs the servers that "postrider dev" embeds, so that a
// developer needs nothing but the one binary.
package devstack

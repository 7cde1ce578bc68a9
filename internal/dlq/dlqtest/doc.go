// Package dlqtest has what tests of dead letters share: the conformance suite of the ports dlq.Store and
// dlq.Reader, an in-memory implementation that passes it, and letters to feed them with.
package dlqtest

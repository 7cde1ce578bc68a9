// Package dlqtest has what tests of dead letters share: the conformance suite of the store of letters, by what people then
// see of them, a Recorder in its place, and letters to feed both with.
package dlqtest

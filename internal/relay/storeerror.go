package relay

import "errors"

// StoreClass says what an error of the database means for an operator who watches the relay. The relay itself
// does the same in every case: it gives the cycle up, waits a little longer each time, and begins anew.
type StoreClass string

const (
	// StoreUnknownOutcome: the connection was lost while something was being written. It is there or it is
	// not; the next term sees which.
	StoreUnknownOutcome StoreClass = "unknown_outcome"
	// StoreTransient: it passes by itself, or when the database is well again.
	StoreTransient StoreClass = "transient"
	// StorePermanent: it stays until an operator changes something; the hint says what.
	StorePermanent StoreClass = "permanent"
)

// CodeOther is the code of errors of the database that have none of their own here.
const CodeOther = "OTHER"

// StoreError is what a Store returns when the database failed.
type StoreError struct {
	Class StoreClass
	// Code is an SQLSTATE, or a word, for example CONNECTION_LOST. There are few codes, so Code may be a label.
	Code string
	// Hint says what to do; empty when there is nothing to do but to wait.
	Hint string
	// Err is what happened.
	Err error
}

func (e *StoreError) Error() string {
	if e.Hint == "" {
		return e.Err.Error()
	}
	return e.Err.Error() + "; " + e.Hint
}

func (e *StoreError) Unwrap() error { return e.Err }

// storeFields are the fields of a log line about a failed cycle that say what kind of failure it was.
func storeFields(err error) []any {
	if e, ok := errors.AsType[*StoreError](err); ok {
		return []any{"error_class", string(e.Class), "error_code", e.Code}
	}
	return nil
}

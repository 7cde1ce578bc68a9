package app

import (
	"errors"
	"testing"
)

// TestAttempts: an error of many lines is one line in which nothing stands twice.
func TestAttempts(t *testing.T) {
	t.Parallel()
	for said, want := range map[string]string{
		"failed to connect to `user=u database=d`:\n\thostname resolving error: lookup nowhere: no such host\n\tlookup nowhere: no such host": "hostname resolving error: lookup nowhere: no such host",
		"failed to connect to `user=u database=d`:\n\t[::1]:1: connection refused\n\t127.0.0.1:1: connection refused":                         "[::1]:1: connection refused; 127.0.0.1:1: connection refused",
	} {
		if got := attempts(errors.New(said)); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

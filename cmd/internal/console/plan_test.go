package console

import (
	"testing"

	"github.com/postrider/postrider/internal/tasks/task"
)

func TestUsualCanary(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		n       int64
		exactly bool
		want    string
	}{{0, true, "0"}, {1, true, "0"}, {3, true, "2"}, {900, true, "5"}, {0, false, "5"}, {1, false, "5"}} {
		if got := usualCanary(c.n, c.exactly); got != c.want {
			t.Errorf("of %d (exactly: %v): %s, want %s", c.n, c.exactly, got, c.want)
		}
	}
}

// TestRetriesText: the longest pause is not shorter than the first one, which the ledger sees to as well.
func TestRetriesText(t *testing.T) {
	t.Parallel()
	for want, s := range map[string]task.Step{
		"3": {}, "3, after 2 s to 60 s": {RetryBaseSeconds: 2}, "3, after 5 min to 5 min": {RetryBaseSeconds: 300}, "3, after 1 s to 10 s": {RetryMaxSeconds: 10},
	} {
		if got := retriesText(s); got != want {
			t.Errorf("%+v: %q, want %q", s, got, want)
		}
	}
}

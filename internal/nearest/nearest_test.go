package nearest

import (
	"strings"
	"testing"
)

func TestOf(t *testing.T) {
	t.Parallel()
	words := []string{"batch_size", "dispatches", "log"}
	for name, want := range map[string]struct {
		best  string
		edits int
	}{
		"batch_size": {"batch_size", 0}, "batch_sise": {"batch_size", 1}, "btach_size": {"batch_size", 1}, "batchsize": {"batch_size", 1},
		"": {"log", 3}, "gol": {"log", 2}, strings.Repeat("x", 1000): {"batch_size", MaxCompared},
	} {
		if best, edits := Of(name, words); best != want.best || edits != want.edits {
			t.Errorf("%.20q: %q by %d edits, want %q by %d", name, best, edits, want.best, want.edits)
		}
	}
	if best, edits := Of("a", []string(nil)); best != "" || edits != -1 {
		t.Errorf("of nothing: %q, %d", best, edits)
	}
}

package console

import (
	"strings"
	"testing"

	"github.com/postrider/postrider/internal/dlq"
)

// TestAdviceForStaleTasks: a task that the detector moved has no flag, so it cannot be let go on.
func TestAdviceForStaleTasks(t *testing.T) {
	t.Parallel()
	got := adviceOf(dlq.Parts{ErrorCode: "STALE_STATE"})
	for _, want := range []string{"a flagged task can be let go on", "put the tasks that were moved to error or dead_letter back to their beginning"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is not in %q", want, got)
		}
	}
}

// TestAdviceNamesWhatIsOnThePage: a cause has no button that tries a step again, and the screen needs no command.
func TestAdviceNamesWhatIsOnThePage(t *testing.T) {
	t.Parallel()
	for _, code := range []string{"STALE_STATE", "MAX_RETRIES_EXCEEDED"} {
		got := adviceOf(dlq.Parts{ErrorCode: code, Template: "orders/ship"})
		if !strings.Contains(got, "back to") || strings.Contains(got, "postrider ") || strings.Contains(got, "then try the step again") {
			t.Errorf("%s: %q names what the page does not have", code, got)
		}
	}
}

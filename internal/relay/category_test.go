package relay

import (
	"testing"

	"github.com/postrider/postrider/message"
)

// Every failure of an event has a category. A failure that is tried again is transient. If the event is given up at once,
// the category says whether the event is the matter.
func TestFailuresHaveACategory(t *testing.T) {
	t.Parallel()
	for _, c := range []Class{Infrastructure, Route, Record, Withheld} {
		if got := message.CategoryOf(string(c), "ANY"); got != message.Transient {
			t.Errorf("class %s: %q", c, got)
		}
	}
	for _, c := range Causes() {
		want := message.Transient
		if c == CauseHalted || c == CauseBreaker {
			want = message.Fatal
		}
		if got := message.CategoryOf(string(c), "ANY"); got != want {
			t.Errorf("cause %s: %q, want %q", c, got, want)
		}
	}
	for code, want := range map[string]message.Category{
		CodeInvalidHeaders: message.Validation, CodeInvalidTopic: message.Validation, CodeWorkerKilled: message.Fatal,
	} {
		if got := message.CategoryOf(string(Permanent), code); got != want {
			t.Errorf("%s: %q, want %q", code, got, want)
		}
	}
	if got := message.CategoryOf(string(Delivered), ""); got != "" {
		t.Errorf("delivered: %q", got)
	}
}

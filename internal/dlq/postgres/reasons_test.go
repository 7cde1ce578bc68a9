package postgres

import (
	"testing"

	"github.com/postrider/postrider/internal/dlq"
	"github.com/postrider/postrider/internal/dlq/dlqtest"
	"github.com/postrider/postrider/message"
)

// TestAReasonIsOneForAnEventAndItsTask: the investigation of an event that was given up, and the count of the task that was
// moved because of it, have the same reason, whatever the class and the code of the failure.
func TestAReasonIsOneForAnEventAndItsTask(t *testing.T) {
	t.Parallel()
	pool := newSubject(t).pool
	classes := []string{"record", "permanent", "infrastructure", "route", "another", ""}
	seen := map[dlq.Reason]bool{}
	for _, class := range classes {
		for _, code := range []string{message.CodeSkipped, "INVALID_RECORD", ""} {
			r := dlqtest.Event(1, 1)
			for i, h := range r.Headers {
				switch h.Name {
				case message.HeaderErrorClass:
					r.Headers[i].Value = []byte(class)
				case message.HeaderErrorCode:
					r.Headers[i].Value = []byte(code)
				}
			}
			l := dlq.Decode(r)
			var got dlq.Reason
			if err := pool.QueryRow(t.Context(), `select postrider.task_event_reason(nullif($1, ''), nullif($2, ''))`, class, code).Scan(&got); err != nil {
				t.Fatal(err)
			}
			if seen[got] = true; got != l.Reason {
				t.Errorf("class %q, code %q: the task is counted as %s, the letter as %s", class, code, got, l.Reason)
			}
		}
	}
	if len(seen) != 5 {
		t.Errorf("the classes have %d reasons, want 5: %v", len(seen), seen)
	}
}

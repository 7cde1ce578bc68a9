package console

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/postrider/postrider/cmd/internal/api"
	"github.com/postrider/postrider/cmd/internal/httpapi"
)

// TestFormThatIsTooLargeSaysSo: a form that was read in part looks empty, and would be refused for missing fields.
func TestFormThatIsTooLargeSaysSo(t *testing.T) {
	t.Parallel()
	r := httptest.NewRequest(http.MethodPost, "/plan", strings.NewReader("name="+strings.Repeat("a", 2<<20)))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Body = http.MaxBytesReader(httptest.NewRecorder(), r.Body, 1<<20)
	if e := told(readForm(r)); e.Code != httpapi.TooLarge || !strings.Contains(e.Message, "http.max_body_bytes") {
		t.Errorf("it says %q (%s)", e.Message, e.Code)
	}
}

// TestATimeoutIsNoMistakeOfOurs: a read that takes too long is told as the API tells it, and the database is not blamed.
func TestATimeoutIsNoMistakeOfOurs(t *testing.T) {
	t.Parallel()
	if e := told(fmt.Errorf("list groups: %w", context.DeadlineExceeded)); e.Code != httpapi.Unavailable || e.Database {
		t.Errorf("it is told as %+v", e)
	}
}

// TestTheMenuCountsWhatIsHeld: an outbox that holds events back is not empty.
func TestTheMenuCountsWhatIsHeld(t *testing.T) {
	t.Parallel()
	if n, _ := countWaiting(&figures{Status: api.Status{Outbox: api.OutboxStatus{Pending: 1, Parked: 200, Scheduled: 3, Failed: 150, DeadLettered: 9}}}); n != "204" {
		t.Errorf("%s wait", n)
	}
}

// TestFailedEventsAreCountedOnce: an event that failed waits behind a hold or for its time, and is counted there alone.
func TestFailedEventsAreCountedOnce(t *testing.T) {
	t.Parallel()
	if s := sayOutbox(api.OutboxStatus{Failed: 2, Scheduled: 2}); !strings.Contains(s.Text, "2 events are on the way") {
		t.Errorf("it says %q", s.Text)
	}
}

// TestTheOldestMayBeHeld: the figure has the age of held events, and the page says so.
func TestTheOldestMayBeHeld(t *testing.T) {
	t.Parallel()
	if s := sayOutbox(api.OutboxStatus{Parked: 200, HoldCount: 1, OldestDueSeconds: 240}); s.More != "The oldest event that should have gone by now, held or not, waits for 4 min. Events behind halted keys are not counted." {
		t.Errorf("it says %q", s.More)
	}
}

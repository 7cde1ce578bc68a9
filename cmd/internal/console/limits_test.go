package console

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/postrider/postrider/cmd/internal/access"
	"github.com/postrider/postrider/cmd/internal/httpapi"
)

// refusing is an API that does nothing, and counts how often it was asked.
type refusing struct{ asked *int }

func (r refusing) Call(context.Context, string, string, url.Values, any) (any, error) {
	*r.asked++
	return nil, &httpapi.Error{Code: httpapi.Conflict, Message: "no"}
}

// deadline is a connection that notes until when an answer may be written.
type deadline struct {
	*httptest.ResponseRecorder
	at time.Time
}

func (d *deadline) SetWriteDeadline(at time.Time) error {
	d.at = at
	return nil
}

// submit gives a form to a handler, and returns its error, until when its answer may be written, and how often it asked the API.
func submit(do func(*visit) (string, error), form url.Values) (until time.Time, asked int, err error) {
	r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(form.Encode()))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.SetPathValue("id", "0192aaaa-0000-7000-8000-000000000008")
	r.SetPathValue("command", "pause")
	w := &deadline{ResponseRecorder: httptest.NewRecorder()}
	if err := readForm(r); err != nil {
		return until, 0, err
	}
	_, err = do(&visit{Request: r, console: &Console{cfg: Config{API: refusing{&asked}}}, writer: w, ctx: r.Context()})
	return w.at, asked, err
}

// TestFormsMayTakeAsLongAsTheirOperation: the answer to a form of many is not cut off before its operation is.
func TestFormsMayTakeAsLongAsTheirOperation(t *testing.T) {
	t.Parallel()
	for name, do := range map[string]func(*visit) (string, error){"the retry of a cause": retryCause, "the retry of tasks": retryTasks, "a plan": makePlan} {
		began := time.Now()
		until, asked, _ := submit(do, url.Values{"id": {"0192aaaa-0000-7000-8000-000000000009"}, "kind": {"redrive"}})
		if asked != 1 || until.Sub(began) < httpapi.PlanLimit {
			t.Errorf("%s asks %d times, and its answer may be written for %v; want %v", name, asked, until.Sub(began), httpapi.PlanLimit)
		}
	}
}

// TestForHowLong: a time that cannot be read is refused. Without one, a pause and a mute have no end.
func TestForHowLong(t *testing.T) {
	t.Parallel()
	for name, do := range map[string]func(*visit) (string, error){"mute": changeCause, "pause": switchEngine("/tasks", "/detector", "detectors of stale tasks")} {
		for text, refused := range map[string]bool{"1h": false, "": false, "x": true, "-1h": true, "0s": true, "1 day": true} {
			_, asked, err := submit(do, url.Values{"what": {"mute"}, "for": {text}})
			if says := strings.Contains(told(err).Message, "For how long is “"+text+"”; it must be a time such as 1h."); says != refused || (asked == 0) != refused {
				t.Errorf("%s for %q says %v, and asks %d times", name, text, err, asked)
			}
		}
	}
}

// TestOutcomesInTheAuditLog: what was before stays where nothing says what is after it.
func TestOutcomesInTheAuditLog(t *testing.T) {
	t.Parallel()
	for details, want := range map[string]string{
		`{"before": "error", "event_id": 7}`:                   "before: error, event id: 7",
		`{"before": "new", "after": "muted", "note": true}`:    "new → muted, note: yes",
		`{"before": "ongoing", "after": "ongoing", "n": null}`: "",
		`{"after": "muted"}`:                                   "after: muted",
	} {
		if got := outcomeOf(json.RawMessage(details)); got != want {
			t.Errorf("%s is %q, want %q", details, got, want)
		}
	}
	for kind, want := range map[string]string{"task": "looked at the hidden values of", "entry": "looked at the message of"} {
		if got := deed(access.Done{Action: "payload.reveal", TargetType: kind}); got != want {
			t.Errorf("payload.reveal of a %s is %q", kind, got)
		}
	}
}

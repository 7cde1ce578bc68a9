package dlq_test

import (
	"log/slog"
	"strings"
	"testing"

	"github.com/postrider/postrider/internal/dlq"
	"github.com/postrider/postrider/internal/dlq/dlqtest"
	"github.com/postrider/postrider/message"
)

// TestACollectorLeavesLettersToTheirDesk: they open nothing here, are counted and named once, and are not read again.
func TestACollectorLeavesLettersToTheirDesk(t *testing.T) {
	t.Parallel()
	of := func(n int, desk string) dlq.Record {
		r := dlqtest.Event(n, 1)
		r.Headers = append(r.Headers, message.Header{Name: message.HeaderDesk, Value: []byte(desk)})
		return r
	}
	r := newRoom(t, of(1, "there"), of(2, "here"), of(3, "there"), dlqtest.Event(4, 1))
	c, err := dlq.NewCollector(dlq.Config{Source: r.source, Letters: r.store, Whose: dlq.Whose{Desk: "here"}, Logger: slog.New(slog.NewTextHandler(&r.log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	r.collector = c
	if err := r.runOnce(4); err != nil {
		t.Fatal(err)
	}
	for subject := range r.wantEntries(2) {
		if subject.ID == dlqtest.EventID(1).String() || subject.ID == dlqtest.EventID(3).String() {
			t.Errorf("%s was recorded", subject.ID)
		}
	}
	if n := strings.Count(r.log.String(), "desk=there"); n != 1 {
		t.Errorf("it was named %d times: %s", n, r.log.String())
	}
	if len(r.trace) == 0 || !strings.HasPrefix(r.trace[len(r.trace)-1], "commit") {
		t.Errorf("the offsets were not committed: %q", r.trace)
	}
}

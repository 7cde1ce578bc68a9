package relay

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/postrider/postrider/relay/outbox"
)

// Every hold that there may be has a gauge from the start; what ends becomes 0, and what nobody thought of is shown.
func TestHoldGauges(t *testing.T) {
	t.Parallel()
	reg := prometheus.NewRegistry()
	var counts []HoldCount
	var failure error
	r := testRelay(t, func(c *Config) {
		c.Registerer = reg
		c.Store = &fakeStore{
			backlog: func(context.Context, int) (Backlog, error) {
				return Backlog{Pending: 3, Parked: 2, Scheduled: 1, Exhausted: 9}, nil
			},
			holds: func(_ context.Context, limit int) ([]HoldCount, error) {
				if limit != backlogLimit {
					t.Errorf("the limit is %d", limit)
				}
				return counts, failure
			},
		}
	})
	value := func(v *prometheus.GaugeVec, scope Scope, cause Cause) float64 {
		return testutil.ToFloat64(v.WithLabelValues(string(scope), string(cause)))
	}
	g := r.metrics.backlog
	if n := testutil.CollectAndCount(g.holds); n != len(usualHolds()) {
		t.Errorf("%d kinds of holds at the start", n)
	}
	counts = []HoldCount{{ScopeKey, CauseHalted, 4, time.Hour}, {ScopeKey, "new", 1, time.Second}}
	if _, err := r.readBacklog(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n, age := value(g.holds, ScopeKey, CauseHalted), value(g.held, ScopeKey, CauseHalted); n != 4 || age != 3600 {
		t.Errorf("halted keys: %v for %v s", n, age)
	}
	if got := testutil.ToFloat64(g.pending); got != 6 {
		t.Errorf("%v events are pending, want 6", got)
	}
	counts = nil
	if _, err := r.readBacklog(t.Context()); err != nil {
		t.Fatal(err)
	}
	if value(g.holds, ScopeKey, CauseHalted) != 0 || value(g.holds, ScopeKey, "new") != 0 || value(g.held, ScopeKey, CauseHalted) != 0 {
		t.Error("holds that ended are still shown")
	}
	readAt := testutil.ToFloat64(g.readAt)
	failure = errTest
	if _, err := r.readBacklog(t.Context()); !errors.Is(err, errTest) || testutil.ToFloat64(g.readAt) != readAt {
		t.Errorf("a failure gives %v, and the figures claim to be of %v", err, testutil.ToFloat64(g.readAt))
	}
}

// What was sent and failed is counted by code, and what was never sent too.
func TestFailuresByCode(t *testing.T) {
	t.Parallel()
	c := &fakeClaim{batch: Batch{Events: []outbox.Event{keyed(1, "a"), keyed(2, "b"), keyed(3, "c")}}}
	c.batch.Events[2].Headers = []byte(`7`)
	pub := &fakePublisher{outcome: func(_ context.Context, m Message) Outcome {
		if string(m.Key) == "b" {
			return Outcome{Class: Permanent, Code: "MESSAGE_TOO_LARGE"}
		}
		return Outcome{Class: Delivered}
	}}
	w, r := cycleOf(t, claimOf(c), pub)
	if _, err := w.runOnce(t.Context()); err != nil {
		t.Fatal(err)
	}
	for code, want := range map[string]float64{"MESSAGE_TOO_LARGE": 1, "INVALID_HEADERS": 1} {
		if got := testutil.ToFloat64(r.metrics.failures.WithLabelValues(code)); got != want {
			t.Errorf("%s: %v failures, want %v", code, got, want)
		}
	}
	if n := testutil.CollectAndCount(r.metrics.failures); n != 2 {
		t.Errorf("%d codes, want 2", n)
	}
	if got := testutil.ToFloat64(r.metrics.processed.WithLabelValues("publish")); got != 3 {
		t.Errorf("%v events were processed, want 3", got)
	}
}

// The line about an event that is given up names its trace.
func TestGivenUpEventNamesItsTrace(t *testing.T) {
	t.Parallel()
	log, logged := capturedLog()
	e := keyed(1, "a")
	e.Headers = []byte(`{"traceparent": "` + recorded + `"}`)
	c := &fakeClaim{batch: Batch{Events: []outbox.Event{e}}}
	pub := &fakePublisher{outcome: func(context.Context, Message) Outcome { return Outcome{Class: Permanent, Code: "X", Message: "why"} }}
	r := testRelay(t, func(cfg *Config) { cfg.Store, cfg.Publisher, cfg.Logger = claimOf(c), pub, log })
	w := &worker{relay: r, id: "w/0"}
	if _, err := w.runOnce(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{"trace_id=" + aTrace, "error_code=X", "err=why", "id=1"} {
		if got := logged(); !strings.Contains(got, part) {
			t.Errorf("%q is not in %s", part, got)
		}
	}
}

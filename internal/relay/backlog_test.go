package relay

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
)

// Every usual hold has a gauge from the start. The gauge of a hold that ends becomes 0, and an unusual hold is shown, too.
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
	counts = []HoldCount{{ScopeKey, CauseHalted, "orders", "TOO_LARGE", 3, time.Hour}, {ScopeKey, CauseHalted, "bills", "TOO_LARGE", 1, time.Minute},
		{ScopeKey, "new", "orders", "", 1, time.Second}}
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

// TestHoldsAreNamed: each kind of hold is shown with its topic and code until it ends, and hot keys hide no held topic.
func TestHoldsAreNamed(t *testing.T) {
	t.Parallel()
	reg := prometheus.NewRegistry()
	g := newBacklogGauges()
	g.register(reg)
	value := func(topic string, cause Cause, code string) float64 {
		return testutil.ToFloat64(g.info.WithLabelValues(topic, string(cause), code))
	}
	counts := []HoldCount{{ScopeTopic, CauseRoute, "gone", "UNKNOWN_TOPIC_OR_PARTITION", 1, time.Hour}, {ScopeFailure, CauseBreaker, "orders", "TOO_LARGE", 1, time.Hour},
		{ScopePartition, CauseInfrastructure, "orders", "NOT_LEADER", 2, time.Hour}}
	g.nameHolds(counts)
	if n := testutil.CollectAndCount(g.info); n != 3 || value("gone", CauseRoute, "UNKNOWN_TOPIC_OR_PARTITION") != 1 || value("orders", CauseInfrastructure, "NOT_LEADER") != 2 {
		t.Errorf("%d series of three kinds", n)
	}
	keys := counts[:1:1]
	for n := range 100 {
		keys = append(keys, HoldCount{ScopeKey, CauseRetry, fmt.Sprintf("t%03d", n), "E", int64(1000 - n), time.Hour})
	}
	g.nameHolds(keys)
	if n := testutil.CollectAndCount(g.info); n != namedHolds+1 {
		t.Errorf("%d series, want %d and one for the rest", n, namedHolds)
	}
	rest := 0
	for n := namedHolds - 1; n < 100; n++ {
		rest += 1000 - n
	}
	if value("gone", CauseRoute, "UNKNOWN_TOPIC_OR_PARTITION") != 1 || value("t000", CauseRetry, "E") != 1000 || value("other", CauseRetry, "other") != float64(rest) {
		t.Errorf("the rest are %v, want %d", value("other", CauseRetry, "other"), rest)
	}
	g.nameHolds(nil)
	if n := testutil.CollectAndCount(g.info); n != 0 {
		t.Errorf("%d series without holds", n)
	}
}

// TestEveryCauseIsCounted: holds of each cause have a gauge from the start, so that an alert sees the first of them come.
func TestEveryCauseIsCounted(t *testing.T) {
	t.Parallel()
	for _, c := range Causes() {
		if !slices.ContainsFunc(usualHolds(), func(h held) bool { return h.cause == c }) {
			t.Errorf("usualHolds has no scope with the cause %s", c)
		}
	}
}

package relay

import (
	"testing"
	"time"

	"github.com/postrider/postrider/relay/outbox"
)

// TestPlanSettles is what every class of outcome means for an event with and without a key, when
// nothing is held, when the event is the probe of its key or topic, and when a hold drains.
func TestPlanSettles(t *testing.T) {
	t.Parallel()
	const (
		topicNew   = "hold #0 on topic t: infrastructure X, failed 1, probe in 250ms"
		topicAgain = "hold #0 on topic t: infrastructure X, failed 4, probe in 2s"
		routeNew   = "hold #0 on topic t: route X, failed 1, probe in 1s"
		routeAgain = "hold #0 on topic t: route X, failed 4, probe in 8s"
		keyNew     = "hold #0 on key t/k: retry X, failed 2, probe in 2s"
		retry      = " (attempt 2: record X)"
		gone       = " (attempt 2: permanent X)"
	)
	probe := func(scope Scope, draining bool) *Hold {
		h := &Hold{ID: 7, Scope: ScopeKey, Topic: "t", Key: []byte("k"), Probes: 3, Draining: draining, Through: map[int16]int64{3: 1}}
		if scope == ScopeTopic {
			h.ID, h.Scope, h.Key = 8, ScopeTopic, nil
		}
		return h
	}
	free, key, topic := holdsOf(), holdsOf(probe(ScopeKey, false)), holdsOf(probe(ScopeTopic, false))
	both := holdsOf(probe(ScopeKey, false), probe(ScopeTopic, false))
	draining := holdsOf(probe(ScopeKey, true), probe(ScopeTopic, true))
	for name, c := range map[string]struct {
		class  Class
		holds  Holds
		plain  string // without a key
		keyed  string
		asLast string // with a key, when it was the last attempt; empty for the same as keyed
	}{
		"delivered, free":     {class: Delivered, holds: free, plain: "delivered [1]", keyed: "delivered [1]"},
		"delivered, key":      {class: Delivered, holds: key, plain: "delivered [1]", keyed: "delivered [1]\nproven 7"},
		"delivered, topic":    {class: Delivered, holds: topic, plain: "delivered [1]\nproven 8", keyed: "delivered [1]\nproven 8"},
		"delivered, both":     {class: Delivered, holds: both, plain: "delivered [1]\nproven 8", keyed: "delivered [1]\nproven 7\nproven 8"},
		"delivered, draining": {class: Delivered, holds: draining, plain: "delivered [1]", keyed: "delivered [1]"},

		"permanent, free":     {class: Permanent, holds: free, plain: "exhausted 1" + gone, keyed: "exhausted 1" + gone},
		"permanent, key":      {class: Permanent, holds: key, plain: "exhausted 1" + gone, keyed: "exhausted 1" + gone + "\nproven 7"},
		"permanent, topic":    {class: Permanent, holds: topic, plain: "exhausted 1" + gone + "\nproven 8", keyed: "exhausted 1" + gone + "\nproven 8"},
		"permanent, both":     {class: Permanent, holds: both, plain: "exhausted 1" + gone + "\nproven 8", keyed: "exhausted 1" + gone + "\nproven 7\nproven 8"},
		"permanent, draining": {class: Permanent, holds: draining, plain: "exhausted 1" + gone, keyed: "exhausted 1" + gone},

		"record, free": {class: Record, holds: free, plain: "scheduled 1 in 2s" + retry,
			keyed: lines(keyNew, "parked 1 under #0"+retry), asLast: "exhausted 1" + retry},
		"record, key": {class: Record, holds: key, plain: "scheduled 1 in 2s" + retry,
			keyed: lines(keyNew, "parked 1 under #0"+retry), asLast: "exhausted 1" + retry + "\nproven 7"},
		"record, topic": {class: Record, holds: topic, plain: "scheduled 1 in 2s" + retry + "\nproven 8",
			keyed: lines(keyNew, "parked 1 under #0"+retry, "proven 8"), asLast: "exhausted 1" + retry + "\nproven 8"},
		"record, both": {class: Record, holds: both, plain: "scheduled 1 in 2s" + retry + "\nproven 8",
			keyed: lines(keyNew, "parked 1 under #0"+retry, "proven 8"), asLast: "exhausted 1" + retry + "\nproven 7\nproven 8"},
		"record, draining": {class: Record, holds: draining, plain: "scheduled 1 in 2s" + retry,
			keyed: lines(keyNew, "parked 1 under #0"+retry), asLast: "exhausted 1" + retry},

		"infrastructure, free":     {class: Infrastructure, holds: free, plain: topicNew + "\nparked 1 under #0", keyed: topicNew + "\nparked 1 under #0"},
		"infrastructure, key":      {class: Infrastructure, holds: key, plain: topicNew + "\nparked 1 under #0", keyed: topicNew + "\nparked 1 under #0"},
		"infrastructure, topic":    {class: Infrastructure, holds: topic, plain: topicAgain + "\nparked 1 under #0", keyed: topicAgain + "\nparked 1 under #0"},
		"infrastructure, both":     {class: Infrastructure, holds: both, plain: topicAgain + "\nparked 1 under #0", keyed: topicAgain + "\nparked 1 under #0"},
		"infrastructure, draining": {class: Infrastructure, holds: draining, plain: topicAgain + "\nparked 1 under #0", keyed: topicAgain + "\nparked 1 under #0"},

		"route, free":     {class: Route, holds: free, plain: routeNew + "\nparked 1 under #0", keyed: routeNew + "\nparked 1 under #0"},
		"route, key":      {class: Route, holds: key, plain: routeNew + "\nparked 1 under #0", keyed: routeNew + "\nparked 1 under #0"},
		"route, topic":    {class: Route, holds: topic, plain: routeAgain + "\nparked 1 under #0", keyed: routeAgain + "\nparked 1 under #0"},
		"route, both":     {class: Route, holds: both, plain: routeAgain + "\nparked 1 under #0", keyed: routeAgain + "\nparked 1 under #0"},
		"route, draining": {class: Route, holds: draining, plain: routeAgain + "\nparked 1 under #0", keyed: routeAgain + "\nparked 1 under #0"},

		// Not tried: nothing is known, the event stays pending and every hold as it is.
		"withheld, free":     {class: Withheld, holds: free},
		"withheld, key":      {class: Withheld, holds: key},
		"withheld, topic":    {class: Withheld, holds: topic},
		"withheld, both":     {class: Withheld, holds: both},
		"withheld, draining": {class: Withheld, holds: draining},
	} {
		settled := func(e outbox.Event) string {
			e.Attempts = 1
			p := newPlan(&Batch{Events: []outbox.Event{e}, Holds: c.holds}, rulesOf(TopicSettings{}))
			p.settle(0, &Outcome{Class: c.class, Code: "X", Message: "why"})
			return describe(p.settlement())
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			last := func(e *outbox.Event) { e.MaxAttempts = 2 }
			asLast := c.asLast
			if asLast == "" {
				asLast = c.keyed
			}
			for _, x := range []struct{ of, got, want string }{
				{"without a key", settled(unkeyed(1)), c.plain},
				{"with a key", settled(keyed(1, "k")), c.keyed},
				{"at the last attempt", settled(with(keyed(1, "k"), last)), asLast},
			} {
				if x.got != x.want {
					t.Errorf("%s:\n%s\nwant:\n%s", x.of, x.got, x.want)
				}
			}
		})
	}
}

func TestPlanGivesUpAnEventWithoutKeyAtItsLastAttempt(t *testing.T) {
	t.Parallel()
	e := with(unkeyed(1), func(e *outbox.Event) { e.Attempts, e.MaxAttempts = 9, 10 })
	p := newPlan(&Batch{Events: []outbox.Event{e}}, rulesOf(TopicSettings{}))
	p.settle(0, &Outcome{Class: Record, Code: "X"})
	if got, want := describe(p.settlement()), "exhausted 1 (attempt 10: record X)"; got != want {
		t.Errorf("settlement:\n%s\nwant:\n%s", got, want)
	}
}

func TestPlanKeepsWhatWentWrongWithItsEvent(t *testing.T) {
	t.Parallel()
	p := newPlan(&Batch{Events: []outbox.Event{keyed(1, "k")}}, rulesOf(TopicSettings{}))
	p.settle(0, &Outcome{Class: Route, Code: "UNKNOWN_TOPIC_OR_PARTITION", Message: "no such topic"})
	h := p.settlement().Holds[0]
	if e := keyed(1, "k"); h.Error != "no such topic" || h.Code != "UNKNOWN_TOPIC_OR_PARTITION" || h.EventID != e.EventID {
		t.Errorf("the hold says %+v", h)
	}
}

func TestProbePauseDoublesUpToItsCap(t *testing.T) {
	t.Parallel()
	for probes, want := range map[int]time.Duration{
		0: 250 * time.Millisecond, 1: 250 * time.Millisecond, 2: 500 * time.Millisecond, 5: 4 * time.Second,
		6: 5 * time.Second, 1 << 30: 5 * time.Second,
	} {
		if got := probePause(infrastructureProbeBase, infrastructureProbeCap, probes); got != want {
			t.Errorf("after %d probes the pause is %v, want %v", probes, got, want)
		}
	}
}

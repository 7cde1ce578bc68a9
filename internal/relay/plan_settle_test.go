package relay

import (
	"errors"
	"testing"
	"time"

	"github.com/postrider/postrider/retry"
)

// TestPlanSettles is what every class of outcome means for an event with and without a key, of the log when nothing is
// held, and taken as the probe of its key or topic, or of holds that drain.
func TestPlanSettles(t *testing.T) {
	t.Parallel()
	const (
		topicNew   = "hold 100 on topic t: infrastructure X, failed 1, probe in 250ms, new\nparked 1 behind 100"
		topicAgain = "hold 8 on topic t: infrastructure X, failed 4, probe in 2s\nparked 1 behind 8"
		routeNew   = "hold 100 on topic t: route X, failed 1, probe in 1s, new\nparked 1 behind 100"
		routeAgain = "hold 8 on topic t: route X, failed 4, probe in 8s\nparked 1 behind 8"
		retry      = " (attempt 2: record X)"
		keyNew     = "hold 100 on key t/k: retry X, failed 2, probe in 2s, new"
		keyAgain   = "hold 7 on key t/k: retry X, failed 2, probe in 2s"
		keyOpen    = "hold 7 on key t/k:  , failed 3, draining"
		topicOpen  = "hold 8 on topic t:  , failed 3, draining"
		parkedNew  = "parked 1 behind 100" + retry
		parked     = "parked 1 behind 7" + retry
		later      = "scheduled 1 in 2s" + retry
		last       = "exhausted 1" + retry
		gone       = "exhausted 1 (attempt 2: permanent X)"
	)
	key, topic := onKey(7, "k", Hold{Probes: 3, through: 1}), onTopic(8, Hold{Probes: 3, through: 1})
	drainingKey, drainingTopic := key, topic
	drainingKey.Draining, drainingTopic.Draining = true, true
	type where struct {
		holds []Hold
		from  []int64
	}
	free, ofKey, ofTopic := where{}, where{[]Hold{key}, []int64{7}}, where{[]Hold{topic}, []int64{8}}
	both := where{[]Hold{key, topic}, []int64{7}}
	draining := where{[]Hold{drainingKey, drainingTopic}, []int64{7}}
	scheduled := where{nil, []int64{0}}
	for name, c := range map[string]struct {
		class  Class
		where  where
		plain  string // without a key; it does not come from the hold of a key
		keyed  string
		asLast string // with a key, when it was the last attempt; empty for the same as keyed
	}{
		"delivered, free":      {class: Delivered, where: free, plain: "sent 1", keyed: "sent 1"},
		"delivered, scheduled": {class: Delivered, where: scheduled, plain: "gone [1]", keyed: "gone [1]"},
		"delivered, key":       {class: Delivered, where: ofKey, keyed: lines("gone [1]", keyOpen)},
		"delivered, topic":     {class: Delivered, where: ofTopic, plain: lines("gone [1]", topicOpen), keyed: lines("gone [1]", topicOpen)},
		"delivered, both":      {class: Delivered, where: both, keyed: lines("gone [1]", keyOpen, topicOpen)},
		"delivered, draining":  {class: Delivered, where: draining, keyed: "gone [1]"},

		"permanent, free":      {class: Permanent, where: free, plain: gone, keyed: gone},
		"permanent, scheduled": {class: Permanent, where: scheduled, plain: gone, keyed: gone},
		"permanent, key":       {class: Permanent, where: ofKey, keyed: lines(keyOpen, gone)},
		"permanent, topic":     {class: Permanent, where: ofTopic, plain: lines(topicOpen, gone), keyed: lines(topicOpen, gone)},
		"permanent, both":      {class: Permanent, where: both, keyed: lines(keyOpen, topicOpen, gone)},
		"permanent, draining":  {class: Permanent, where: draining, keyed: gone},

		"record, free":      {class: Record, where: free, plain: later, keyed: lines(keyNew, parkedNew), asLast: last},
		"record, scheduled": {class: Record, where: scheduled, plain: later, keyed: lines(keyNew, parkedNew), asLast: last},
		"record, key":       {class: Record, where: ofKey, keyed: lines(keyAgain, parked), asLast: lines(keyOpen, last)},
		"record, topic":     {class: Record, where: ofTopic, plain: lines(topicOpen, later), keyed: lines(topicOpen, keyNew, parkedNew), asLast: lines(topicOpen, last)},
		"record, both":      {class: Record, where: both, keyed: lines(keyAgain, topicOpen, parked), asLast: lines(keyOpen, topicOpen, last)},
		"record, draining":  {class: Record, where: draining, keyed: lines(keyAgain, parked), asLast: last},

		"infrastructure, free":     {class: Infrastructure, where: free, plain: topicNew, keyed: topicNew},
		"infrastructure, key":      {class: Infrastructure, where: ofKey, keyed: topicNew},
		"infrastructure, topic":    {class: Infrastructure, where: ofTopic, plain: topicAgain, keyed: topicAgain},
		"infrastructure, both":     {class: Infrastructure, where: both, keyed: topicAgain},
		"infrastructure, draining": {class: Infrastructure, where: draining, keyed: topicAgain},

		"route, free":     {class: Route, where: free, plain: routeNew, keyed: routeNew},
		"route, key":      {class: Route, where: ofKey, keyed: routeNew},
		"route, topic":    {class: Route, where: ofTopic, plain: routeAgain, keyed: routeAgain},
		"route, both":     {class: Route, where: both, keyed: routeAgain},
		"route, draining": {class: Route, where: draining, keyed: routeAgain},

		// Not tried, and nothing is known: an event of the log waits a little, an event that was taken stays as it is.
		"withheld, free": {class: Withheld, where: free, plain: "scheduled 1 in 1s",
			keyed: lines("hold 100 on key t/k: retry WITHHELD, failed 0, probe in 1s, new", "parked 1 behind 100")},
		"withheld, scheduled": {class: Withheld, where: scheduled, plain: "put back [1]", keyed: "put back [1]"},
		"withheld, key":       {class: Withheld, where: ofKey, keyed: "put back [1]"},
		"withheld, topic":     {class: Withheld, where: ofTopic, plain: "put back [1]", keyed: "put back [1]"},
		"withheld, both":      {class: Withheld, where: both, keyed: "put back [1]"},
		"withheld, draining":  {class: Withheld, where: draining, keyed: "put back [1]"},
	} {
		asLast := c.asLast
		if asLast == "" {
			asLast = c.keyed
		}
		for of, x := range map[string]struct {
			e    Event
			want string
		}{
			"without a key":       {unkeyed(1), c.plain},
			"with a key":          {keyed(1, "k"), c.keyed},
			"at the last attempt": {with(keyed(1, "k"), func(e *Event) { e.MaxAttempts = 2 }), asLast},
		} {
			if x.want == "" {
				continue
			}
			x.e.Attempts = 1
			runPlanCases(t, map[string]planCase{name + ", " + of: {rules: rulesOf(TopicSettings{}), events: events(x.e), holds: c.where.holds, from: c.where.from,
				sent: []int64{1}, outcomes: []Outcome{{Class: c.class, Code: map[bool]string{false: "X"}[c.class == Delivered], Message: "why"}}, want: x.want}})
		}
	}
}

func TestPlanGivesUpAnEventWithoutKeyAtItsLastAttempt(t *testing.T) {
	t.Parallel()
	e := with(unkeyed(1), func(e *Event) { e.Attempts, e.MaxAttempts = 9, 10 })
	runPlanCases(t, map[string]planCase{"last": {rules: rulesOf(TopicSettings{}), events: events(e), sent: []int64{1}, outcomes: outcomes(Record),
		want: "exhausted 1 (attempt 10: record record)"}})
}

func TestPlanKeepsWhatWentWrongWithItsEvent(t *testing.T) {
	t.Parallel()
	e := keyed(1, "k")
	c := planCase{rules: rulesOf(TopicSettings{}), events: events(e, with(keyed(2, "l"), func(e *Event) { e.Attempts = 1 }))}
	p := c.planOf()
	r, err := p.conclude([]Outcome{{Class: Route, Code: "UNKNOWN_TOPIC_OR_PARTITION", Message: "no such topic"}, {Class: Record, Code: "CORRUPT_MESSAGE", Message: "bits"}})
	if err != nil {
		t.Fatal(err)
	}
	if h := r.Holds[0]; h.Error != "no such topic" || h.Code != "UNKNOWN_TOPIC_OR_PARTITION" || h.EventID != e.EventID {
		t.Errorf("the hold says %+v", h)
	}
	want := Exception{ID: 2, EventID: eventID(2), Topic: "t", State: Parked, Hold: 101, Attempts: 2, MaxAttempts: retry.Default().MaxAttempts,
		Failure: Failure{ID: 2, Attempts: 2, Class: Record, Code: "CORRUPT_MESSAGE", Error: "bits"}}
	if x := r.Exceptions[1]; x != want {
		t.Errorf("the exception says %+v, want %+v", x, want)
	}
	if c := r.Counts(); c != (Counts{Processed: 2, Failed: 1, Parked: 2}) {
		t.Errorf("it counts %+v", c)
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

// TestNoPauseIsLongerThanTheLongest: a store takes a longer one for a clock that was put back, and probes at once.
func TestNoPauseIsLongerThanTheLongest(t *testing.T) {
	t.Parallel()
	for name, of := range map[string][2]time.Duration{"infrastructure": {infrastructureProbeBase, infrastructureProbeCap},
		"route": {routeProbeBase, routeProbeCap}, "circuit breaker": {breakerProbeBase, breakerProbeCap}} {
		for probes := range 40 {
			if pause := probePause(of[0], of[1], probes); pause > LongestPause(0) {
				t.Errorf("probe %d of a hold because of %s comes after %v, the longest pause is %v", probes, name, pause, LongestPause(0))
			}
		}
	}
	if got := LongestPause(time.Hour); got != time.Hour {
		t.Errorf("with retries an hour apart the longest pause is %v", got)
	}
}

// TestPlanWithoutAHoldID: a decision that needs a hold and cannot have an id for it is none.
func TestPlanWithoutAHoldID(t *testing.T) {
	t.Parallel()
	r := rulesOf(TopicSettings{})
	r.holdID = func() (int64, error) { return 0, errTest }
	c := planCase{rules: r, events: events(keyed(1, "k"))}
	if _, err := c.planOf().conclude(outcomes(Record)); !errors.Is(err, errTest) {
		t.Errorf("conclude() = %v", err)
	}
}

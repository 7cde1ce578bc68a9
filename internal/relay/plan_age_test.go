package relay

import (
	"cmp"
	"strings"
	"testing"
	"time"
)

func aged(e Event, age time.Duration) Event {
	e.CreatedAt = noon.Add(-age)
	return e
}

// TestPlanOfMaxAge: an event that could not be sent for so long is given up, and a younger event waits on.
func TestPlanOfMaxAge(t *testing.T) {
	t.Parallel()
	r := rulesOf(TopicSettings{MaxAge: time.Hour})
	const (
		old   = " (attempt 1: infrastructure MAX_AGE_EXCEEDED)"
		held  = "hold 100 on topic t: infrastructure infrastructure, failed 1, probe in 250ms, new"
		again = "hold 8 on topic t: infrastructure infrastructure, failed 4, probe in 2s"
		opens = "hold 8 on topic t: infrastructure , failed 3, draining"
	)
	part := Outcome{Class: Infrastructure, Code: "X", Partition: 1, Partitions: 4}
	outage := func(h Hold) []Hold {
		h.Cause, h.through = cmp.Or(h.Cause, CauseInfrastructure), 9
		return []Hold{onTopic(8, h)}
	}
	waited := func(age time.Duration) []Hold { return outage(Hold{Age: age, Probes: 3}) }
	partition := func(n int32) []Hold {
		return []Hold{onPartition(9, n, 4, Hold{Cause: CauseInfrastructure, Age: time.Hour, through: 9})}
	}
	of := []int64{8}
	runPlanCases(t, map[string]planCase{
		"at that age: the next ones come": {rules: r, holds: waited(time.Hour), from: of, events: events(aged(keyed(1, "k"), time.Hour)),
			sent: []int64{1}, outcomes: outcomes(Infrastructure), want: lines(opens, "exhausted 1"+old)},
		"an old event at the beginning of an outage": {rules: r, events: events(aged(keyed(1, "k"), 1000*time.Hour)),
			sent: []int64{1}, outcomes: outcomes(Infrastructure), want: lines(held, "parked 1 behind 100")},
		"an old event in a young outage": {rules: r, holds: waited(time.Hour - 1), from: of, events: events(aged(keyed(1, "k"), 2*time.Hour)),
			sent: []int64{1}, outcomes: outcomes(Infrastructure), want: lines(again, "parked 1 behind 8")},
		"a young event in an old outage": {rules: r, holds: waited(2 * time.Hour), from: of, events: events(aged(keyed(1, "k"), time.Hour-1)),
			sent: []int64{1}, outcomes: outcomes(Infrastructure), want: lines(again, "parked 1 behind 8")},
		"of a clock ahead of this one": {rules: r, holds: waited(2 * time.Hour), from: of, events: events(aged(keyed(1, "k"), -time.Hour)),
			sent: []int64{1}, outcomes: outcomes(Infrastructure), want: lines(again, "parked 1 behind 8")},
		"never": {rules: rulesOf(TopicSettings{}), holds: waited(1000 * time.Hour), from: of, events: events(aged(keyed(1, "k"), 1000*time.Hour)),
			sent: []int64{1}, outcomes: outcomes(Infrastructure), want: lines(again, "parked 1 behind 8")},
		"the age of a key's hold is no outage's": {rules: r, from: []int64{7}, holds: []Hold{onKey(7, "k", Hold{Cause: CauseRedrive, Age: 2 * time.Hour, through: 1})},
			events: events(aged(keyed(1, "k"), 2*time.Hour)), sent: []int64{1}, outcomes: outcomes(Infrastructure), want: lines(held, "parked 1 behind 100")},
		"a missing topic": {rules: r, holds: outage(Hold{Cause: CauseRoute, Age: time.Hour}), from: of, events: events(aged(unkeyed(1), 2*time.Hour)),
			sent: []int64{1}, outcomes: outcomes(Route), want: lines("hold 8 on topic t: route , failed 0, draining", "exhausted 1 (attempt 1: route MAX_AGE_EXCEEDED)")},
		"one partition": {rules: r, holds: partition(1), from: []int64{9}, events: events(aged(keyed(1, "a"), 2*time.Hour)),
			sent: []int64{1}, outcomes: []Outcome{part}, want: lines("hold 9 on partition t 1 of 4: infrastructure , failed 0, draining", "exhausted 1"+old)},
		"another partition": {rules: r, holds: partition(2), events: events(aged(keyed(1, "a"), 2*time.Hour)),
			sent: []int64{1}, outcomes: []Outcome{part}, want: lines("hold 100 on partition t 1 of 4: infrastructure X, failed 1, probe in 250ms, new", "parked 1 behind 100")},
		"without a key any partition will do": {rules: r, holds: partition(2), events: events(aged(unkeyed(1), 2*time.Hour)),
			sent: []int64{1}, outcomes: []Outcome{part}, want: "exhausted 1" + old},
		"its own fault is not a matter of age": {rules: r, holds: waited(2 * time.Hour), from: of, events: events(aged(keyed(1, "k"), 2*time.Hour)),
			sent: []int64{1}, outcomes: outcomes(Record),
			want: lines(opens, "hold 100 on key t/k: retry record, failed 1, probe in 1s, new", "parked 1 behind 100 (attempt 1: record record)")},
		"younger ones behind it hold the topic again": {rules: r, from: []int64{8, 8, 8}, holds: outage(Hold{Age: 2 * time.Hour, Draining: true}),
			events: events(aged(keyed(1, "k"), 2*time.Hour), aged(keyed(2, "k"), 2*time.Hour), aged(keyed(3, "l"), time.Minute)),
			sent:   []int64{1, 2, 3}, outcomes: outcomes(Infrastructure, Withheld, Infrastructure),
			want: lines("hold 8 on topic t: infrastructure infrastructure, failed 1, probe in 250ms", "hold 100 on key t/k: retry WITHHELD, failed 0, draining, new",
				"exhausted 1"+old, "parked 2 behind 100", "parked 3 behind 8")},
		"where its key halts": {rules: rulesOf(TopicSettings{MaxAge: time.Hour, AfterLastAttempt: PolicyHaltKey}), from: []int64{8, 8},
			holds: outage(Hold{Age: 2 * time.Hour, Draining: true}), events: events(aged(keyed(1, "k"), 2*time.Hour), aged(keyed(2, "k"), 2*time.Hour)),
			sent: []int64{1, 2}, outcomes: outcomes(Infrastructure, Withheld),
			want: lines("hold 100 on key t/k: halted MAX_AGE_EXCEEDED, failed 0, until a release, new", "exhausted 1"+old, "parked 2 behind 100")},
		"one that meets an old hold from the log was not kept by it": {rules: r, holds: waited(2 * time.Hour), events: events(aged(keyed(1, "k"), time.Minute)),
			sent: []int64{1}, outcomes: outcomes(Infrastructure), want: lines(again, "parked 1 behind 8")},
	})
	c := planCase{rules: r, holds: waited(90 * time.Minute), from: of, events: events(aged(keyed(1, "k"), 2*time.Hour))}
	got, err := c.planOf().conclude([]Outcome{{Class: Infrastructure, Code: "LEADER_NOT_AVAILABLE", Message: "no leader"}})
	if err != nil {
		t.Fatal(err)
	}
	if why := got.Exceptions[0].Failure.Error; !strings.Contains(why, "1h30m0s") || !strings.Contains(why, "max_age") || !strings.HasSuffix(why, "LEADER_NOT_AVAILABLE: no leader") {
		t.Errorf("the failure says %q", why)
	}
}

// TestPlanOfRouteDeadLetterAfter: if a topic has been missing or refused for so long, its events are given up. An outage
// does not count, however long it lasts.
func TestPlanOfRouteDeadLetterAfter(t *testing.T) {
	t.Parallel()
	r := rulesOf(TopicSettings{RouteDeadLetterAfter: time.Hour})
	hold := func(cause Cause, age time.Duration) []Hold {
		return []Hold{onTopic(8, Hold{Cause: cause, Age: age, Probes: 3, through: 9})}
	}
	const (
		gone  = " (attempt 1: route route)"
		again = "hold 8 on topic t: route route, failed 4, probe in 8s\nparked 1 behind 8"
	)
	one, of := events(keyed(1, "k")), []int64{8}
	runPlanCases(t, map[string]planCase{
		"met for the first time": {rules: r, events: one, sent: []int64{1}, outcomes: outcomes(Route),
			want: lines("hold 100 on topic t: route route, failed 1, probe in 1s, new", "parked 1 behind 100")},
		"not yet": {rules: r, events: one, holds: hold(CauseRoute, time.Hour-1), from: of, sent: []int64{1}, outcomes: outcomes(Route), want: again},
		"now": {rules: r, events: one, holds: hold(CauseRoute, time.Hour), from: of, sent: []int64{1}, outcomes: outcomes(Route),
			want: lines("hold 8 on topic t: route , failed 3, draining", "exhausted 1"+gone)},
		"all that came back, in order": {rules: r, events: events(keyed(1, "k"), keyed(2, "k"), unkeyed(3)), from: []int64{8, 8, 8},
			holds: []Hold{onTopic(8, Hold{Cause: CauseRoute, Age: 2 * time.Hour, Draining: true, through: 3})},
			sent:  []int64{1, 2, 3}, outcomes: outcomes(Route, Withheld, Route),
			want: lines("hold 100 on key t/k: retry WITHHELD, failed 0, draining, new", "exhausted 1"+gone, "parked 2 behind 100", "exhausted 3"+gone)},
		"never":                         {rules: rulesOf(TopicSettings{}), events: one, holds: hold(CauseRoute, 1000*time.Hour), from: of, sent: []int64{1}, outcomes: outcomes(Route), want: again},
		"held for another cause so far": {rules: r, events: one, holds: hold(CauseInfrastructure, 2*time.Hour), from: of, sent: []int64{1}, outcomes: outcomes(Route), want: again},
		"an outage": {rules: r, events: one, holds: hold(CauseRoute, 2*time.Hour), from: of, sent: []int64{1}, outcomes: outcomes(Infrastructure),
			want: lines("hold 8 on topic t: infrastructure infrastructure, failed 4, probe in 2s", "parked 1 behind 8")},
	})
}

package relay

import (
	"cmp"
	"strings"
	"testing"
	"time"

	"github.com/postrider/postrider/relay/outbox"
)

var noon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

func aged(e outbox.Event, age time.Duration) outbox.Event {
	e.CreatedAt = noon.Add(-age)
	return e
}

// TestPlanOfMaxAge: what could not be sent for so long is given up, and what is younger waits on.
func TestPlanOfMaxAge(t *testing.T) {
	t.Parallel()
	r := rulesOf(TopicSettings{MaxAge: time.Hour})
	const (
		old  = " (attempt 1: infrastructure MAX_AGE_EXCEEDED)"
		held = "hold #0 on topic t: infrastructure infrastructure, failed 1, probe in 250ms"
	)
	part := Outcome{Class: Infrastructure, Code: "X", Partition: 1, Partitions: 4}
	batch := func(hs Holds, es ...outbox.Event) Batch { return Batch{Events: es, Holds: hs, Now: noon} }
	outage := func(h Hold) Holds {
		h.Cause = cmp.Or(h.Cause, CauseInfrastructure)
		return holdsOf(onTopic(8, h))
	}
	waited := func(age time.Duration) Holds { return outage(Hold{Age: age, Probes: 3, Through: through(1)}) }
	const again = "hold #0 on topic t: infrastructure infrastructure, failed 4, probe in 2s"
	runPlanCases(t, map[string]planCase{
		"at that age: the next ones come": {rules: r, batch: batch(waited(time.Hour), aged(keyed(1, "k"), time.Hour)),
			sent: []int64{1}, outcomes: outcomes(Infrastructure), want: lines("exhausted 1"+old, "proven 8")},
		"an old event at the beginning of an outage": {rules: r, batch: batch(Holds{}, aged(keyed(1, "k"), 1000*time.Hour)),
			sent: []int64{1}, outcomes: outcomes(Infrastructure), want: lines(held, "parked 1 under #0")},
		"an old event in a young outage": {rules: r, batch: batch(waited(time.Hour-1), aged(keyed(1, "k"), 2*time.Hour)),
			sent: []int64{1}, outcomes: outcomes(Infrastructure), want: lines(again, "parked 1 under #0")},
		"a young event in an old outage": {rules: r, batch: batch(waited(2*time.Hour), aged(keyed(1, "k"), time.Hour-1)),
			sent: []int64{1}, outcomes: outcomes(Infrastructure), want: lines(again, "parked 1 under #0")},
		"of a clock ahead of the database's": {rules: r, batch: batch(waited(2*time.Hour), aged(keyed(1, "k"), -time.Hour)),
			sent: []int64{1}, outcomes: outcomes(Infrastructure), want: lines(again, "parked 1 under #0")},
		"never": {rules: rulesOf(TopicSettings{}), batch: batch(waited(1000*time.Hour), aged(keyed(1, "k"), 1000*time.Hour)),
			sent: []int64{1}, outcomes: outcomes(Infrastructure), want: lines(again, "parked 1 under #0")},
		"the age of a storm or of a retry is no outage's": {rules: r, batch: batch(holdsOf(onTopic(8, Hold{Cause: CauseStorm, Age: 2 * time.Hour, Draining: true}),
			onKey(7, "k", Hold{Cause: CauseRedrive, Age: 2 * time.Hour, Through: through(1)})), aged(keyed(1, "k"), 2*time.Hour)),
			sent: []int64{1}, outcomes: outcomes(Infrastructure), want: lines("hold #0 on topic t: infrastructure infrastructure, failed 1, probe in 250ms", "parked 1 under #0")},
		"a missing topic": {rules: r, batch: batch(outage(Hold{Cause: CauseRoute, Age: time.Hour, Through: through(1)}), aged(unkeyed(1), 2*time.Hour)),
			sent: []int64{1}, outcomes: outcomes(Route), want: lines("exhausted 1 (attempt 1: route MAX_AGE_EXCEEDED)", "proven 8")},
		"one partition": {rules: r, batch: batch(holdsOf(onPartition(9, 1, 4, Hold{Cause: CauseInfrastructure, Age: time.Hour, Through: through(1)})), aged(keyed(1, "a"), 2*time.Hour)),
			sent: []int64{1}, outcomes: []Outcome{part}, want: lines("exhausted 1"+old, "proven 9")},
		"another partition": {rules: r, batch: batch(holdsOf(onPartition(9, 2, 4, Hold{Cause: CauseInfrastructure, Age: time.Hour, Through: through(1)})), aged(keyed(1, "a"), 2*time.Hour)),
			sent: []int64{1}, outcomes: []Outcome{part}, want: lines("hold #0 on partition t 1 of 4: infrastructure X, failed 1, probe in 250ms", "parked 1 under #0")},
		"without a key any partition will do": {rules: r, batch: batch(holdsOf(onPartition(9, 2, 4, Hold{Cause: CauseInfrastructure, Age: time.Hour, Through: through(1)})), aged(unkeyed(1), 2*time.Hour)),
			sent: []int64{1}, outcomes: []Outcome{part}, want: "exhausted 1" + old},
		"its own fault is not a matter of age": {rules: r, batch: batch(waited(2*time.Hour), aged(keyed(1, "k"), 2*time.Hour)),
			sent: []int64{1}, outcomes: outcomes(Record),
			want: lines("hold #0 on key t/k: retry record, failed 1, probe in 1s", "parked 1 under #0 (attempt 1: record record)", "proven 8")},
		"younger ones behind it hold the topic again": {
			rules: r, batch: batch(outage(Hold{Age: 2 * time.Hour, Draining: true, Through: through(3)}),
				aged(keyed(1, "k"), 2*time.Hour), aged(keyed(2, "k"), 2*time.Hour), aged(keyed(3, "l"), time.Minute)),
			sent: []int64{1, 2, 3}, outcomes: outcomes(Infrastructure, Withheld, Infrastructure),
			want: lines("exhausted 1"+old, held, "parked 3 under #0")},
		"where its key halts": {rules: rulesOf(TopicSettings{MaxAge: time.Hour, AfterLastAttempt: PolicyHaltKey}),
			batch: batch(outage(Hold{Age: 2 * time.Hour, Draining: true, Through: through(2)}), aged(keyed(1, "k"), 2*time.Hour), aged(keyed(2, "k"), 2*time.Hour)),
			sent:  []int64{1, 2}, outcomes: outcomes(Infrastructure, Withheld),
			want: lines("exhausted 1"+old, "hold #0 on key t/k: halted MAX_AGE_EXCEEDED, failed 0, until somebody comes, known in shard 3", "parked 2 under #0")},
	})
	p := newPlan(&Batch{Events: events(aged(keyed(1, "k"), 2*time.Hour)), Now: noon, Holds: waited(90 * time.Minute)}, r)
	p.settle(0, &Outcome{Class: Infrastructure, Code: "LEADER_NOT_AVAILABLE", Message: "no leader"})
	if got := p.settlement().Exhausted[0].Error; !strings.Contains(got, "1h30m0s") || !strings.Contains(got, "max_age") || !strings.HasSuffix(got, "LEADER_NOT_AVAILABLE: no leader") {
		t.Errorf("the failure says %q", got)
	}
}

// TestPlanOfRouteDeadLetterAfter: the events of a topic that has been missing or refused for so long are
// given up; an outage is not that, however long it lasts.
func TestPlanOfRouteDeadLetterAfter(t *testing.T) {
	t.Parallel()
	r := rulesOf(TopicSettings{RouteDeadLetterAfter: time.Hour})
	hold := func(cause Cause, age time.Duration) Holds {
		return holdsOf(onTopic(8, Hold{Cause: cause, Age: age, Probes: 3, Through: through(2)}))
	}
	const gone = " (attempt 1: route route)"
	again := func(cause, code, pause string) string {
		return lines("hold #0 on topic t: "+cause+" "+code+", failed 4, probe in "+pause, "parked 1 under #0")
	}
	one := func(hs Holds) Batch { return Batch{Events: events(keyed(1, "k")), Holds: hs, Now: noon} }
	runPlanCases(t, map[string]planCase{
		"met for the first time": {rules: r, batch: one(Holds{}), sent: []int64{1}, outcomes: outcomes(Route),
			want: lines("hold #0 on topic t: route route, failed 1, probe in 1s", "parked 1 under #0")},
		"not yet": {rules: r, batch: one(hold(CauseRoute, time.Hour-1)), sent: []int64{1}, outcomes: outcomes(Route), want: again("route", "route", "8s")},
		"now":     {rules: r, batch: one(hold(CauseRoute, time.Hour)), sent: []int64{1}, outcomes: outcomes(Route), want: lines("exhausted 1"+gone, "proven 8")},
		"all that came back, in order": {
			rules: r, batch: Batch{Events: events(keyed(1, "k"), keyed(2, "k"), unkeyed(3)), Holds: holdsOf(onTopic(8, Hold{Cause: CauseRoute, Age: 2 * time.Hour, Draining: true, Through: through(3)}))},
			sent: []int64{1, 2, 3}, outcomes: outcomes(Route, Withheld, Route), want: lines("exhausted 1"+gone, "exhausted 3"+gone)},
		"never": {rules: rulesOf(TopicSettings{}), batch: one(hold(CauseRoute, 1000*time.Hour)), sent: []int64{1}, outcomes: outcomes(Route), want: again("route", "route", "8s")},
		"held for another cause so far": {rules: r, batch: one(hold(CauseInfrastructure, 2*time.Hour)), sent: []int64{1}, outcomes: outcomes(Route),
			want: again("route", "route", "8s")},
		"an outage": {rules: r, batch: one(hold(CauseRoute, 2*time.Hour)), sent: []int64{1}, outcomes: outcomes(Infrastructure),
			want: again("infrastructure", "infrastructure", "2s")},
	})
}

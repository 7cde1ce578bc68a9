package relay

import (
	"testing"
	"time"

	"github.com/postrider/postrider/relay/outbox"
)

// stormyRules are rules by which n of topic t were given up lately and one more is too many.
func stormyRules(n int, s TopicSettings) rules {
	s.StormEvents, s.StormWindow = 3, time.Hour
	r := rulesOf(s)
	r.storms = newStorms()
	for range n {
		r.storms.exhausted("t", r.settings("t"))
	}
	return r
}

// TestPlanOfAStorm: when too many events of a topic are given up, the topic is held instead; of what is let
// through one at a time is given up, and one that arrives ends it.
func TestPlanOfAStorm(t *testing.T) {
	t.Parallel()
	bad := func(id int64, key string) outbox.Event { return with(keyed(id, key), unencodable) }
	u := func(e *outbox.Event) { e.Topic = "u" }
	const (
		refused = " (attempt 1: permanent permanent)"
		invalid = " (attempt 1: permanent INVALID_HEADERS)"
		begins  = "hold #0 on topic t: storm permanent, failed 1, probe in 30s"
	)
	storm := func(h Hold) Holds { h.Cause = CauseStorm; return holdsOf(onTopic(8, h)) }
	runPlanCases(t, map[string]planCase{
		"up to the bound they are given up": {
			rules: stormyRules(0, TopicSettings{}), batch: Batch{Events: events(keyed(1, "k"), keyed(2, "l"), unkeyed(3))},
			sent: []int64{1, 2, 3}, outcomes: outcomes(Permanent, Permanent, Permanent),
			want: lines("exhausted 1"+refused, "exhausted 2"+refused, "exhausted 3"+refused),
		},
		"beyond it they wait, with the attempt they spent": {
			rules: stormyRules(2, TopicSettings{}), batch: Batch{Events: events(keyed(1, "k"), keyed(2, "l"), keyed(3, "m"), keyed(4, "l"))},
			sent: []int64{1, 2, 3, 4}, outcomes: outcomes(Permanent, Permanent, Permanent, Withheld),
			want: lines("exhausted 1"+refused, begins, "parked 2 under #0"+refused, "parked 3 under #0"+refused, "parked 4 under #0"),
		},
		"those that cannot be sent, too": {
			rules: stormyRules(2, TopicSettings{}), batch: Batch{Events: events(bad(1, "k"), bad(2, "l"), keyed(3, "l"), keyed(4, "m"))},
			sent: []int64{4}, outcomes: outcomes(Delivered),
			want: lines("delivered [4]", "exhausted 1"+invalid, "hold #0 on topic t: storm INVALID_HEADERS, failed 1, probe in 30s",
				"parked 2 under #0"+invalid, "parked 3 under #0"),
		},
		"another topic is not concerned": {
			rules: stormyRules(3, TopicSettings{}), batch: Batch{Events: events(with(keyed(1, "k"), u), with(keyed(2, "l"), u))},
			sent: []int64{1, 2}, outcomes: outcomes(Permanent, Delivered),
			want: lines("delivered [2]", "exhausted 1"+refused),
		},
		"what is delivered counts against it": {
			rules: stormyRules(3, TopicSettings{}), batch: Batch{Events: events(unkeyed(1), unkeyed(2), unkeyed(3), unkeyed(4), unkeyed(5))},
			sent: []int64{1, 2, 3, 4, 5}, outcomes: outcomes(Delivered, Delivered, Delivered, Delivered, Permanent),
			want: lines("delivered [1 2 3 4]", "exhausted 5"+refused),
		},
		"held: what cannot be sent waits": {
			rules: stormyRules(0, TopicSettings{}), batch: Batch{Events: events(bad(1, "k"), keyed(2, "l")), Holds: storm(Hold{Through: through(0)})},
			want: lines("parked 1 under hold 8"+invalid, "parked 2 under hold 8"),
		},
		"a probe that is refused is given up, and the next comes later": {
			rules: stormyRules(0, TopicSettings{}), batch: Batch{Events: events(keyed(1, "k")), Holds: storm(Hold{Probes: 2, Through: through(1)})},
			sent: []int64{1}, outcomes: outcomes(Permanent),
			want: lines("exhausted 1"+refused, "hold #0 on topic t: storm permanent, failed 3, probe in 2m0s"),
		},
		"at most five minutes later": {
			rules: stormyRules(0, TopicSettings{}), batch: Batch{Events: events(keyed(1, "k")), Holds: storm(Hold{Probes: 1 << 20, Through: through(1)})},
			sent: []int64{1}, outcomes: outcomes(Permanent),
			want: lines("exhausted 1"+refused, "hold #0 on topic t: storm permanent, failed 1048577, probe in 5m0s"),
		},
		"a probe that may be tried again proves nothing": {
			rules: stormyRules(0, TopicSettings{}), batch: Batch{Events: events(keyed(1, "k")), Holds: storm(Hold{Through: through(1)})},
			sent: []int64{1}, outcomes: outcomes(Record),
			want: lines("hold #0 on key t/k: retry record, failed 1, probe in 1s", "parked 1 under #0 (attempt 1: record record)"),
		},
		"one that is delivered ends it": {
			rules: stormyRules(0, TopicSettings{}), batch: Batch{Events: events(keyed(1, "k"), keyed(2, "l")), Holds: storm(Hold{Through: through(1)})},
			sent: []int64{1}, outcomes: outcomes(Delivered),
			want: lines("delivered [1]", "parked 2 under hold 8", "proven 8"),
		},
		"released too early: of all that came back one is given up": {
			rules: stormyRules(0, TopicSettings{}), batch: Batch{Events: events(keyed(1, "k"), keyed(2, "l"), keyed(3, "l"), bad(4, "m"), unkeyed(5)),
				Holds: storm(Hold{Draining: true, Probes: 1, Through: through(5)})},
			sent: []int64{1, 2, 3, 5}, outcomes: outcomes(Permanent, Permanent, Withheld, Permanent),
			want: lines("exhausted 4"+invalid, "hold #0 on topic t: storm INVALID_HEADERS, failed 2, probe in 1m0s",
				"parked 1 under #0"+refused, "parked 2 under #0"+refused, "parked 3 under #0", "parked 5 under #0"+refused),
		},
		"an outage during a storm": {
			rules: stormyRules(0, TopicSettings{}), batch: Batch{Events: events(keyed(1, "k"), keyed(2, "l")), Holds: storm(Hold{Draining: true, Through: through(2)})},
			sent: []int64{1, 2}, outcomes: outcomes(Infrastructure, Permanent),
			want: lines("hold #0 on topic t: infrastructure infrastructure, failed 1, probe in 250ms", "parked 1 under #0", "parked 2 under #0"+refused),
		},
		"a probe that halts its key": {
			rules: stormyRules(0, TopicSettings{AfterLastAttempt: PolicyHaltKey}), batch: Batch{Events: events(keyed(1, "k"), keyed(2, "k")), Holds: storm(Hold{Through: through(1)})},
			sent: []int64{1}, outcomes: outcomes(Permanent),
			want: lines("exhausted 1"+refused, "hold #0 on topic t: storm permanent, failed 1, probe in 30s",
				"hold #1 on key t/k: halted permanent, failed 0, until somebody comes, known in shard 3", "parked 2 under hold 8"),
		},
	})
}

package relay

import (
	"testing"
	"time"

	"github.com/postrider/postrider/relay/outbox"
)

// TestPlanOfCommitOrder: events that an open transaction may yet precede wait where they are while that is
// young, and parked when it is old.
func TestPlanOfCommitOrder(t *testing.T) {
	t.Parallel()
	r := rulesOf(TopicSettings{CommitOrder: true})
	halting := rulesOf(TopicSettings{CommitOrder: true, AfterLastAttempt: PolicyHaltKey})
	mixed := rulesOf(TopicSettings{})
	ordered, plain := *r.settings("t"), *mixed.settings("u")
	mixed.settings = func(topic string) *TopicSettings {
		if topic == "t" {
			return &ordered
		}
		return &plain
	}
	const (
		young = fencePatience - 1
		old   = time.Duration(fencePatience)
		begin = "hold #0 on topic t: commit_order OPEN_TRANSACTION, failed 0, draining"
	)
	u := func(e *outbox.Event) { e.Topic = "u" }
	batch := func(final int64, age time.Duration, hs Holds, es ...outbox.Event) Batch {
		return Batch{Events: es, Holds: hs, Final: final, FenceAge: age}
	}
	order := func(h Hold) Holds {
		h.Cause, h.Draining = CauseCommitOrder, true
		return holdsOf(onTopic(8, h))
	}
	elsewhere := map[int16]int64{7: 50}
	still := batch(0, old, Holds{}, keyed(1, "k"))
	still.Standstill = Standstill{"SEQUENCE_CACHE", "do this"}
	runPlanCases(t, map[string]planCase{
		"all is final": {rules: r, batch: batch(2, 0, Holds{}, keyed(1, "k"), unkeyed(2)),
			sent: []int64{1, 2}, outcomes: outcomes(Delivered, Delivered), want: "delivered [1 2]"},
		"a young transaction: they stay where they are": {rules: r, batch: batch(1, young, Holds{}, keyed(1, "k"), keyed(2, "k"), unkeyed(3)),
			sent: []int64{1}, outcomes: outcomes(Delivered), want: "delivered [1]"},
		"an old one: out of the way of the others": {rules: r, batch: batch(1, old, Holds{}, keyed(1, "k"), keyed(2, "k"), unkeyed(3)),
			sent: []int64{1}, outcomes: outcomes(Delivered), want: lines("delivered [1]", begin, "parked 2 under #0", "parked 3 under #0")},
		"a fault takes the place of the wait": {rules: r, batch: batch(1, old, Holds{}, keyed(2, "l"), keyed(1, "k")),
			sent: []int64{1}, outcomes: outcomes(Route), want: lines("hold #0 on topic t: route route, failed 1, probe in 1s", "parked 2 under #0", "parked 1 under #0")},
		"nothing becomes final by itself: the hold says why": {rules: r, batch: still,
			want: lines("hold #0 on topic t: commit_order SEQUENCE_CACHE, failed 0, draining", "parked 1 under #0")},
		"another topic does not ask": {rules: mixed, batch: batch(0, old, Holds{}, keyed(1, "k"), with(keyed(2, "k"), u)),
			sent: []int64{2}, outcomes: outcomes(Delivered), want: lines("delivered [2]", begin, "parked 1 under #0")},
		"nothing is known to be final": {rules: r, batch: batch(0, young, Holds{}, keyed(1, "k"))},
		"held already in this shard: by the hold": {rules: r, batch: batch(0, old, order(Hold{Through: through(0)}), keyed(1, "k")),
			want: "parked 1 under hold 8"},
		"held already, not in this shard: there as well": {rules: r, batch: batch(1, old, order(Hold{Through: elsewhere}), keyed(1, "k"), keyed(2, "k"), keyed(3, "l")),
			sent: []int64{1}, outcomes: outcomes(Delivered), want: lines("delivered [1]", "parked 2 under hold 8", "parked 3 under hold 8")},
		"held already, not in this shard, and a young transaction": {rules: r, batch: batch(0, young, order(Hold{Through: elsewhere}), keyed(1, "k"))},
		"just let through, by somebody who knew more":              {rules: r, batch: batch(1, old, order(Hold{Through: through(2)}), keyed(2, "k"), keyed(3, "k"))},
		"what is final of that goes": {rules: r, batch: batch(2, old, order(Hold{Through: through(2)}), keyed(2, "k"), keyed(3, "k")),
			sent: []int64{2}, outcomes: outcomes(Delivered), want: lines("delivered [2]", "parked 3 under hold 8")},
		"the topic is held for another cause": {rules: r, batch: batch(0, old, holdsOf(onTopic(8, Hold{Cause: CauseRoute, Through: through(0)})), keyed(1, "k")),
			want: "parked 1 under hold 8"},
		"such a hold drains: they stay where they are": {rules: r, batch: batch(0, old, holdsOf(onTopic(8, Hold{Cause: CauseRoute, Draining: true, Through: elsewhere})), keyed(1, "k"))},
		"a held key waits for its hold": {rules: r, batch: batch(0, old, holdsOf(onKey(7, "k", Hold{Through: through(0)})), keyed(1, "k")),
			want: "parked 1 under hold 7"},
		"an outage of a topic in commit order": {rules: r, batch: batch(2, old, order(Hold{Through: through(2)}), keyed(1, "k"), keyed(2, "l")),
			sent: []int64{1, 2}, outcomes: outcomes(Infrastructure, Withheld),
			want: lines("hold #0 on topic t: infrastructure infrastructure, failed 1, probe in 250ms", "parked 1 under #0", "parked 2 under #0")},
		"one that cannot be sent is given up at once": {rules: r, batch: batch(0, young, Holds{}, with(keyed(1, "k"), unencodable)),
			want: "exhausted 1 (attempt 1: permanent INVALID_HEADERS)"},
		"but in its turn where its key halts": {rules: halting, batch: batch(0, young, Holds{}, with(keyed(1, "k"), unencodable), keyed(2, "k"))},
		"parked where the transaction is old": {rules: halting, batch: batch(0, old, Holds{}, with(keyed(1, "k"), unencodable), keyed(2, "k")),
			want: lines(begin, "parked 1 under #0", "parked 2 under #0")},
		"a delayed one waits for its time": {rules: r, batch: batch(0, old, Holds{}, with(keyed(1, "k"), delayed)),
			want: "scheduled 1 at its own time"},
	})
}

package relay

import (
	"testing"
)

// TestPlanSettlesBatches is about outcomes that bear on other events of the same batch.
func TestPlanSettlesBatches(t *testing.T) {
	t.Parallel()
	r := rulesOf(TopicSettings{})
	u := func(e *Event) { e.Topic = "u" }
	const (
		heldTopic  = "hold 100 on topic t: infrastructure infrastructure, failed 1, probe in 250ms, new"
		heldKey    = "hold 100 on key t/k: retry record, failed 1, probe in 1s, new"
		failed     = " (attempt 1: record record)"
		topicAgain = "hold 8 on topic t: infrastructure infrastructure, failed 1, probe in 250ms"
		keyAgain   = "hold 7 on key t/k: retry record, failed 1, probe in 1s"
		keyOpen    = "hold 7 on key t/k:  , failed 0, draining"
	)
	drains := func(h Hold) Hold { h.Draining = true; h.through = 9; return h }
	topic := drains(onTopic(8, Hold{}))
	k, l := drains(onKey(7, "k", Hold{})), drains(onKey(9, "l", Hold{}))
	held := func(key string, id int64) Hold { return onKey(id, key, Hold{through: 9}) }
	runPlanCases(t, map[string]planCase{
		"withheld behind a retry: parked behind it": {rules: r, events: events(keyed(1, "k"), keyed(2, "other"), keyed(3, "k")),
			sent: []int64{1, 2, 3}, outcomes: outcomes(Record, Delivered, Withheld), want: lines("sent 1", heldKey, "parked 1 behind 100"+failed, "parked 3 behind 100")},
		"withheld behind an unknown outcome: parked behind the topic's hold": {rules: r, events: events(keyed(1, "k"), keyed(2, "k"), unkeyed(3)),
			sent: []int64{1, 2, 3}, outcomes: outcomes(Infrastructure, Withheld, Withheld),
			want: lines(heldTopic, "parked 1 behind 100", "parked 2 behind 100", "parked 3 behind 100")},
		"withheld before the topic was found held: by its key, and then the topic": {rules: r, events: events(keyed(1, "k"), keyed(2, "other"), keyed(3, "k")),
			sent: []int64{1, 2, 3}, outcomes: outcomes(Withheld, Infrastructure, Withheld),
			want: lines("hold 100 on key t/k: retry WITHHELD, failed 0, probe in 1s, new", "hold 101 on topic t: infrastructure infrastructure, failed 1, probe in 250ms, new",
				"parked 1 behind 100", "parked 2 behind 101", "parked 3 behind 100")},
		"withheld for another topic's sake": {rules: r, events: events(keyed(1, "k"), with(keyed(2, "k"), u)),
			sent: []int64{1, 2}, outcomes: outcomes(Infrastructure, Withheld),
			want: lines(heldTopic, "hold 101 on key u/k: retry WITHHELD, failed 0, probe in 1s, new", "parked 1 behind 100", "parked 2 behind 101")},
		"withheld after a given up event: it goes when that is written": {rules: r, events: events(keyed(1, "k"), keyed(2, "k"), keyed(3, "k")),
			sent: []int64{1, 2, 3}, outcomes: outcomes(Permanent, Withheld, Withheld),
			want: lines("hold 100 on key t/k: retry WITHHELD, failed 0, draining, new", "exhausted 1 (attempt 1: permanent permanent)", "parked 2 behind 100", "parked 3 behind 100")},
		"withheld without a key is not behind the retry of the empty key": {rules: r, events: events(keyed(1, ""), unkeyed(2)),
			sent: []int64{1, 2}, outcomes: outcomes(Record, Withheld),
			want: lines("hold 100 on key t/: retry record, failed 1, probe in 1s, new", "parked 1 behind 100"+failed, "scheduled 2 in 1s")},
		"many failures of one topic are one hold": {rules: r, events: events(keyed(1, "k"), keyed(2, "other"), unkeyed(3)),
			sent: []int64{1, 2, 3}, outcomes: outcomes(Infrastructure, Route, Infrastructure),
			want: lines(heldTopic, "parked 1 behind 100", "parked 2 behind 100", "parked 3 behind 100")},
		"failures of two topics are two holds": {rules: r, events: events(keyed(1, "k"), with(keyed(2, "k"), u)),
			sent: []int64{1, 2}, outcomes: outcomes(Infrastructure, Route),
			want: lines(heldTopic, "hold 101 on topic u: route route, failed 1, probe in 1s, new", "parked 1 behind 100", "parked 2 behind 101")},
		"two keys that retry are two holds": {rules: r, events: events(keyed(1, "k"), keyed(2, "l")), sent: []int64{1, 2}, outcomes: outcomes(Record, Record),
			want: lines(heldKey, "hold 101 on key t/l: retry record, failed 1, probe in 1s, new", "parked 1 behind 100"+failed, "parked 2 behind 101"+failed)},
		"proven and then renewed: it stays held": {rules: r, events: events(keyed(1, "a"), keyed(2, "b")), holds: []Hold{topic}, from: []int64{8, 8},
			sent: []int64{1, 2}, outcomes: outcomes(Delivered, Infrastructure), want: lines("gone [1]", topicAgain, "parked 2 behind 8")},
		"renewed and then proven: it stays held too": {rules: r, events: events(keyed(1, "a"), keyed(2, "b")), holds: []Hold{topic}, from: []int64{8, 8},
			sent: []int64{1, 2}, outcomes: outcomes(Infrastructure, Delivered), want: lines("gone [2]", topicAgain, "parked 1 behind 8")},
		"a renewed key does not keep another key held": {rules: r, events: events(keyed(1, "k"), keyed(2, "l")), holds: []Hold{held("k", 7), held("l", 9)}, from: []int64{7, 9},
			sent: []int64{1, 2}, outcomes: outcomes(Record, Delivered), want: lines("gone [2]", keyAgain, "hold 9 on key t/l:  , failed 0, draining", "parked 1 behind 7"+failed)},
		"a renewed topic does not keep a proven key held": {rules: r, events: events(keyed(1, "k"), keyed(2, "l")), holds: []Hold{held("k", 7), topic}, from: []int64{7, 8},
			sent: []int64{1, 2}, outcomes: outcomes(Delivered, Infrastructure), want: lines("gone [1]", keyOpen, topicAgain, "parked 2 behind 8")},
		"what is taken behind one that fails again stays behind its hold": {rules: r, events: events(keyed(1, "k"), keyed(2, "l"), keyed(3, "k")), holds: []Hold{k, l}, from: []int64{7, 9, 7},
			sent: []int64{1, 2, 3}, outcomes: outcomes(Record, Delivered, Withheld), want: lines("gone [2]", keyAgain, "parked 1 behind 7"+failed, "parked 3 behind 7")},
		"given up while its key drains: the others go when that is written": {rules: r, events: events(keyed(1, "k"), keyed(2, "k")), holds: []Hold{k}, from: []int64{7, 7},
			sent: []int64{1, 2}, outcomes: outcomes(Permanent, Withheld),
			want: lines("hold 7 on key t/k: retry WITHHELD, failed 0, draining", "exhausted 1 (attempt 1: permanent permanent)", "parked 2 behind 7")},
		"given up while its topic drains": {rules: r, events: events(keyed(1, "k"), keyed(2, "k")), holds: []Hold{topic}, from: []int64{8, 8},
			sent: []int64{1, 2}, outcomes: outcomes(Permanent, Withheld),
			want: lines("hold 100 on key t/k: retry WITHHELD, failed 0, draining, new", "exhausted 1 (attempt 1: permanent permanent)", "parked 2 behind 100")},
		"from a key's hold into that of its topic": {rules: r, events: events(keyed(1, "k"), keyed(2, "k")), holds: []Hold{k, onTopic(8, Hold{})}, from: []int64{7, 7},
			want: lines("parked 1 behind 8", "parked 2 behind 8")},
		"given up by hand: all that waits, sendable or not": {rules: r, giveUp: true, events: events(keyed(1, "k"), with(unkeyed(2), unencodable),
			with(keyed(3, "k"), func(e *Event) { e.LastErrorCode, e.LastError = "X", "why" })), holds: []Hold{topic}, from: []int64{8, 8, 8},
			want: lines("exhausted 1 (attempt 1: permanent SKIPPED)", "exhausted 2 (attempt 1: permanent SKIPPED)", "exhausted 3 (attempt 1: permanent X)")},
	})
}

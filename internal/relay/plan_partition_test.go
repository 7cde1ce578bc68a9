package relay

import "testing"

// TestPlanHoldsPartitions: a failure by the fault of one partition holds that partition, and nothing else. Of four
// partitions "a" is on 1, "bb" on 2, and "ccccc" on 1 of four and on 5 of eight.
func TestPlanHoldsPartitions(t *testing.T) {
	t.Parallel()
	r := rulesOf(TopicSettings{})
	away := func(partition int32) Outcome {
		return Outcome{Class: Infrastructure, Code: "X", Message: "why", Partition: partition, Partitions: 4}
	}
	ok, withheld := Outcome{Class: Delivered}, Outcome{Class: Withheld}
	const (
		one    = "hold 100 on partition t 1 of 4: infrastructure X, failed 1, probe in 250ms, new"
		proven = "hold 9 on partition t 1 of 4:  , failed 0, draining"
	)
	part := func(h Hold) Hold { return onPartition(9, 1, 4, h) }
	topic := func(h Hold) Hold { return onTopic(8, h) }
	runPlanCases(t, map[string]planCase{
		"a key of it waits, keys of others go": {rules: r, events: events(keyed(1, "a"), keyed(2, "bb"), keyed(3, "a")),
			sent: []int64{1, 2, 3}, outcomes: []Outcome{away(1), ok, withheld}, want: lines("sent 1", one, "parked 1 behind 100", "parked 3 behind 100")},
		"two keys of it are one hold": {rules: r, events: events(keyed(1, "a"), keyed(2, "ccccc")),
			sent: []int64{1, 2}, outcomes: []Outcome{away(1), away(1)}, want: lines(one, "parked 1 behind 100", "parked 2 behind 100")},
		"two partitions are two holds": {rules: r, events: events(keyed(1, "a"), keyed(2, "bb")),
			sent: []int64{1, 2}, outcomes: []Outcome{away(1), away(2)},
			want: lines(one, "hold 101 on partition t 2 of 4: infrastructure X, failed 1, probe in 250ms, new", "parked 1 behind 100", "parked 2 behind 101")},
		"an event without a key tries another one": {rules: r, events: events(unkeyed(1), unkeyed(2)),
			sent: []int64{1, 2}, outcomes: []Outcome{away(1), ok}, want: lines("sent 1", "scheduled 1 in 1s")},
		"held: its keys wait, other keys and events without one go": {rules: r, events: events(keyed(1, "a"), keyed(2, "bb"), unkeyed(3), keyed(4, "ccccc")),
			holds: []Hold{part(Hold{})}, sent: []int64{2, 3}, outcomes: []Outcome{ok, ok}, want: lines("sent 2", "parked 1 behind 9", "parked 4 behind 9")},
		"the probe gets through": {rules: r, events: events(keyed(1, "a")), holds: []Hold{part(Hold{through: 1})}, from: []int64{9},
			sent: []int64{1}, outcomes: []Outcome{ok}, want: lines("gone [1]", proven)},
		"the probe fails: its pause doubles": {rules: r, events: events(keyed(1, "a")), holds: []Hold{part(Hold{Probes: 3, through: 1})}, from: []int64{9},
			sent: []int64{1}, outcomes: []Outcome{away(1)},
			want: lines("hold 9 on partition t 1 of 4: infrastructure X, failed 4, probe in 2s", "parked 1 behind 9")},
		"the probe is refused by its own fault: the partition is there": {rules: r, events: events(keyed(1, "a")), holds: []Hold{part(Hold{through: 1})}, from: []int64{9},
			sent: []int64{1}, outcomes: outcomes(Permanent), want: lines(proven, "exhausted 1 (attempt 1: permanent permanent)")},
		"the topic's hold ends when the fault is one partition's": {rules: r, events: events(keyed(1, "a")), holds: []Hold{topic(Hold{Cause: CauseRoute, through: 1})}, from: []int64{8},
			sent: []int64{1}, outcomes: []Outcome{away(1)}, want: lines("hold 8 on topic t: route , failed 0, draining", one, "parked 1 behind 100")},
		"and without a key": {rules: r, events: events(unkeyed(1)), holds: []Hold{topic(Hold{Cause: CauseInfrastructure, through: 1})}, from: []int64{8},
			sent: []int64{1}, outcomes: []Outcome{away(1)}, want: lines("hold 8 on topic t: infrastructure , failed 0, draining", "scheduled 1 in 1s")},
		"the topic fails, with an existing hold of any cause": {rules: r, events: events(keyed(1, "a")), from: []int64{8},
			holds: []Hold{topic(Hold{Cause: CauseRoute, Probes: 2, through: 1}), part(Hold{through: 1})}, sent: []int64{1}, outcomes: outcomes(Infrastructure),
			want: lines("hold 8 on topic t: infrastructure infrastructure, failed 3, probe in 1s", "parked 1 behind 8")},
		"its writer chose the partition: the key's own does not bear on it": {rules: r, events: events(chosen(1, keyed(1, "bb")), chosen(2, keyed(2, "a")), chosen(1, unkeyed(3)), chosen(2, unkeyed(4))),
			holds: []Hold{part(Hold{})}, sent: []int64{2, 4}, outcomes: []Outcome{ok, ok}, want: lines("sent 2", "parked 1 behind 9", "parked 3 behind 9")},
		"chosen, without a key: it goes to no other partition": {rules: r, events: events(chosen(1, unkeyed(1)), unkeyed(2)),
			sent: []int64{1, 2}, outcomes: []Outcome{away(1), ok}, want: lines("sent 1", one, "parked 1 behind 100")},
		"a key's hold comes first":           {rules: r, events: events(keyed(1, "a")), holds: []Hold{onKey(7, "a", Hold{}), part(Hold{})}, want: "parked 1 behind 7"},
		"the partition's before the topic's": {rules: r, events: events(keyed(1, "a")), holds: []Hold{topic(Hold{}), part(Hold{})}, want: "parked 1 behind 9"},
		"delivered: all of them are proven": {rules: r, events: events(keyed(1, "a")), from: []int64{7},
			holds: []Hold{onKey(7, "a", Hold{through: 1}), part(Hold{through: 1}), topic(Hold{through: 1})}, sent: []int64{1}, outcomes: []Outcome{ok},
			want: lines("gone [1]", "hold 7 on key t/a:  , failed 0, draining", "hold 8 on topic t:  , failed 0, draining", proven)},
		"proven and renewed in one batch: it stays held": {rules: r, events: events(keyed(1, "a"), keyed(2, "ccccc")), holds: []Hold{part(Hold{Draining: true, through: 2})},
			from: []int64{9, 9}, sent: []int64{1, 2}, outcomes: []Outcome{ok, away(1)},
			want: lines("gone [1]", "hold 9 on partition t 1 of 4: infrastructure X, failed 1, probe in 250ms", "parked 2 behind 9")},
	})
}

// chosen is an event whose writer chose the partition.
func chosen(partition int32, e Event) Event {
	e.Partition = &partition
	return e
}

// TestPlanOfATopicThatGrew: the topic had four partitions and has eight; holds of both kinds bear on a key, and an event
// may go when all of them let it. If one of two decided alone, an event that waits behind the other would be overtaken.
func TestPlanOfATopicThatGrew(t *testing.T) {
	t.Parallel()
	r := rulesOf(TopicSettings{})
	held, first, both := Hold{}, Hold{through: 1}, Hold{Draining: true, through: 2}
	for name, c := range map[string]struct {
		old, new Hold
		sent     []int64
		want     string
	}{
		"the old one drains, the new one holds": {both, held, nil, lines("parked 1 behind 2", "parked 2 behind 2")},
		"the old one holds, the new one drains": {held, both, nil, lines("parked 1 behind 1", "parked 2 behind 1")},
		"both let the first through": {first, first, []int64{1}, lines("sent 1", "hold 1 on partition t 1 of 4:  , failed 0, draining",
			"hold 2 on partition t 5 of 8:  , failed 0, draining", "parked 2 behind 1")},
		"both drain": {both, both, []int64{1, 2}, "sent 2"},
	} {
		runPlanCases(t, map[string]planCase{name: {rules: r, events: events(keyed(1, "ccccc"), keyed(2, "ccccc")),
			holds: []Hold{onPartition(1, 1, 4, c.old), onPartition(2, 5, 8, c.new)}, sent: c.sent,
			outcomes: outcomes([]Class{Delivered, Delivered}[:len(c.sent)]...), want: c.want}})
	}
	runPlanCases(t, map[string]planCase{
		"keys that share the old partition and not the new one wait for the old one only": {rules: r, events: events(keyed(1, "a"), keyed(2, "ccccc")),
			holds: []Hold{onPartition(2, 5, 8, held)}, sent: []int64{1}, outcomes: outcomes(Delivered), want: lines("sent 1", "parked 2 behind 2")},
		"one that comes from the old hold meets the new one": {rules: r, events: events(keyed(1, "ccccc")), from: []int64{1},
			holds: []Hold{onPartition(1, 1, 4, both), onPartition(2, 5, 8, held)}, want: "parked 1 behind 2"},
		"one that comes from the new hold was let through by the old": {rules: r, events: events(keyed(1, "ccccc")), from: []int64{2},
			holds: []Hold{onPartition(1, 1, 4, both), onPartition(2, 5, 8, first)}, sent: []int64{1}, outcomes: outcomes(Delivered),
			want: lines("gone [1]", "hold 2 on partition t 5 of 8:  , failed 0, draining")},
	})
}

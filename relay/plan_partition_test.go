package relay

import "testing"

// TestPlanHoldsPartitions: what fails by the fault of one partition holds that partition, and nothing else.
// Of four partitions "a" is on 1, "bb" on 2, and "ccccc" on 1 of four and on 5 of eight.
func TestPlanHoldsPartitions(t *testing.T) {
	t.Parallel()
	r := rulesOf(TopicSettings{})
	away := func(partition int32) Outcome {
		return Outcome{Class: Infrastructure, Code: "X", Message: "why", Partition: partition, Partitions: 4}
	}
	ok, withheld := Outcome{Class: Delivered}, Outcome{Class: Withheld}
	const one = "hold #0 on partition t 1 of 4: infrastructure X, failed 1, probe in 250ms"
	topic := func(h Hold) *Hold { return onTopic(8, h) }
	runPlanCases(t, map[string]planCase{
		"a key of it waits, those of others go": {
			rules: r, batch: Batch{Events: events(keyed(1, "a"), keyed(2, "bb"), keyed(3, "a"))},
			sent: []int64{1, 2, 3}, outcomes: []Outcome{away(1), ok, withheld},
			want: lines("delivered [2]", one, "parked 1 under #0", "parked 3 under #0"),
		},
		"two keys of it are one hold": {
			rules: r, batch: Batch{Events: events(keyed(1, "a"), keyed(2, "ccccc"))},
			sent: []int64{1, 2}, outcomes: []Outcome{away(1), away(1)},
			want: lines(one, "parked 1 under #0", "parked 2 under #0"),
		},
		"two partitions are two holds": {
			rules: r, batch: Batch{Events: events(keyed(1, "a"), keyed(2, "bb"))},
			sent: []int64{1, 2}, outcomes: []Outcome{away(1), away(2)},
			want: lines(one, "hold #1 on partition t 2 of 4: infrastructure X, failed 1, probe in 250ms", "parked 1 under #0", "parked 2 under #1"),
		},
		"an event without a key tries another one": {
			rules: r, batch: Batch{Events: events(unkeyed(1), unkeyed(2))},
			sent: []int64{1, 2}, outcomes: []Outcome{away(1), ok},
			want: lines("delivered [2]", "scheduled 1 in 1s"),
		},
		"held: its keys wait, others and those without go": {
			rules: r, batch: Batch{Events: events(keyed(1, "a"), keyed(2, "bb"), unkeyed(3), keyed(4, "ccccc")),
				Holds: holdsOf(onPartition(9, 1, 4, Hold{Through: through(0)}))},
			sent: []int64{2, 3}, outcomes: []Outcome{ok, ok},
			want: lines("delivered [2 3]", "parked 1 under hold 9", "parked 4 under hold 9"),
		},
		"held, and nothing of this shard parked yet: they wait too": {
			rules: r, batch: Batch{Events: events(keyed(1, "a")), Holds: holdsOf(onPartition(9, 1, 4, Hold{Through: map[int16]int64{7: 50}}))},
			want: "parked 1 under hold 9",
		},
		"the probe gets through": {
			rules: r, batch: Batch{Events: events(keyed(1, "a"), keyed(2, "a")), Holds: holdsOf(onPartition(9, 1, 4, Hold{Through: through(1)}))},
			sent: []int64{1}, outcomes: []Outcome{ok},
			want: lines("delivered [1]", "parked 2 under hold 9", "proven 9"),
		},
		"the probe fails: its pause doubles": {
			rules: r, batch: Batch{Events: events(keyed(1, "a")), Holds: holdsOf(onPartition(9, 1, 4, Hold{Probes: 3, Through: through(1)}))},
			sent: []int64{1}, outcomes: []Outcome{away(1)},
			want: lines("hold #0 on partition t 1 of 4: infrastructure X, failed 4, probe in 2s", "parked 1 under #0"),
		},
		"the probe is refused by its own fault: the partition is there": {
			rules: r, batch: Batch{Events: events(keyed(1, "a")), Holds: holdsOf(onPartition(9, 1, 4, Hold{Through: through(1)}))},
			sent: []int64{1}, outcomes: outcomes(Permanent),
			want: lines("exhausted 1 (attempt 1: permanent permanent)", "proven 9"),
		},
		"the topic's hold ends when the fault is one partition's": {
			rules: r, batch: Batch{Events: events(keyed(1, "a")), Holds: holdsOf(topic(Hold{Cause: CauseRoute, Through: through(1)}))},
			sent: []int64{1}, outcomes: []Outcome{away(1)},
			want: lines(one, "parked 1 under #0", "proven 8"),
		},
		"and without a key": {
			rules: r, batch: Batch{Events: events(unkeyed(1)), Holds: holdsOf(topic(Hold{Cause: CauseInfrastructure, Through: through(1)}))},
			sent: []int64{1}, outcomes: []Outcome{away(1)},
			want: lines("scheduled 1 in 1s", "proven 8"),
		},
		"but a storm does not": {
			rules: r, batch: Batch{Events: events(keyed(1, "a")), Holds: holdsOf(topic(Hold{Cause: CauseStorm, Through: through(1)}))},
			sent: []int64{1}, outcomes: []Outcome{away(1)},
			want: lines(one, "parked 1 under #0"),
		},
		"nor commit order": {
			rules: r, batch: Batch{Events: events(keyed(1, "a")), Holds: holdsOf(topic(Hold{Cause: CauseCommitOrder, Draining: true, Through: through(1)}))},
			sent: []int64{1}, outcomes: []Outcome{away(1)},
			want: lines(one, "parked 1 under #0"),
		},
		"the topic fails, with an existing hold of any cause": {
			rules: r, batch: Batch{Events: events(keyed(1, "a")), Holds: holdsOf(topic(Hold{Cause: CauseRoute, Probes: 2, Through: through(1)}), onPartition(9, 1, 4, Hold{Through: through(1)}))},
			sent: []int64{1}, outcomes: outcomes(Infrastructure),
			want: lines("hold #0 on topic t: infrastructure infrastructure, failed 3, probe in 1s", "parked 1 under #0"),
		},
		"a key's hold comes first": {
			rules: r, batch: Batch{Events: events(keyed(1, "a")), Holds: holdsOf(onKey(7, "a", Hold{Through: through(0)}), onPartition(9, 1, 4, Hold{Through: through(0)}))},
			want: "parked 1 under hold 7",
		},
		"the partition's before the topic's": {
			rules: r, batch: Batch{Events: events(keyed(1, "a")), Holds: holdsOf(topic(Hold{Through: through(0)}), onPartition(9, 1, 4, Hold{Through: through(0)}))},
			want: "parked 1 under hold 9",
		},
		"delivered: all of them are proven": {
			rules: r, batch: Batch{Events: events(keyed(1, "a")), Holds: holdsOf(onKey(7, "a", Hold{Through: through(1)}), onPartition(9, 1, 4, Hold{Through: through(1)}), topic(Hold{Through: through(1)}))},
			sent: []int64{1}, outcomes: []Outcome{ok},
			want: lines("delivered [1]", "proven 7", "proven 8", "proven 9"),
		},
		"proven and renewed in one batch: it stays held": {
			rules: r, batch: Batch{Events: events(keyed(1, "a"), keyed(2, "ccccc")), Holds: holdsOf(onPartition(9, 1, 4, Hold{Through: through(2)}))},
			sent: []int64{1, 2}, outcomes: []Outcome{ok, away(1)},
			want: lines("delivered [1]", one, "parked 2 under #0"),
		},
	})
}

// TestPlanOfATopicThatGrew: the topic had four partitions and has eight; holds of both kinds bear on a key,
// and an event may go when all of them let it. If one of two decided alone, an event that waits behind the
// other would be overtaken.
func TestPlanOfATopicThatGrew(t *testing.T) {
	t.Parallel()
	r := rulesOf(TopicSettings{})
	drained := Hold{Draining: true, Through: map[int16]int64{7: 50}} // what came back is elsewhere
	for _, c := range []struct {
		name     string
		old, new Hold
		sent     []int64
		want     string
	}{
		{"the old one drains, the new one holds", drained, Hold{Through: through(0)}, nil, lines("parked 1 under hold 2", "parked 2 under hold 2")},
		{"the old one holds, the new one drains", Hold{Through: through(0)}, drained, nil, lines("parked 1 under hold 1", "parked 2 under hold 1")},
		{"both let the first through", Hold{Through: through(1)}, Hold{Through: through(1)}, []int64{1}, lines("delivered [1]", "parked 2 under hold 1", "proven 1", "proven 2")},
		{"both drain", drained, drained, []int64{1, 2}, "delivered [1 2]"},
	} {
		// In whichever order the claim reads them.
		for _, hs := range [][]*Hold{
			{onPartition(1, 1, 4, c.old), onPartition(2, 5, 8, c.new)},
			{onPartition(2, 5, 8, c.new), onPartition(1, 1, 4, c.old)},
		} {
			p := newPlan(&Batch{Events: events(keyed(1, "ccccc"), keyed(2, "ccccc")), Holds: holdsOf(hs...)}, r)
			sent := sentIDs(p)
			for i := range sent {
				p.settle(i, &Outcome{Class: Delivered})
			}
			got := describe(p.settlement())
			if c.name == "both let the first through" && hs[0].ID == 2 {
				c.want = lines("delivered [1]", "parked 2 under hold 2", "proven 1", "proven 2")
			}
			if len(sent) != len(c.sent) || got != c.want {
				t.Errorf("%s: sent %v\n%s\nwant:\n%s", c.name, sent, got, c.want)
			}
		}
	}
	// Keys that share the old partition with it and not the new one wait for the old one only.
	p := newPlan(&Batch{Events: events(keyed(1, "a"), keyed(2, "ccccc")), Holds: holdsOf(onPartition(2, 5, 8, Hold{Through: through(0)}))}, r)
	if got := sentIDs(p); len(got) != 1 || got[0] != 1 {
		t.Errorf("sent %v, want the key of the other new partition", got)
	}
}

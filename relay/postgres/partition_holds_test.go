package postgres

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/postrider/postrider/relay"
	"github.com/postrider/postrider/relay/outbox"
)

func partitionHold(partition, partitions int32, probeIn time.Duration) relay.HoldChange {
	return relay.HoldChange{Scope: relay.ScopePartition, Topic: "t", Partition: partition, Partitions: partitions,
		Cause: relay.CauseInfrastructure, Code: "X", Error: "why", EventID: uuid.New(), Probes: 1, ProbeIn: probeIn}
}

// byLength puts a key where memory does.
func byLength(key []byte, n int32) int32 { return int32(len(key)) % n }

// TestPartitionHoldsOfTwoCounts: a topic that grew from four partitions to eight has holds by both numbers.
// They are renewed, listed and ended each by itself, and every claim sees both.
func TestPartitionHoldsOfTwoCounts(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	// "five5" is on 1 of 4 and 5 of 8, "nine99999" on 1 of both, "2b" on 2 of both.
	f.insert("five5", "nine99999", "2b")
	c := f.claim()
	s := &relay.Settlement{Delivered: []int64{3}, Holds: []relay.HoldChange{partitionHold(1, 4, 0), partitionHold(5, 8, time.Hour)}}
	for _, e := range c.Batch().Events {
		if e.ID == 3 {
			continue
		}
		s.Parked = append(s.Parked, relay.Park{ID: e.ID, Shard: e.Shard, Hold: map[int64]int{1: 1, 2: 0}[e.ID]})
	}
	f.settle(c, s)
	f.wantStates("1:parked 2:parked 3:published")
	f.insert("five5", "nine99999", "2b")
	waits := func() (ids []int64) {
		c := f.claim()
		defer c.Abandon()
		b := c.Batch()
		for i := range b.Events {
			if b.Holds.WaitsFor(&b.Events[i], byLength) != nil {
				ids = append(ids, b.Events[i].ID)
			}
		}
		return sorted(ids)
	}
	if got := waits(); !slices.Equal(got, []int64{4, 5}) {
		t.Errorf("%v wait, want 4 and 5", got)
	}
	// One of them is renewed: the other stays as it is.
	c = f.claim()
	again := partitionHold(5, 8, time.Hour)
	again.Probes, again.Code = 7, "Y"
	f.settle(c, &relay.Settlement{Holds: []relay.HoldChange{again}})
	if got := value[string](f, `select string_agg(concat_ws(' ', partition, partitions, probes, error_code), ', ' order by partition) from postrider.outbox_hold`); got != "1 4 1 X, 5 8 7 Y" {
		t.Errorf("the holds are %s", got)
	}
	holds, err := f.store.Holds(t.Context(), HoldFilter{Topic: "t", Cause: relay.CauseInfrastructure})
	if err != nil || len(holds) != 2 || *holds[0].Partition != 1 || *holds[1].Partition != 5 || *holds[0].Partitions != 4 || *holds[1].Partitions != 8 || holds[0].Scope != relay.ScopePartition || holds[1].Parked != 1 {
		t.Errorf("listed are %+v, %v", holds, err)
	}
	// The old one ends; the key that is on both still waits for the new one.
	f.turn(1000)
	c = f.claim()
	f.settle(c, &relay.Settlement{Delivered: []int64{2}, Proven: []int64{1}})
	for f.holds() > 1 {
		if got := f.turn(1000); got == (relay.Returned{}) {
			t.Fatal("the hold of 1 of 4 does not end")
		}
	}
	if got := waits(); !slices.Equal(got, []int64{4}) {
		t.Errorf("%v wait, want 4 for 5 of 8", got)
	}
}

// TestPartitionHoldsOfUnknownPartitionsAreRefused: a partition out of range would hold nothing for ever.
func TestPartitionHoldsOfUnknownPartitionsAreRefused(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for _, p := range [][2]any{{4, 4}, {-1, 4}, {nil, 4}, {1, nil}, {0, 0}} {
		if _, err := f.pool.Exec(t.Context(), `insert into postrider.outbox_hold (scope, topic, cause, next_probe_at, partition, partitions) values ('partition', 't', 'route', now(), $1, $2)`, p[0], p[1]); err == nil {
			t.Errorf("partition %v of %v is taken", p[0], p[1])
		}
	}
	if _, err := f.pool.Exec(t.Context(), `insert into postrider.outbox_hold (scope, topic, cause, next_probe_at, partition, partitions) values ('topic', 't', 'route', now(), 1, 4)`); err == nil {
		t.Error("a topic hold of a partition is taken")
	}
}

// TestTopicThatGrows: the whole relay; a partition is away, then the topic has twice as many and another one
// is away, while events keep coming. When all are back every key arrives in order.
func TestTopicThatGrows(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	b := &memory{}
	away := func(partition, partitions int32) {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.outcome = func(m *relay.Message) relay.Outcome {
			if m.Key != nil && byLength(m.Key, partitions) == partition {
				return relay.Outcome{Class: relay.Infrastructure, Code: "AWAY", Message: "why", Partition: partition, Partitions: partitions}
			}
			return relay.Outcome{Class: relay.Delivered}
		}
	}
	keys := []string{"1", "22", "five5", "nine99999", "thirteen13131"}
	round := 0
	write := func() {
		for range 3 {
			for _, k := range keys {
				f.writes("t", k, fmt.Sprintf("%02d", round))
			}
			f.insert("-")
			round++
		}
	}
	away(1, 4)
	write()
	f.run(b, relay.ForAll(relay.TopicSettings{}), nil)
	f.run(b, relay.ForAll(relay.TopicSettings{}), nil)
	f.waitFor(`select exists (select from postrider.outbox_hold where partition = 1 and partitions = 4)`)
	f.waitFor(`select count(*) = 3 from postrider.outbox_event where key = '22' and state = 'published'`)
	away(5, 8)
	write()
	f.waitFor(`select exists (select from postrider.outbox_hold where partition = 5 and partitions = 8)`)
	f.waitFor(`select count(*) = 6 from postrider.outbox_event where key = '1' and state = 'published'`)
	write()
	for _, k := range []string{"five5", "thirteen13131"} {
		if got := b.arrived("t", k); got != "" {
			t.Errorf("%s of %s arrived on a partition that is away", got, k)
		}
	}
	b.mend()
	write()
	f.drained()
	for _, k := range keys {
		want := ""
		for n := range round {
			want += fmt.Sprintf("%02d ", n)
		}
		if got := b.arrived("t", k) + " "; got != want {
			t.Errorf("%s arrived as %s", k, got)
		}
	}
	if n := value[int](f, `select count(*) from postrider.outbox_event where state <> $1`, outbox.Published); n != 0 {
		t.Errorf("%d events are not published", n)
	}
}

// TestHeldSinceItsCause: how long a topic has been missing is not counted from an outage before it.
func TestHeldSinceItsCause(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.insert("-")
	f.hold(topicHold("t", 0))
	f.exec(`update postrider.outbox_hold set held_at = now() - interval '2 hours', next_probe_at = 'infinity'`)
	age := func() time.Duration {
		f.insert("-")
		c := f.claim()
		defer c.Abandon()
		b := c.Batch()
		return b.Holds.WaitsFor(&b.Events[0], byLength).Age
	}
	if got := age(); got < 2*time.Hour {
		t.Fatalf("held for %v", got)
	}
	renew := func(cause relay.Cause) {
		h := topicHold("t", time.Hour)
		h.Cause = cause
		c := f.claim()
		f.settle(c, &relay.Settlement{Holds: []relay.HoldChange{h}})
	}
	renew(relay.CauseInfrastructure)
	if got := age(); got < 2*time.Hour {
		t.Errorf("renewed for the same cause it counts anew: %v", got)
	}
	renew(relay.CauseRoute)
	if got := age(); got > time.Hour {
		t.Errorf("missing for %v, want since now", got)
	}
}

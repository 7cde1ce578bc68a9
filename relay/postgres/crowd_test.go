package postgres

import (
	"crypto/sha256"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/postrider/postrider/relay"
)

// shardOf is the shard of a key, as the database computes it.
func shardOf(topic, key string) int16 {
	sum := sha256.Sum256([]byte(topic + "\x00" + key))
	return int16(sum[0] & 63)
}

// neighbour is a key of topic t that shares its shard with key.
func neighbour(key string) string {
	for n := 0; ; n++ {
		if k := fmt.Sprintf("neighbour-%d", n); shardOf("t", k) == shardOf("t", key) {
			return k
		}
	}
}

// crowded settles a claim of the first events: they are delivered, and key h is looked at behind them.
func (f *fixture) crowded(first int) {
	f.Helper()
	c := f.claimBy(f.store, relay.Limits{Events: first})
	ids := claimed(c)
	if len(ids) != first {
		f.Fatalf("claimed %v, want %d events", ids, first)
	}
	const parked = `select count(*) from postrider.outbox_event where state = 'parked'`
	before := value[int64](f, parked)
	s := &relay.Settlement{Delivered: ids, Crowds: []relay.Crowd{{Shard: shardOf("t", "h"), Topic: "t", Key: []byte("h"), After: ids[len(ids)-1]}}}
	f.settle(c, s)
	if now := value[int64](f, parked); s.Crowds[0].Parked != now-before {
		f.Errorf("the look says that it parked %d, and %d were", s.Crowds[0].Parked, now-before)
	}
}

func TestCrowdOfNobodyElse(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.insert("h", "h", "h", "h", "h")
	f.insertInto("elsewhere", "x", "y", "z") // other shards' events are not kept waiting
	f.exec(`update postrider.outbox_event set state = 'published' where topic = 'elsewhere'`)
	f.crowded(2)
	f.wantStates("1:published 2:published 3:pending 4:pending 5:pending 6:published 7:published 8:published")
	if f.holds() != 0 {
		t.Error("a key that keeps nobody waiting is held")
	}
}

// TestCrowdOfManyThousands: those who wait behind more events of one key than a look reads are found by the next looks,
// which go on where the last one ended; and nothing is parked as long as there is nobody.
func TestCrowdOfManyThousands(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	const hot = crowdReach + 20_000
	f.exec(`insert into postrider.outbox_event (topic, key) select 't', 'h' from generate_series(1, $1::int)`, hot)
	look := func(beyond int64, want relay.Crowd) {
		t.Helper()
		c := f.claimBy(f.store, relay.Limits{Events: 10})
		ids := claimed(c)
		s := &relay.Settlement{Delivered: ids, Crowds: []relay.Crowd{{Shard: shardOf("t", "h"), Topic: "t", Key: []byte("h"), After: slices.Max(ids), Beyond: beyond}}}
		f.settle(c, s)
		got := s.Crowds[0]
		if want.Looked == 0 { // it is from the batch on
			want.Alone = max(want.Alone, got.After)
		}
		if got.Parked != want.Parked || got.Alone != want.Alone || got.Looked != want.Looked || got.More != want.More {
			t.Errorf("a look beyond %d, behind %d: parked %d, alone to %d, looked at %d, more %v, want %d, %d, %d, %v", beyond, got.After,
				got.Parked, got.Alone, got.Looked, got.More, want.Parked, want.Alone, want.Looked, want.More)
		}
		if n := f.holds(); (n > 0) != (want.Parked > 0) {
			t.Errorf("%d holds after parking %d", n, want.Parked)
		}
	}
	first := int64(10 + crowdReach)
	look(0, relay.Crowd{Alone: first, Looked: crowdReach, More: true})
	look(first, relay.Crowd{Alone: hot, Looked: hot - first})
	look(hot, relay.Crowd{Alone: hot})
	f.insert(neighbour("h"))
	look(hot, relay.Crowd{Alone: hot, Parked: crowdLook})
}

// TestCrowdStepsAsideAndComesBackInTurns: the others of its shard go first; what came back last must be
// sent before the next ones come.
func TestCrowdStepsAsideAndComesBackInTurns(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.insert("h", "h", "h", "h", "h", "h", "h", neighbour("h"), "h")
	f.crowded(2)
	f.wantStates("1:published 2:published 3:parked 4:parked 5:parked 6:parked 7:parked 8:pending 9:parked")
	got := value[string](f, `select concat_ws(' ', scope, topic, convert_from(key, 'UTF8'), cause, error_code, draining, next_probe_at <= clock_timestamp(), shard, returned_through)
		from postrider.outbox_hold join postrider.outbox_hold_shard using (hold_id)`)
	if want := fmt.Sprintf("key t h crowded CROWDED t t %d 2", shardOf("t", "h")); got != want {
		t.Errorf("the hold is %s, want %s", got, want)
	}
	f.insert("h", neighbour("h"))
	f.delivers(nil, 8, 11)
	f.wantStates("1:published 2:published 3:parked 4:parked 5:parked 6:parked 7:parked 8:published 9:parked 10:parked 11:published")

	if got := f.turn(3); got != (relay.Returned{Events: 3}) {
		t.Errorf("the first turn: %+v", got)
	}
	if got := f.turn(3); got != (relay.Returned{}) {
		t.Errorf("before the last ones are sent: %+v", got)
	}
	f.delivers(nil, 3, 4, 5)
	if got := f.turn(3); got != (relay.Returned{Events: 3}) {
		t.Errorf("the second turn: %+v", got)
	}
	f.insert("h") // while 6, 7 and 9 are on their way
	f.delivers(nil, 6, 7, 9)
	f.wantStates("1:published 2:published 3:published 4:published 5:published 6:published 7:published 8:published 9:published 10:parked 11:published 12:parked")
	if got := f.turn(3); got != (relay.Returned{Events: 2, Holds: 1}) {
		t.Errorf("the last turn: %+v", got)
	}
	f.insert("h")
	f.delivers(nil, 10, 12, 13)
}

// TestCrowdComesBackByHundreds: never more at once than others can wait for, whatever the relay's batch.
func TestCrowdComesBackByHundreds(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.exec(`insert into postrider.outbox_event (topic, key) select 't', 'h' from generate_series(1, 600)`)
	f.insert(neighbour("h"))
	f.crowded(10)
	for i, want := range []relay.Returned{{Events: 250}, {Events: 250}, {Events: 90, Holds: 1}} {
		if got := f.turn(1000); got != want {
			t.Errorf("turn %d: %+v, want %+v", i, got, want)
		}
		c := f.claim()
		f.settle(c, &relay.Settlement{Delivered: free(c)})
	}
	if n := value[int](f, `select count(*) from postrider.outbox_event where state <> 'published'`); n != 0 {
		t.Errorf("%d are left", n)
	}
}

// TestCrowdBehindAHoldThatIsThere: the hold stays what it is, whatever its cause, and what it has let
// through stays let through.
func TestCrowdBehindAHoldThatIsThere(t *testing.T) {
	t.Parallel()
	for _, cause := range []relay.Cause{relay.CauseRetry, relay.CauseHalted, relay.CauseRedrive, relay.CauseCrowded} {
		t.Run(string(cause), func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			f.insert("h", "h", "h", "h", "h", "h", neighbour("h"))
			f.exec(`insert into postrider.outbox_hold (scope, topic, key, cause, error_code, next_probe_at, draining, probes) values ('key', 't', 'h', $1, 'MINE', 'infinity', $2, 4)`,
				cause, cause == relay.CauseCrowded)
			f.exec(`insert into postrider.outbox_hold_shard values (1, $1, 4)`, shardOf("t", "h"))
			f.crowded(2)
			f.wantStates("1:published 2:published 3:pending 4:pending 5:parked 6:parked 7:pending")
			if got := value[string](f, `select concat_ws(' ', cause, error_code, probes, next_probe_at, returned_through, (select count(*) from postrider.outbox_hold))
				from postrider.outbox_hold join postrider.outbox_hold_shard using (hold_id)`); got != string(cause)+" MINE 4 infinity 4 1" {
				t.Errorf("the hold is %s", got)
			}
			f.delivers(nil, 3, 4, 7)
		})
	}
}

// TestCrowdLeavesDelayedEvents: as the probe of a hold one would prove nothing. One that came back at its
// time is like any other.
func TestCrowdLeavesDelayedEvents(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.insert("h", "h", "h", "h", "h", neighbour("h"))
	f.exec(`update postrider.outbox_event set available_at = now() + interval '1 hour' where id in (3, 4)`)
	f.exec(`update postrider.outbox_event set next_attempt_at = now() where id = 4`)
	f.crowded(2)
	f.wantStates("1:published 2:published 3:pending 4:parked 5:parked 6:pending")
}

// TestCrowdOfDelayedEvents: they are no others.
func TestCrowdOfDelayedEvents(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.insert("h", "h", "h", "h", "h")
	f.exec(`update postrider.outbox_event set available_at = now() + interval '1 hour' where id = 3`)
	f.crowded(2)
	f.wantStates("1:published 2:published 3:pending 4:pending 5:pending")
	if f.holds() != 0 {
		t.Error("a key that keeps nobody waiting is held")
	}
}

// TestCrowdBesideOtherTopics: events of another topic in its shard are others.
func TestCrowdBesideOtherTopics(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	other := ""
	for n := 0; shardOf("u", other) != shardOf("t", "h") || other == ""; n++ {
		other = fmt.Sprint(n)
	}
	f.insert("h", "h", "h")
	f.insertInto("u", other)
	f.crowded(1)
	f.wantStates("1:published 2:parked 3:parked 4:pending")
}

// TestCrowdOfOneBatchOnly: there is nothing of it behind the batch to be parked.
func TestCrowdOfOneBatchOnly(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.insert("h", "h", neighbour("h"))
	f.crowded(2)
	f.wantStates("1:published 2:published 3:pending")
	if f.holds() != 0 {
		t.Error("a key without waiting events is held")
	}
}

// TestCrowdThatFails: a failure while it comes back in turns holds the key as any failure does, and lets
// nothing more through.
func TestCrowdThatFails(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.insert("h", "h", "h", "h", "h", neighbour("h"))
	f.crowded(1)
	f.turn(2)
	c := f.claim()
	s := &relay.Settlement{Delivered: []int64{6}, Holds: []relay.HoldChange{keyHold("h", time.Hour)},
		Parked: []relay.Park{{ID: 2, Shard: shardOf("t", "h"), Failure: failure(2, 1)}}}
	f.settle(c, s)
	f.wantStates("1:published 2:parked(1) 3:pending 4:parked 5:parked 6:published")
	if got := f.theHold(); got != "key retry later" {
		t.Errorf("the hold is %s", got)
	}
	f.delivers(nil)
	f.due()
	f.turn(1000)
	f.delivers([]int64{1}, 2)
	f.turn(1000)
	f.delivers(nil, 3, 4, 5)
}

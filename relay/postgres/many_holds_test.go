package postgres

import (
	"fmt"
	"maps"
	"testing"
	"time"

	"github.com/postrider/postrider/relay"
)

// manyKeys is how many keys fail at once; a turn looks at a quarter of their holds.
const manyKeys = 4 * dueAtOnce

// failed puts so many keys into retry, each with two events behind its hold. The first hold is due first.
func (f *fixture) failed(keys int) {
	f.Helper()
	f.exec(`insert into postrider.outbox_event (topic, key) select 't', convert_to('k' || (n - 1) % $1 + 1, 'UTF8') from generate_series(1, 2 * $1) n`, keys)
	f.exec(`insert into postrider.outbox_hold (scope, topic, key, cause, event_id, probes, next_probe_at)
		select 'key', topic, key, 'retry', event_id, 1, now() + interval '1 day' + id * interval '1 millisecond'
		from postrider.outbox_event where id <= $1 order by id`, keys)
	f.exec(`insert into postrider.outbox_hold_shard (hold_id, shard) select h.hold_id, e.shard
		from postrider.outbox_hold h join postrider.outbox_event e on e.event_id = h.event_id`)
	f.exec(`update postrider.outbox_event e set state = 'parked', hold_id = h.hold_id, updated_at = now()
		from postrider.outbox_hold h where h.key = e.key`)
}

// TestManyKeysDueAtOnce: two thousand keys whose retries become due in one moment all have their probe within as
// many turns as it takes to look at them once, those due first in the first, while others go on to become due
// and some of their shards are in work.
func TestManyKeysDueAtOnce(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.failed(manyKeys)
	f.turn(1000) // looks for what the clock was put back under, and finds nothing: a day is no retry too far
	f.exec(`update postrider.outbox_hold set next_probe_at = next_probe_at - interval '1 day 1 hour'`)
	busy := shardOf("t", "k1")
	tx := f.busy(busy)
	const query = `select count(*) from postrider.outbox_event where state = 'pending'`
	inBusy := value[int](f, `select count(*) from postrider.outbox_event where id <= $1 and shard = $2`, manyKeys, busy)
	for n := range manyKeys / dueAtOnce {
		f.turn(1000)
		// The oldest first: whoever was due earlier has gone before, but those whose shard is in work.
		if late := value[int](f, `select count(*) from postrider.outbox_event where state = 'parked' and id <= $1 and shard <> $2`, (n+1)*dueAtOnce, busy); late != 0 {
			t.Errorf("after turn %d there are %d keys without a probe that were due before others", n+1, late)
		}
	}
	if got := value[int](f, query); got != manyKeys-inBusy {
		t.Errorf("%d keys have their probe, want the %d of the free shards", got, manyKeys-inBusy)
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	f.turn(1000)
	if got := value[int](f, query); got != manyKeys {
		t.Errorf("%d keys have their probe, want all %d", got, manyKeys)
	}
	if behind := value[int](f, `select count(*) from postrider.outbox_event where state = 'parked' and id > $1`, manyKeys); behind != manyKeys {
		t.Errorf("%d events are parked behind the probes, want %d", behind, manyKeys)
	}
	if due := value[int](f, `select count(*) from postrider.outbox_hold where next_probe_at <= clock_timestamp()`); due != 0 {
		t.Errorf("%d holds are still due", due)
	}
}

// TestManyKeysComeBack: the whole way of two thousand keys from their probes to the end of their holds takes a
// turn for each quarter of them and each step, and nothing passes an earlier one of its key.
func TestManyKeysComeBack(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.failed(manyKeys)
	f.exec(`update postrider.outbox_hold set next_probe_at = now()`)
	sent := map[string]int64{}
	turns := 0
	for deadline := time.Now().Add(time.Minute); f.holds() > 0; turns++ {
		if time.Now().After(deadline) {
			t.Fatalf("%d holds are left after %d turns", f.holds(), turns)
		}
		f.turn(1000)
		c, err := f.store.Claim(t.Context(), relay.Limits{Worker: "w/0", Shards: 64, Events: 10_000})
		f.done(err)
		if c == nil {
			continue
		}
		s := &relay.Settlement{Delivered: free(c)}
		if len(s.Delivered) != len(c.Batch().Events) {
			t.Error("what came back is kept back")
		}
		for _, e := range c.Batch().Events {
			if e.ID < sent[string(e.Key)] {
				t.Errorf("event %d of %s passes event %d", sent[string(e.Key)], e.Key, e.ID)
			}
			sent[string(e.Key)] = e.ID
			if e.ID <= manyKeys { // the first of its key, and so the probe of the hold with its number
				s.Proven = append(s.Proven, e.ID)
			}
		}
		f.settle(c, s)
	}
	for key, last := range sent {
		if last <= manyKeys {
			t.Errorf("of %s only event %d was sent", key, last)
		}
	}
	t.Logf("%d keys came back in %d turns", len(sent), turns)
	if most := 4 * manyKeys / dueAtOnce; len(sent) != manyKeys || turns > most {
		t.Errorf("%d keys came back in %d turns, want %d in %d at most", len(sent), turns, manyKeys, most)
	}
}

// TestOldestHoldAmongManyNewOnes: where as many holds become due all the time as a turn looks at, one that drains
// for long and is due before them has its turn again and again.
func TestOldestHoldAmongManyNewOnes(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	const events, limit = 1000, 250
	f.exec(`insert into postrider.outbox_hold (scope, topic, key, cause, draining, next_probe_at) values ('key', 't', 'a', 'retry', true, now() - interval '1 hour')`)
	f.exec(`insert into postrider.outbox_hold_shard (hold_id, shard) values (1, $1)`, shardOf("t", "a"))
	f.exec(`insert into postrider.outbox_event (topic, key, state, hold_id, updated_at) select 't', 'a', 'parked', 1, now() from generate_series(1, $1)`, events)
	back := 0
	for turn := range 20 {
		f.exec(`insert into postrider.outbox_hold (scope, topic, key, cause, next_probe_at)
			select 'key', 't', convert_to($2 || ' ' || n, 'UTF8'), 'retry', clock_timestamp() from generate_series(1, $1) n`, dueAtOnce, fmt.Sprint(turn))
		if back += f.turn(limit).Events; back == events {
			return
		}
	}
	t.Errorf("%d of %d events came back in twenty turns, %d at a time", back, events, limit)
}

// TestHoldsAmongMany: where more keys are held than a batch has, the claims after the first ask for the holds of their
// own keys, and find what the first found: the hold of the key, of the topic and of the partition, and how far each
// has let events through; and a key whose hold has no parked event in the shard goes.
func TestHoldsAmongMany(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.failed(manyHolds + 50)
	f.exec(`update postrider.outbox_hold_shard set returned_through = 7 where hold_id = 1`)
	f.exec(`insert into postrider.outbox_hold (scope, topic, partition, partitions, cause, next_probe_at) values
		('topic', 'away', null, null, 'route', 'infinity'), ('partition', 'part', 1, 2, 'infrastructure', 'infinity')`)
	f.exec(`insert into postrider.outbox_hold_shard (hold_id, shard, returned_through) select hold_id, $1, 9 from postrider.outbox_hold where scope = 'topic'`,
		shardOf("away", "a"))
	f.insert("k1", "free")
	f.exec(`insert into postrider.outbox_event (topic, key) select 'others', convert_to('o' || n, 'UTF8') from generate_series(1, 500) n`) // every shard has work
	f.insertInto("away", "a")
	f.insertInto("t", "k2")
	look := func() map[string]string {
		c := f.claim()
		defer c.Abandon()
		seen := map[string]string{}
		for _, e := range c.Batch().Events {
			h := heldBy(c.Batch(), &e)
			if h == nil {
				seen[e.Topic+"/"+string(e.Key)] = "goes"
				continue
			}
			seen[e.Topic+"/"+string(e.Key)] = fmt.Sprint(h.Scope, " ", h.Topic, " ", string(h.Key), " ", h.Cause, " ", h.Probes, " ", h.Draining, " ", h.Through[e.Shard])
		}
		return seen
	}
	whole := look()
	if len(whole) != 504 || whole["t/k1"] != "key t k1 retry 1 false 7" || whole["t/free"] != "goes" || whole["away/a"] != "topic away  route 0 false 9" {
		t.Fatalf("the first claim sees %d, among them %q, %q and %q", len(whole), whole["t/k1"], whole["t/free"], whole["away/a"])
	}
	for n := range 2 * manyHoldsAt {
		if got := look(); !maps.Equal(got, whole) {
			t.Fatalf("claim %d sees others than the first: %d and %d", n, len(got), len(whole))
		}
		if of := f.store.held.rest.Load(); n < manyHoldsAt && of != int64(manyHoldsAt-n-1) {
			t.Fatalf("claim %d did not ask for its own keys: %d are left", n, of)
		}
	}
}

// TestManyTopicsHeld: holds of topics are read by every claim, so many of them are no reason to ask for keys.
func TestManyTopicsHeld(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.exec(`insert into postrider.outbox_hold (scope, topic, cause, next_probe_at)
		select 'topic', 'away' || n, 'route', 'infinity' from generate_series(1, $1) n`, 2*manyHolds)
	f.insert("a", "-")
	f.claim().Abandon()
	if n := f.store.held.rest.Load(); n != 0 {
		t.Errorf("the next %d claims ask for keys of which none is held", n)
	}
}

// TestNoKeysToAskFor: a claim that would ask for the holds of its keys and has found none needs no round trip.
func TestNoKeysToAskFor(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.insert("-", "-")
	f.store.held.rest.Store(manyHoldsAt)
	c := f.claim().(*claim)
	defer c.Abandon()
	c.conn.Conn().PgConn().Conn().Close() // what would be asked now would fail
	if err := c.holdsOfKeys(t.Context(), c.batch.Events); err != nil || !c.ofKeys {
		t.Errorf("asked for keys: %v; %v", c.ofKeys, err)
	}
}

package postgres

import (
	"testing"
	"time"

	"github.com/postrider/postrider/relay"
)

func TestScheduledEventsComeBackWhenTheyAreDue(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.insert("a", "b", "-", "c")
	f.exec(`update postrider.outbox_event set available_at = now() + interval '1 hour' where id <= 2`)
	f.settle(f.claim(), &relay.Settlement{
		Scheduled: []relay.Schedule{{ID: 1}, {ID: 2}, {ID: 3, In: time.Hour, Failure: failure(3, 1)}},
		Delivered: []int64{4},
	})
	if got := f.turn(1000); got != (relay.Returned{}) {
		t.Errorf("before their time: %+v", got)
	}
	f.exec(`update postrider.outbox_event set next_attempt_at = now(), available_at = now() where id in (1, 3)`)
	if got := f.turn(1000); got != (relay.Returned{Events: 2}) {
		t.Errorf("at their time: %+v", got)
	}
	f.wantStates("1:pending 2:scheduled 3:pending(1) 4:published")
	f.delivers(nil, 1, 3)
}

// TestRetriedEventIsNotDelayedAgain: an event that failed waits for its retry, whatever its available_at.
func TestRetriedEventIsNotDelayedAgain(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.insert("-")
	f.exec(`update postrider.outbox_event set available_at = now() + interval '1 hour'`)
	f.settle(f.claim(), &relay.Settlement{Scheduled: []relay.Schedule{{ID: 1, In: 1, Failure: failure(1, 1)}}})
	f.turn(1000)
	c := f.claim()
	defer c.Abandon()
	if c.Batch().Events[0].Delayed {
		t.Error("it is delayed")
	}
}

// TestDelayedEventsOfOneTimeComeBackInOrder: events of one key that are due at the same time come back
// in the order in which they were written, however many fit into one turn.
func TestDelayedEventsOfOneTimeComeBackInOrder(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.insert("a", "a", "a", "a", "a")
	f.exec(`update postrider.outbox_event set available_at = now() + interval '1 hour'`)
	var s relay.Settlement
	for _, id := range []int64{5, 2, 4, 1, 3} { // the order in which the rows are rewritten
		s.Scheduled = append(s.Scheduled, relay.Schedule{ID: id})
	}
	f.settle(f.claim(), &s)
	f.exec(`update postrider.outbox_event set next_attempt_at = '2026-01-01'`)
	f.turn(2)
	f.wantStates("1:pending 2:pending 3:scheduled 4:scheduled 5:scheduled")
	f.turn(2)
	f.wantStates("1:pending 2:pending 3:pending 4:pending 5:scheduled")
	f.turn(2)
	f.delivers(nil, 1, 2, 3, 4, 5)
}

// TestBusyShardsAreLeftForTheNextTurn: a batch that waits for a broker keeps its shards. Everything that
// is due elsewhere must wait for one such shard once, and not for each thing that is due in it.
func TestBusyShardsAreLeftForTheNextTurn(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.insert("busy", "free")
	f.settle(f.claim(), &relay.Settlement{Scheduled: []relay.Schedule{{ID: 1, In: 1}, {ID: 2, In: 1}}})
	busy := value[int16](f, `select shard from postrider.outbox_event where id = 1`)
	if busy == value[int16](f, `select shard from postrider.outbox_event where id = 2`) {
		t.Fatal("the keys of this test are in one shard")
	}
	f.insert("busy")
	f.exec(`insert into postrider.outbox_hold (scope, topic, key, cause, next_probe_at)
		select 'key', 't', ('held ' || i)::bytea, 'retry', now() from generate_series(1, 10) i`)
	f.exec(`insert into postrider.outbox_hold_shard (hold_id, shard) select hold_id, $1 from postrider.outbox_hold`, busy)

	store, asked := f.counted()
	c := f.claim() // holds the shard of busy
	got, err := store.Return(t.Context(), 1000, time.Second)
	if err != nil || got != (relay.Returned{Events: 1}) {
		t.Errorf("%+v, %v, want the event of the free shard", got, err)
	}
	if asked.shards[busy] != 1 {
		t.Errorf("the busy shard was asked for %d times", asked.shards[busy])
	}
	f.wantStates("1:scheduled 2:pending 3:pending")
	c.Abandon()
	if got := f.turn(1000); got != (relay.Returned{Events: 1, Holds: 10}) {
		t.Errorf("%+v, want what was left", got)
	}
	f.wantStates("1:pending 2:pending 3:pending")
}

// TestBusyHoldIsLeftForTheNextTurn also when nothing is parked behind it and no shard is involved.
func TestBusyHoldIsLeftForTheNextTurn(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.exec(`insert into postrider.outbox_hold (scope, topic, cause, next_probe_at) values ('topic', 't', 'route', now()), ('topic', 'u', 'route', now())`)
	tx, err := f.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), lockHold, 1); err != nil {
		t.Fatal(err)
	}
	if got := f.turn(1000); got != (relay.Returned{Holds: 1}) {
		t.Errorf("%+v, want the end of the other hold", got)
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := f.turn(1000); got != (relay.Returned{Holds: 1}) {
		t.Errorf("%+v, want the end of the one that was busy", got)
	}
}

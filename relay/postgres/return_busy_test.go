package postgres

import (
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/relay"
)

// everywhere parks events of topic t in all shards behind its hold, with this many in each.
func (f *fixture) everywhere(each int) {
	f.Helper()
	f.exec(`insert into postrider.outbox_hold (scope, topic, cause, next_probe_at) values ('topic', 't', 'route', now())`)
	f.exec(`insert into postrider.outbox_event (topic, state, hold_id, updated_at)
		select 't', 'parked', (select hold_id from postrider.outbox_hold where scope = 'topic'), now() from generate_series(1, $1::int)`, 64*each)
	f.exec(`insert into postrider.outbox_hold_shard (hold_id, shard)
		select distinct hold_id, shard from postrider.outbox_event where state = 'parked'`)
}

// busy locks shards as claims do, until the transaction ends.
func (f *fixture) busy(shards ...int16) pgx.Tx {
	f.Helper()
	tx, err := f.pool.Begin(f.Context())
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { _ = tx.Rollback(f.Context()) })
	if _, err := tx.Exec(f.Context(), `select from postrider.outbox_shard where shard = any ($1) order by shard for update`, shards); err != nil {
		f.Fatal(err)
	}
	return tx
}

func (f *fixture) in(state string) int {
	f.Helper()
	return value[int](f, `select count(*) from postrider.outbox_event where state::text = $1`, state)
}

// TestFreeShardsFirst: a hold whose shards are nearly all busy keeps nobody waiting, itself neither where it
// is free; and a turn waits for one shard, another one each time.
func TestFreeShardsFirst(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.everywhere(2)
	f.exec(`update postrider.outbox_hold set draining = true, next_probe_at = now() - interval '1 minute'`)
	key := f.insert("behind")[0] // behind the other hold in every order there is
	free := value[int16](f, `select shard from postrider.outbox_event where id = $1`, key)
	f.exec(`insert into postrider.outbox_hold (scope, topic, key, cause, next_probe_at) values ('key', 't', 'behind', 'retry', now())`)
	f.exec(`with h as (select hold_id from postrider.outbox_hold where scope = 'key'), s as (insert into postrider.outbox_hold_shard (hold_id, shard) select hold_id, $1 from h)
		update postrider.outbox_event set state = 'parked', hold_id = h.hold_id, updated_at = now() from h where id = $2`, free, key)
	var shards []int16
	for shard := range int16(64) {
		if shard != free {
			shards = append(shards, shard)
		}
	}
	tx := f.busy(shards...)
	s, asked := f.counted()
	got, err := s.Return(t.Context(), 1000, time.Hour)
	if err != nil || got != (relay.Returned{Events: 3}) {
		t.Errorf("%+v, %v, want the two events and the probe of the free shard", got, err)
	}
	for range 2 {
		if got, err := s.Return(t.Context(), 1000, time.Hour); err != nil || got.Events+got.Holds != 0 {
			t.Errorf("%+v, %v, though all is busy", got, err)
		}
	}
	if len(asked.shards) != 3 {
		t.Errorf("three turns waited for the shards %v, want another one each", asked.shards)
	}
	for shard, n := range asked.shards {
		if n != 1 || shard == free {
			t.Errorf("shard %d was waited for %d times", shard, n)
		}
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := f.turn(1000); got != (relay.Returned{Events: 126, Holds: 1}) {
		t.Errorf("%+v, want all that was left", got)
	}
}

// TestWhoWaitsIsNext: shards that are claimed all the time are had by waiting for one of them: it is had before
// the next claim, which takes only what is free, and with it the others that its owner frees.
func TestWhoWaitsIsNext(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.everywhere(1)
	f.exec(`update postrider.outbox_hold set draining = true`)
	claimed := []int16{1, 5, 9, 13, 17, 21, 25, 29, 33, 37, 41, 45, 49, 53, 57, 61}
	f.exec(`delete from postrider.outbox_event where shard <> all ($1)`, claimed)
	f.exec(`delete from postrider.outbox_hold_shard where shard <> all ($1)`, claimed)
	s, asked := f.counted()
	for range 20 { // each turn waits for a while
		tx := f.busy(claimed...)
		returned := f.returning(s, time.Hour)
		f.waitFor(`select exists (select from pg_stat_activity where datname = current_database() and application_name = 'postrider' and wait_event_type = 'Lock')`)
		if err := tx.Commit(t.Context()); err != nil {
			t.Fatal(err)
		}
		got := <-returned
		if got == (relay.Returned{Events: 16, Holds: 1}) {
			if len(asked.shards) > 20 || f.in("pending") != 16 {
				t.Errorf("waited for %v, %d are pending", asked.shards, f.in("pending"))
			}
			return
		}
		if got.Events+got.Holds > 0 {
			t.Fatalf("%+v, want all or, when the wait ended first, nothing", got)
		}
	}
	t.Error("it never got what it waited for")
}

// TestManyBusyHoldsHideNone: more holds than a turn looks at wait for a busy shard, and are due before the one
// that could go.
func TestManyBusyHoldsHideNone(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	id := f.insert("one")[0]
	shard := value[int16](f, `select shard from postrider.outbox_event where id = $1`, id)
	f.hold(keyHold("one", 0))
	other := (shard + 1) % 64
	f.exec(`insert into postrider.outbox_hold (scope, topic, key, cause, next_probe_at, draining)
		select 'key', 'u', ('key ' || k)::bytea, 'retry', now() - interval '1 minute', k % 2 = 0 from generate_series(1, $1::int) k`, 2*dueAtOnce)
	f.exec(`insert into postrider.outbox_hold_shard (hold_id, shard) select hold_id, $1 from postrider.outbox_hold where topic = 'u'`, other)
	tx := f.busy(other)
	events := 0
	for range 3 {
		events += f.turn(1000).Events
	}
	if events != 1 {
		t.Errorf("%d events came back in three turns, want the one of the free shard", events)
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	for range 4 {
		f.turn(1000)
	}
	if n := f.holds(); n != 1 {
		t.Errorf("%d holds are left, want that of the probe", n)
	}
}

// TestProbeGoesWhereItIsFree: one event, in any of the shards.
func TestProbeGoesWhereItIsFree(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.everywhere(1)
	tx := f.busy(0, 1, 2, 17)
	s, asked := f.counted()
	if got, err := s.Return(t.Context(), 1000, 25*time.Second); err != nil || got != (relay.Returned{Events: 1}) {
		t.Errorf("%+v, %v, want one probe", got, err)
	}
	if len(asked.shards) > 0 || asked.trips > 8 {
		t.Errorf("after that it waited for the shards %v, in all %d round trips", asked.shards, asked.trips)
	}
	if shard := value[int16](f, `select shard from postrider.outbox_event where state = 'pending'`); slices.Contains([]int16{0, 1, 2, 17}, shard) {
		t.Errorf("the probe is in shard %d, which was busy", shard)
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := f.turn(1000); got != (relay.Returned{}) {
		t.Errorf("%+v before the first one's outcome", got)
	}
}

// TestHoldThatIsRenewedIsLeftAlone, without waiting for it; what else is due in its shard comes back.
func TestHoldThatIsRenewedIsLeftAlone(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.everywhere(1)
	f.exec(`update postrider.outbox_hold set draining = true`)
	id := f.insert("a")[0]
	f.hold(keyHold("a", 0))
	f.exec(`insert into postrider.outbox_hold (scope, topic, cause, next_probe_at) values ('topic', 'empty', 'storm', now())`)
	tx, err := f.relay.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(t.Context())
	changes := []relay.HoldChange{topicHold("t", 20*time.Second), topicHold("empty", 20*time.Second)}
	if _, err := tx.Exec(t.Context(), upsertHolds, holdArgs(changes)...); err != nil {
		t.Fatal(err)
	}
	returned := make(chan relay.Returned, 1)
	go func() {
		got, err := f.store.Return(t.Context(), 1000, time.Hour)
		if err != nil {
			t.Error(err)
		}
		returned <- got
	}()
	// By then all else is done. The one without events is waited for: it must not end when it is renewed.
	f.waitFor(`select exists (select from pg_stat_activity where datname = current_database() and application_name = 'postrider' and wait_event_type = 'Lock')`)
	if n := f.in("pending"); n != 1 {
		t.Errorf("%d events came back", n)
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := <-returned; got != (relay.Returned{Events: 1}) {
		t.Errorf("%+v, want the probe of the key", got)
	}
	if state := value[string](f, `select state::text from postrider.outbox_event where id = $1`, id); state != "pending" {
		t.Errorf("the event of the key is %s", state)
	}
	if got := f.turn(1000); got != (relay.Returned{}) {
		t.Errorf("%+v, though the holds were renewed", got)
	}
	if n := f.holds(); n != 3 {
		t.Errorf("%d holds, want all three", n)
	}
}

// TestHoldStaysForWhoeverParks: the last parked event of a hold comes back while somebody parks another one
// behind it elsewhere. It neither ends nor waits.
func TestHoldStaysForWhoeverParks(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.everywhere(1)
	f.exec(`update postrider.outbox_hold set draining = true`)
	id := value[int64](f, `select id from postrider.outbox_event where shard = 9`)
	f.exec(`delete from postrider.outbox_hold_shard where shard = 9`)
	f.exec(`update postrider.outbox_event set state = 'pending', hold_id = null, updated_at = now() where id = $1`, id)
	tx := f.busy(9)
	if _, err := tx.Exec(t.Context(), parkShards, []int64{1}, []int16{9}, []int64{}); err != nil {
		t.Fatal(err)
	}
	if got := f.turn(1000); got != (relay.Returned{Events: 63}) {
		t.Errorf("%+v, want the other events, and no end", got)
	}
	if _, err := tx.Exec(t.Context(), parkEvents, []int64{id}, []int64{1}, []*int32{nil}, []*string{nil}, []*string{nil}, []*string{nil}); err != nil {
		t.Fatal(err)
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n, state := f.holds(), f.in("parked"); n != 1 || state != 1 {
		t.Errorf("%d holds, %d parked events, want one of each", n, state)
	}
	if got := f.turn(1000); got != (relay.Returned{Events: 1, Holds: 1}) {
		t.Errorf("%+v, want the last event and the end", got)
	}
}

// TestDrainingIsShared: what comes back to a shard at once is shared among its holds, so that a long one does
// not keep the short ones waiting.
func TestDrainingIsShared(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.everywhere(40)
	f.exec(`update postrider.outbox_hold set draining = true, next_probe_at = now() - interval '1 minute'`)
	f.insert("a", "a", "a")
	f.hold(keyHold("a", 0))
	f.exec(`update postrider.outbox_hold set draining = true where scope = 'key'`)
	got := f.turn(10)
	if got.Holds != 1 || f.holds() != 1 {
		t.Errorf("%+v, want the end of the short hold", got)
	}
	if most := value[int](f, `select max(n) from (select count(*) n from postrider.outbox_event where state = 'pending' group by shard) p`); most > 10 {
		t.Errorf("%d events came back to one shard at once, want at most 10", most)
	}
}

// TestCrowdComesInTurns: a crowded key gets its next events when the last ones are sent.
func TestCrowdComesInTurns(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.parked(1, 2*crowdTurn+10)
	f.exec(`update postrider.outbox_hold set draining = true, cause = 'crowded'`)
	for _, want := range []relay.Returned{{Events: crowdTurn}, {Events: crowdTurn}, {Events: 10, Holds: 1}} {
		if got := f.turn(1000); got != want {
			t.Errorf("%+v, want %+v", got, want)
		}
		if want.Holds == 0 {
			if got := f.turn(1000); got != (relay.Returned{}) {
				t.Errorf("%+v before the last ones are sent", got)
			}
		}
		f.exec(`update postrider.outbox_event set state = 'published', updated_at = now() where state = 'pending'`)
	}
}

// TestCommitOrderComesBackToTheFence: what may still be overtaken by an earlier event stays parked.
func TestCommitOrderComesBackToTheFence(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.parked(1, 5)
	f.exec(`update postrider.outbox_hold set draining = true, cause = 'commit_order'`)
	w := f.begin() // has an earlier id, for all that is known
	w.writes("t", "other", "6")
	for range 3 {
		if got := f.turn(1000); got != (relay.Returned{}) {
			t.Errorf("%+v beside an open transaction", got)
		}
	}
	f.wantStates("1:parked 2:parked 3:parked 4:parked 5:parked")
	if err := w.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := f.turn(1000); got != (relay.Returned{Events: 5, Holds: 1}) {
		t.Errorf("%+v, want all of them", got)
	}
}

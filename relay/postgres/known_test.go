package postgres

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/relay"
)

// knows looks how far the shards are settled, without writing any mark.
func (f *fixture) knows() {
	f.Helper()
	if err := f.store.know(f.Context(), value[int64](f, `select max(id) from postrider.outbox_event`)); err != nil {
		f.Fatal(err)
	}
	f.believed()
}

// believed sees to it that what was looked at is on the disk, and so is believed.
func (f *fixture) believed() {
	f.Helper()
	f.exec(`select pg_logical_emit_message(true, '', '')`)
	if err := f.store.believe(f.Context()); err != nil {
		f.Fatal(err)
	}
	if f.store.water.next != nil {
		f.Fatal("what is on the disk is not believed")
	}
}

func (f *fixture) epochs() (least, greatest int64) {
	f.Helper()
	return value[int64](f, `select min(epoch) from postrider.outbox_shard`), value[int64](f, `select max(epoch) from postrider.outbox_shard`)
}

// returns are the ways in which an older event becomes pending again. Each prepares event 1, of key a, and makes it
// pending in a transaction.
func returns() map[string]struct {
	prepare func(*fixture)
	back    func(context.Context, *fixture, pgx.Tx) error
} {
	inShard := func(ctx context.Context, tx pgx.Tx, sql string, args ...any) error {
		if _, err := tx.Exec(ctx, `select set_config('postrider.claim', array_agg(s.shard)::text, true) from (
			select shard from postrider.outbox_shard where shard = (select shard from postrider.outbox_event where id = 1) for update) s`); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, sql, args...)
		return err
	}
	return map[string]struct {
		prepare func(*fixture)
		back    func(context.Context, *fixture, pgx.Tx) error
	}{
		"scheduled": {
			func(f *fixture) {
				f.exec(`update postrider.outbox_event set state = 'scheduled', next_attempt_at = now() where id = 1`)
			},
			func(ctx context.Context, _ *fixture, tx pgx.Tx) error { return inShard(ctx, tx, returnScheduled, 10) },
		},
		"parked": {
			func(f *fixture) {
				f.exec(`insert into postrider.outbox_hold (scope, topic, key, cause, next_probe_at, draining) values ('key', 't', 'a', 'retry', now(), true)`)
				f.exec(`insert into postrider.outbox_hold_shard (hold_id, shard) select 1, shard from postrider.outbox_event where id = 1`)
				f.exec(`update postrider.outbox_event set state = 'parked', hold_id = 1 where id = 1`)
			},
			func(ctx context.Context, _ *fixture, tx pgx.Tx) error {
				return inShard(ctx, tx, returnParked, []int64{1}, 10, int64(1000), int64(1), 250)
			},
		},
		"redriven": {
			func(f *fixture) {
				f.halt("a")
				f.buried(1)
			},
			func(ctx context.Context, f *fixture, tx pgx.Tx) error { return f.store.RedriveIn(ctx, tx, 1) },
		},
		"by hand": {
			func(f *fixture) { f.exec(`update postrider.outbox_event set state = 'published' where id = 1`) },
			func(ctx context.Context, f *fixture, tx pgx.Tx) error {
				if _, err := tx.Exec(ctx, `update postrider.outbox_event set state = 'pending', updated_at = now() where id = 1`); err != nil {
					return err
				}
				return inShard(ctx, tx, `with ours as (select id, shard from postrider.outbox_event where id = 1)
					update postrider.outbox_shard s set low_water = least(s.low_water, ours.id - 1), epoch = -abs(s.epoch) from ours where s.shard = ours.shard`)
			},
		},
	}
}

// TestEventsThatComeBackBesideALook: an older event becomes pending in a transaction that a look how far the shards are
// settled cannot see, and commits after it. It is claimed at once, by this relay and by others, whether its mark had
// been written or was only known; and a look in a later epoch does not make the earlier one hold again.
func TestEventsThatComeBackBesideALook(t *testing.T) {
	t.Parallel()
	for name, way := range returns() {
		for _, written := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, written %v", name, written), func(t *testing.T) {
				t.Parallel()
				f := newFixture(t)
				f.insert("a")
				way.prepare(f)
				f.many(raiseAfter + 500)
				if written {
					f.raise()
				}
				f.knows()
				if mark := value[int64](f, `select ($1::bigint[])[shard + 1] from postrider.outbox_event where id = 1`, f.store.water.known().marks); mark == 0 {
					t.Fatal("nothing is known of the shard: nothing was tested")
				}
				other := NewStore(f.relay, StoreOptions{})
				other.water.marks.Store(f.store.water.known())
				f.nothing()

				tx, err := f.pool.Begin(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				defer tx.Rollback(t.Context())
				if err := way.back(t.Context(), f, tx); err != nil {
					t.Fatal(err)
				}
				f.knows()
				if err := tx.Commit(t.Context()); err != nil {
					t.Fatal(err)
				}
				if first, _ := f.epochs(); first >= 0 {
					t.Error("the shard's epoch goes on")
				}
				for who, s := range map[string]*Store{"this relay": f.store, "another": other} {
					c := f.claimBy(s, relay.Limits{Worker: "w", Events: 10, Shards: 64})
					if ids := claimed(c); !slices.Equal(ids, []int64{1}) {
						t.Errorf("%s claims %d, want the event that came back", who, ids)
					}
					c.Abandon()
				}
				// The next epoch begins with the mark before the event, not with what was known of the last.
				f.raise()
				if first, last := f.epochs(); first != 1 || last != 2 {
					t.Errorf("epochs %d to %d after the marks rose, want 1 to 2", first, last)
				}
				for who, s := range map[string]*Store{"this relay": f.store, "another": other} {
					c := f.claimBy(s, relay.Limits{Worker: "w", Events: 10, Shards: 64})
					if ids := claimed(c); !slices.Equal(ids, []int64{1}) {
						t.Errorf("%s claims %d in the next epoch, want the event that came back", who, ids)
					}
					c.Abandon()
				}
			})
		}
	}
}

// TestSunkenBelowWhatIsKnown: who makes an event pending by hand and says so to nobody is found by the look for sunken
// events, also where the mark above it was never written.
func TestSunkenBelowWhatIsKnown(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.insert("a")
	f.exec(`update postrider.outbox_event set state = 'published' where id = 1`)
	f.many(500)
	f.knows()
	f.exec(`update postrider.outbox_event set state = 'pending', updated_at = now() where id = 1`)
	f.nothing()
	f.store.water.swept = time.Time{}
	if err := f.store.raiseMarks(t.Context()); err != nil {
		t.Fatal(err)
	}
	f.wantClaimed("the sunken one", 1)
}

// TestKnownAfterARestore: ids that were rewound are those of new events.
func TestKnownAfterARestore(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.many(500)
	f.raise()
	f.knows()
	f.exec(`truncate postrider.outbox_event restart identity`)
	f.insert("a")
	f.store.water.looked, f.store.water.open = time.Time{}, false
	if err := f.store.raiseMarks(t.Context()); err != nil {
		t.Fatal(err)
	}
	f.wantClaimed("the event with an id from before", 1)
}

// TestKnownMustBeOnTheDisk: what a crash would take back is not known yet. Settlements of few events do not wait for
// the disk, and after a crash they are pending again.
func TestKnownMustBeOnTheDisk(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.many(500)
	w := &f.store.water
	if err := f.store.know(t.Context(), 500); err != nil {
		t.Fatal(err)
	}
	behind := w.next.behind
	if got := value[bool](f, `select $1::text::pg_lsn > (select pg_current_wal_insert_lsn() - 100000)`, behind); !got {
		t.Errorf("it rests on what is before %s", behind)
	}
	w.next.behind = "FFFFFFFF/0"
	if err := f.store.believe(t.Context()); err != nil {
		t.Fatal(err)
	}
	if w.known() != nothingKnown || w.next == nil {
		t.Error("what is not on the disk is believed, or forgotten")
	}
	w.next.behind = behind
	f.exec(`create table flushed ()`) // waits for the disk
	if err := f.store.believe(t.Context()); err != nil {
		t.Fatal(err)
	}
	if w.known() == nothingKnown || w.next != nil {
		t.Error("what is on the disk is not believed")
	}
}

// TestKnownOfAnotherServer: after a failover that lost the last transactions their events are pending again. What was
// known of the server before is forgotten with the first claim.
func TestKnownOfAnotherServer(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.insert("a")
	f.exec(`update postrider.outbox_event set state = 'published' where id = 1`)
	f.knows()
	f.exec(`update postrider.outbox_event set state = 'pending', updated_at = now() where id = 1`)
	f.nothing()
	other := *f.store.water.known()
	other.started = other.started.Add(-time.Hour)
	f.store.water.marks.Store(&other)
	f.wantClaimed("what the server before had settled", 1)
	if f.store.water.known() != nothingKnown {
		t.Error("it is still believed")
	}
}

// TestNothingCanBeKnown: a server that does not say how far its log is on the disk has marks that are written, as often
// as dead rows allow.
func TestNothingCanBeKnown(t *testing.T) {
	t.Parallel()
	for _, function := range []string{"pg_current_wal_insert_lsn", "pg_current_wal_flush_lsn"} {
		t.Run(function, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			f.store, _ = f.storeAs(`grant usage on schema postrider to %[1]s; grant all on all tables in schema postrider to %[1]s;
				grant all on all sequences in schema postrider to %[1]s`)
			f.exec(`alter table postrider.outbox_shard set (autovacuum_enabled = off)`)
			f.exec(`revoke execute on function pg_catalog.` + function + `() from public`)
			f.deadMarks(1)
			for range 2 {
				f.many(raiseAfter + 500)
				for range 2 {
					f.store.water.looked = time.Time{}
					if err := f.store.raiseMarks(t.Context()); err != nil {
						t.Fatal(err)
					}
				}
			}
			if n := f.lowest(); n != 2*(raiseAfter+500) || f.store.water.known() != nothingKnown {
				t.Errorf("the marks are at %d, and something is known: %v", n, f.store.water.known() != nothingKnown)
			}
		})
	}
}

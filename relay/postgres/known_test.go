package postgres

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/migrations/pgtest"
	"github.com/postrider/postrider/relay"
)

// knows looks how far the shards are settled, without writing any mark.
func (f *fixture) knows() {
	f.Helper()
	f.believed(value[int64](f, `select coalesce(max(id), 0) from postrider.outbox_event`))
}

// believed looks how far the shards are settled, up to an id, and sees to it that this is on the disk, and so is believed.
func (f *fixture) believed(last int64) {
	f.Helper()
	w := &f.store.water
	begun := w.next == nil // otherwise it may not reach so far
	for range 100 {        // a checkpoint may come between
		if err := f.store.know(f.Context(), last); err != nil {
			f.Fatal(err)
		}
		k := w.next
		if k == nil {
			return // nothing happened since
		}
		f.exec(`select pg_logical_emit_message(true, '', '')`)
		if err := f.store.believe(f.Context()); err != nil {
			f.Fatal(err)
		}
		if w.known() == k && begun {
			return
		}
		begun = true
	}
	f.Fatal("what is on the disk is not believed")
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
				return inShard(ctx, tx, returnParked, []int64{1}, 10, int64(1000), int64(1), 250, nothingKnown.epochs, nothingKnown.marks)
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
	conn := f.db.Conn(t)
	pgtest.Exec(t, conn, `set synchronous_commit = off`)
	pgtest.Exec(t, conn, `create table lately ()`)
	written := pgtest.Value[string](t, conn, `select pg_current_wal_insert_lsn()::text`)
	if err := f.store.know(t.Context(), 500); err != nil {
		t.Fatal(err)
	}
	behind := w.next.behind
	if !value[bool](f, `select $1::text::pg_lsn >= $2::text::pg_lsn`, behind, written) {
		t.Errorf("it rests on what is before %s, and sees what is before %s", behind, written)
	}
	w.next.behind = "FFFFFFFF/0"
	if err := f.store.believe(t.Context()); err != nil {
		t.Fatal(err)
	}
	if w.known() != nothingKnown {
		t.Error("what is not on the disk is believed")
	}
	if w.next != nil { // otherwise a checkpoint came between
		next := w.next
		if err := f.store.know(t.Context(), 500); err != nil {
			t.Fatal(err)
		}
		if w.next != next {
			t.Error("the next look takes the place of one that is not on the disk yet: a slow disk would never catch up")
		}
	}
	w.next = nil
	f.believed(500)
	if w.known() == nothingKnown {
		t.Error("what is on the disk is not believed")
	}
}

// TestKnownAcrossACrash: a server that lost its memory and not its disk goes on under the same postmaster, and its log
// soon is as far as it was. But it has written a checkpoint.
func TestKnownAcrossACrash(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.many(500)
	if err := f.store.know(t.Context(), 500); err != nil {
		t.Fatal(err)
	}
	f.exec(`checkpoint`)
	f.exec(`select pg_logical_emit_message(true, '', '')`)
	if err := f.store.believe(t.Context()); err != nil {
		t.Fatal(err)
	}
	if f.store.water.known() != nothingKnown || f.store.water.next != nil {
		t.Error("what was looked at before a checkpoint is believed after it")
	}
}

// TestKnownOfAnotherServer: after a failover that lost the last transactions their events are pending again, and ids
// that were final are drawn once more. Whatever comes first there, nothing that was known of the server before holds.
func TestKnownOfAnotherServer(t *testing.T) {
	t.Parallel()
	for name, first := range map[string]func(f *fixture){
		"a claim": func(*fixture) {},
		"a look": func(f *fixture) {
			f.store.water.looked = time.Time{}
			if err := f.store.raiseMarks(f.Context()); err != nil {
				f.Fatal(err)
			}
		},
		"looks": func(f *fixture) { f.raise() },
		"a look that closes a fence": func(f *fixture) {
			w := &f.store.water
			w.open, w.last, w.holders, w.looked = true, 10_000, nil, time.Time{}
			if err := f.store.raiseMarks(f.Context()); err != nil {
				f.Fatal(err)
			}
		},
		"a look at the log": func(f *fixture) {
			if err := f.store.believe(f.Context()); err != nil {
				f.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			f.insert("a", "b")
			f.exec(`update postrider.outbox_event set state = 'published'`)
			f.many(3000)
			f.raise()
			f.exec(`update postrider.outbox_shard set low_water = 0`)
			f.exec(`update postrider.outbox_event set state = 'pending', updated_at = now() where id <= 2`)
			f.nothing()
			w := &f.store.water
			before := server{w.at.started - 1, w.at.file}
			known, next := *w.known(), *w.known()
			known.of, next.of, next.behind = before, before, "0/0"
			w.at, w.next = before, &next
			w.marks.Store(&known)
			first(f)
			f.wantClaimed("what the server before had settled", 2)
			if k := w.known(); k != nothingKnown && k.of == before || w.at == before {
				t.Error("what was known of the server before is believed")
			}
			if n := f.lowest(); n > 2 {
				t.Errorf("what was known of the server before is written: %d", n)
			}
			if n := w.final.Load(); n > 3002 {
				t.Errorf("%d is final, which the server before had drawn", n)
			}
			f.raise()
			f.wantClaimed("what the server before had settled", 2)
		})
	}
}

// TestNothingCanBeKnown: a server that does not say how far its log is on the disk has marks that are written, as often
// as dead rows allow.
func TestNothingCanBeKnown(t *testing.T) {
	t.Parallel()
	for _, function := range []string{"pg_current_wal_insert_lsn", "pg_current_wal_flush_lsn", "pg_control_checkpoint"} {
		t.Run(function, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			f.store, _ = f.storeAs(`grant usage on schema postrider to %[1]s; grant all on all tables in schema postrider to %[1]s;
				grant all on all sequences in schema postrider to %[1]s`)
			f.exec(`alter table postrider.outbox_shard set (autovacuum_enabled = off)`)
			f.exec(`revoke execute on function pg_catalog.` + function + `() from public`)
			defer f.snapshot()()
			for range 2 {
				f.many(raiseAfter + 500)
				for range 2 {
					f.store.water.looked = time.Time{}
					if err := f.store.raiseMarks(t.Context()); err != nil {
						t.Fatal(err)
					}
				}
				f.deadMarks(2)
			}
			if n := f.lowest(); n != 2*(raiseAfter+500) || f.store.water.known() != nothingKnown {
				t.Errorf("the marks are at %d, and something is known: %v", n, f.store.water.known() != nothingKnown)
			}
		})
	}
}

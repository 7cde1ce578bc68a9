package postgres

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/relay"
	"github.com/postrider/postrider/internal/testenv/pgtest"
)

// purge removes some rows of a kind, whatever their age.
func (f *fixture) purge(kind relay.PurgeKind, rows int) relay.Purged {
	f.Helper()
	got, err := f.store.Purge(f.Context(), relay.PurgeLimits{Kind: kind, Rows: rows})
	f.done(err)
	return got
}

func (f *fixture) left() (n int) {
	f.Helper()
	return value[int](f, `select count(*) from postrider.outbox_event`)
}

// aged makes all receipts older.
func (f *fixture) aged(by time.Duration) {
	f.Helper()
	f.exec(`update postrider.outbox_receipt set at = at - $1::bigint * interval '1 microsecond'`, by.Microseconds())
}

// TestRule12RangesGo: events that are old enough and settled are removed in steps, from the beginning.
func TestRule12RangesGo(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.many(100)
	f.pass(relay.Receipt{})
	f.aged(2 * time.Hour)
	f.many(50)
	f.pass(relay.Receipt{})
	f.many(10)
	hour := relay.PurgeLimits{Kind: relay.PurgePublished, Keep: time.Hour, Rows: 40, DryRun: true}
	if got, err := f.store.Purge(t.Context(), hour); err != nil || got.Rows != 40 || f.left() != 160 {
		t.Errorf("to be removed are %+v, %v, left %d", got, err, f.left())
	}
	hour.DryRun = false
	for _, want := range []relay.Purged{{Rows: 40, More: true}, {Rows: 40, More: true}, {Rows: 20}, {}} {
		if got, err := f.store.Purge(t.Context(), hour); err != nil || got != want {
			t.Errorf("removed %+v, %v, want %+v", got, err, want)
		}
	}
	if got := f.purge(relay.PurgePublished, 1000); got.Rows != 50 || f.left() != 10 {
		t.Errorf("removed %+v, left %d", got, f.left())
	}
	if got := f.purge(relay.PurgePublished, 1000); got != (relay.Purged{}) {
		t.Errorf("removed %+v of what the log has before it", got)
	}
	if _, err := f.store.Purge(t.Context(), relay.PurgeLimits{Kind: relay.PurgePublished}); err == nil {
		t.Error("a purge of no rows")
	}
	if _, err := f.store.Purge(t.Context(), relay.PurgeLimits{Kind: "x", Rows: 1}); err == nil {
		t.Error("a purge of an unknown kind")
	}
}

// TestRule12GapsAndLateCommits: nothing at or behind a gap goes, and what was committed late stays as long as it is kept.
func TestRule12GapsAndLateCommits(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	late := f.locking(`insert into postrider.outbox_event (topic) select 't' from generate_series(1, 5)`) // 1 to 5
	f.exec(`select nextval('postrider.outbox_event_id_seq')`)                                             // 6, of no event
	f.many(10)                                                                                            // 7 to 16
	d := f.leader()
	f.settle(d, &relay.Receipt{Position: 16, Events: relay.Ranges{{First: 7, Last: 16}}, Gaps: relay.Ranges{{First: 1, Last: 6}}})
	f.aged(time.Hour)
	hour := relay.PurgeLimits{Kind: relay.PurgePublished, Keep: time.Hour, Rows: 1000}
	purge := func(want relay.Purged) {
		t.Helper()
		if got, err := f.store.Purge(t.Context(), hour); err != nil || got != want {
			t.Errorf("removed %+v, %v, want %+v", got, err, want)
		}
	}
	purge(relay.Purged{})
	late("commit")
	f.settle(d, &relay.Receipt{Events: relay.Ranges{{First: 1, Last: 5}}, Gaps: relay.Ranges{{First: 6, Last: 6}}})
	purge(relay.Purged{}) // they went just now
	f.aged(time.Hour)
	purge(relay.Purged{Rows: 5})
	f.settle(d, &relay.Receipt{Forgotten: relay.Ranges{{First: 6, Last: 6}}, Gaps: relay.Ranges{}})
	purge(relay.Purged{Rows: 10})
	if n := f.left(); n != 0 {
		t.Errorf("%d are left", n)
	}
}

// TestRule12WhatIsSilentIsCounted: rows that no relay read, or that are not there, stop retention until an operator has
// looked. Nothing is removed.
func TestRule12WhatIsSilentIsCounted(t *testing.T) {
	t.Parallel()
	for name, silent := range map[string]func(f *fixture){
		"overriding": func(f *fixture) {
			f.exec(`delete from postrider.outbox_event where id = 7`)
			f.exec(`insert into postrider.outbox_event (id, topic) overriding system value values (7, 't'), (3000, 't')`)
			f.exec(`delete from postrider.outbox_event where id = 9`)
		},
		"a copy with ids": func(f *fixture) {
			f.exec(`select setval('postrider.outbox_event_id_seq', 110)`)
			f.many(1)
			f.pass(relay.Receipt{})
			conn := f.db.Conn(f.T)
			if _, err := conn.CopyFrom(f.Context(), pgx.Identifier{"postrider", "outbox_event"}, []string{"id", "topic"}, pgx.CopyFromRows([][]any{{int64(105), "t"}})); err != nil {
				f.Fatal(err)
			}
		},
		"truncate": func(f *fixture) {
			f.exec(`truncate postrider.outbox_event`)
			f.many(3)
			f.pass(relay.Receipt{})
		},
		"deleted by hand": func(f *fixture) { f.exec(`delete from postrider.outbox_event where id = 50`) },
		"restored": func(f *fixture) {
			f.exec(`update postrider.outbox_receipt set events = events - int8multirange(int8range(20, 30)) where position = 100`)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			f.many(100)
			f.pass(relay.Receipt{})
			silent(f)
			before := f.left()
			limits := relay.PurgeLimits{Kind: relay.PurgePublished, Rows: 10_000}
			for range 2 { // and stays stopped
				if _, err := f.store.Purge(t.Context(), limits); !errors.Is(err, relay.ErrMiscounted) {
					t.Fatalf("retention says %v", err)
				}
			}
			if f.left() != before || !value[bool](f, `select stopped_at is not null and reason like '%rows with ids%' from postrider.outbox_retention where kind = 'published'`) {
				t.Errorf("%d of %d are left", f.left(), before)
			}
			tx, err := f.pool.Begin(t.Context())
			f.done(err)
			if _, err := f.store.PurgeDelivered(t.Context(), tx, limits); !errors.Is(err, relay.ErrMiscounted) {
				t.Errorf("by hand: %v", err)
			}
			f.done(tx.Rollback(t.Context()))
		})
	}
}

// TestRule12ExceptionsKeepTheirContent: an exception that is not finished goes on without its row of the log. It is
// removed after that row.
func TestRule12ExceptionsKeepTheirContent(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.exec(`insert into postrider.outbox_event (topic, key, payload, headers, max_attempts) values ('t', 'k', 'parked', '{"h": "v"}', 3), ('t', 'k', 'scheduled', '[["a", "b"]]', null),
		('t', 'k', null, '{}', null), ('t', 'k', 'gone', '{}', null)`)
	h := f.keyHold("k", 0)
	f.pass(relay.Receipt{Holds: []relay.HoldChange{h}, Exceptions: append(append(parked(h.ID, 1), exhausted(3)...), relay.Exception{ID: 2, State: relay.Scheduled, In: 1})})
	closed := func() {
		t.Helper()
		f.exec(`select postrider.outbox_close(array_agg(id), array_agg(event_id), array_agg(episode)) from postrider.outbox_exception`)
	}
	f.buried(3)
	closed()
	if got := f.purge(relay.PurgeDeadLettered, 10); got.Rows != 0 {
		t.Errorf("removed %+v while the log has the row: it would seem to be published", got)
	}
	view := f.states()
	// Four rows go. One event was delivered and is gone; the others are still there.
	if got, err := f.store.Purge(t.Context(), relay.PurgeLimits{Kind: relay.PurgePublished, Rows: 10, DryRun: true}); err != nil || got.Rows != 1 || f.left() != 4 {
		t.Errorf("to be removed are %+v, %v, left %d", got, err, f.left())
	}
	if got := f.purge(relay.PurgePublished, 10); got.Rows != 1 || f.left() != 0 {
		t.Errorf("removed %+v, left %d", got, f.left())
	}
	if got := f.states(); got+" 4:published" != view {
		t.Errorf("the events were %s and are %s", view, got)
	}
	got := func(hold ...int64) string {
		taking := relay.Taking{Bytes: 1 << 20, Scheduled: 5 * (1 - len(hold))}
		for _, h := range hold {
			taking.Holds = append(taking.Holds, relay.TakingHold{ID: h, Events: 5})
		}
		taken, err := f.term.Take(t.Context(), taking)
		f.done(err)
		e := taken[0].Event
		return fmt.Sprint(len(taken), e.ID, string(e.Key), string(e.Payload), string(e.Headers), e.CreatedAt.IsZero(), e.MaxAttempts)
	}
	if s := got(h.ID); s != `1 1kparked{"h": "v"}false 3` {
		t.Errorf("behind the hold: %s", s)
	}
	if s := got(); s != `1 2kscheduled[["a", "b"]]false 0` {
		t.Errorf("due: %s", s)
	}
	f.exec(`update postrider.outbox_hold set cause = 'halted', event_id = (select event_id from postrider.outbox_exception where id = 3)`)
	if got := f.purge(relay.PurgeDeadLettered, 10); got.Rows != 0 {
		t.Errorf("removed %+v, which halts its key", got)
	}
	f.exec(`update postrider.outbox_hold set cause = 'retry', event_id = null`)
	if got := f.purge(relay.PurgeDeadLettered, 10); got.Rows != 1 {
		t.Errorf("removed %+v", got)
	}
	f.wantStates("1:parked 2:scheduled")
}

// TestRule12ReceiptsGoAndMerge: whatever is purged and merged, the position, the time at which each event went, to the
// second, and the number of events stay right.
func TestRule12ReceiptsGoAndMerge(t *testing.T) {
	t.Parallel()
	for seed := range uint64(5) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			r := rand.New(rand.NewPCG(seed, 12))
			d := f.lead()
			open := map[int64]bool{} // gaps that will be filled
			sent := map[int64]time.Time{}
			position, clock := int64(0), time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
			for range 120 {
				clock = clock.Add(time.Duration(r.IntN(900)) * time.Millisecond)
				n := r.IntN(8)
				var ids []int64
				for range n {
					id := value[int64](f, `select nextval('postrider.outbox_event_id_seq')`)
					switch r.IntN(12) {
					case 0:
						open[id] = true
					case 1: // never comes
					default:
						ids = append(ids, id)
					}
					position = id
				}
				for id := range open {
					if r.IntN(10) == 0 {
						delete(open, id)
						ids = append(ids, id)
					}
				}
				events := unordered(ids)
				f.exec(`insert into postrider.outbox_event (id, topic) overriding system value select id, 't' from unnest($1::bigint[]) id`, ids)
				receipt := &relay.Receipt{Position: position, Events: events, Forgotten: nil, Gaps: nil}
				if r.IntN(5) == 0 {
					receipt.Gaps = relay.Ranges{}
					for id := range open {
						receipt.Gaps = receipt.Gaps.Union(relay.Ranges{{First: id, Last: id}})
					}
				}
				all := relay.Ranges{{First: 1, Last: max(position, 1)}}
				for id := range sent {
					all = all.Minus(relay.Ranges{{First: id, Last: id}})
				}
				for id := range open {
					all = all.Minus(relay.Ranges{{First: id, Last: id}})
				}
				receipt.Forgotten = all.Minus(events)
				f.settle(d, receipt)
				f.exec(`update postrider.outbox_receipt set at = $1 where number = $2`, clock, d.number)
				for _, id := range ids {
					sent[id] = clock
				}
				if r.IntN(15) == 0 {
					f.letGo(d)
					f.freed()
					d = f.lead()
					f.exec(`update postrider.outbox_receipt set at = $1 where number = $2`, clock, d.number)
				}
				if r.IntN(4) > 0 {
					continue
				}
				before := f.progress()
				if r.IntN(2) == 0 {
					f.exec(`select postrider.outbox_merge_receipts('1 second', $1)`, 1+r.IntN(30))
				} else if _, err := f.store.Purge(t.Context(), relay.PurgeLimits{Kind: relay.PurgePublished, Rows: 1 + r.IntN(40)}); err != nil {
					t.Fatal(err)
				}
				if after := f.progress(); after != before {
					t.Fatalf("progress was %s and is %s", before, after)
				}
				for _, row := range pgtest.Column[string](t, f.pool, `select id || ' ' || state || ' ' || extract(epoch from sent_at)::text from postrider.v_outbox_event`) {
					var id int64
					var state string
					var at float64
					if _, err := fmt.Sscan(row, &id, &state, &at); err != nil {
						t.Fatalf("%s: %v", row, err)
					}
					if late := at - float64(sent[id].UnixMicro())/1e6; state != "published" || late < 0 || late >= 1 {
						t.Fatalf("event %d is %s and went %v s after it went", id, state, late)
					}
				}
			}
			if n := value[int](f, `select count(*) from postrider.outbox_receipt`); n > 100 {
				t.Errorf("%d receipts are left: nothing was tested", n)
			}
		})
	}
}

// TestRule12OneAtATime: another session's step is not waited for.
func TestRule12OneAtATime(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.exec(`insert into postrider.outbox_idempotency_key (topic, idempotency_key, event_id) values ('t', 'k', gen_random_uuid())`)
	end := f.locking(`select from postrider.outbox_retention for update`)
	for _, kind := range relay.PurgeKinds() {
		if got := f.purge(kind, 10); !got.Busy || got.Rows != 0 {
			t.Errorf("%s: %+v", kind, got)
		}
	}
	end("rollback")
	if got := f.purge(relay.PurgeIdempotencyKeys, 100); got != (relay.Purged{Rows: 1}) {
		t.Errorf("keys: %+v", got)
	}
}

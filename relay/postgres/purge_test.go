package postgres

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/migrations/pgtest"
	"github.com/postrider/postrider/relay"
)

const month = 30 * relay.Day

// purge walks until there is no more, in steps of so many rows, and returns how many were removed.
func (f *fixture) purge(l relay.PurgeLimits) int {
	f.Helper()
	if l.Rows == 0 {
		l.Rows = 1000
	}
	total := 0
	for {
		got, err := f.store.Purge(f.Context(), l)
		if err != nil {
			f.Fatalf("purge: %v", err)
		}
		if got.Busy {
			f.Fatal("purge: somebody else is at it")
		}
		total += got.Rows
		if !got.More {
			return total
		}
		l.Restart, l.From = false, got.Next
	}
}

// aged writes an event of each state, in this order, created and sent so long ago, and returns their ids.
func (f *fixture) aged(age time.Duration, states ...string) []int64 {
	f.Helper()
	hold := value[int64](f, `insert into postrider.outbox_hold (scope, topic, cause, next_probe_at) values ('topic', gen_random_uuid()::text, 'route', now() + interval '1 day') returning hold_id`)
	var ids []int64
	for _, state := range states {
		ids = append(ids, value[int64](f, `
			insert into postrider.outbox_event (topic, key, state, created_at, available_at, sent_at, updated_at, next_attempt_at, hold_id, episode)
			select 't', 'k', $1::postrider.outbox_state, at, at,
			       case when $1 in ('published', 'dead_lettered') then at end, at,
			       case when $1 = 'scheduled' then at end, case when $1 = 'parked' then $3::bigint end,
			       case when $1 in ('exhausted', 'dead_lettered') then 1 else 0 end
			from (select now() - $2::bigint * interval '1 microsecond' as at) age returning id`, state, age.Microseconds(), hold))
	}
	return ids
}

func (f *fixture) left() []int64 {
	f.Helper()
	rows, err := f.pool.Query(f.Context(), `select id from postrider.outbox_event order by id`)
	if err != nil {
		f.Fatal(err)
	}
	ids, err := pgx.CollectRows(rows, pgx.RowTo[int64])
	if err != nil {
		f.Fatal(err)
	}
	return ids
}

func (f *fixture) wantLeft(want ...[]int64) {
	f.Helper()
	if got, all := f.left(), slices.Concat(want...); !slices.Equal(got, all) {
		f.Errorf("the events %v are left, want %v", got, all)
	}
}

func TestOldPublishedEventsGoAndAllOthersStay(t *testing.T) {
	t.Parallel()
	for _, rows := range []int{1, 3, 1000} {
		t.Run(fmt.Sprint(rows), func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			f.aged(31*relay.Day, "published", "published")
			waiting := f.aged(31*relay.Day, "pending", "scheduled", "parked", "exhausted", "dead_lettered")
			f.aged(31*relay.Day, "published")
			young := f.aged(29*relay.Day, "published", "pending", "published")
			limits := relay.PurgeLimits{Kind: relay.PurgePublished, Keep: month, Rows: rows}
			if n := f.purge(limits); n != 3 {
				t.Errorf("%d events are purged, want 3", n)
			}
			f.wantLeft(waiting, young)
			if n := f.purge(limits); n != 0 {
				t.Errorf("%d more are purged", n)
			}
			// The young ones have not been passed by.
			f.exec(`update postrider.outbox_event set created_at = created_at - interval '2 days', sent_at = sent_at - interval '2 days'`)
			if n := f.purge(limits); n != 2 {
				t.Errorf("%d events are purged when they are old enough, want 2", n)
			}
			f.wantLeft(waiting, young[1:2])
		})
	}
}

// An event that waited long was sent long after it was created.
func TestTimeSinceSendingCounts(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	late := f.aged(40*relay.Day, "published")
	f.exec(`update postrider.outbox_event set sent_at = now() - interval '1 day'`)
	f.aged(39*relay.Day, "published")
	if n := f.purge(relay.PurgeLimits{Kind: relay.PurgePublished, Keep: month}); n != 1 {
		t.Errorf("%d events are purged, want the one behind it", n)
	}
	f.wantLeft(late)
}

func TestNoRetentionPurgesWhatIsMarked(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.aged(0, "published")
	f.aged(time.Minute, "published")
	pending := f.insert("k")
	if n := f.purge(relay.PurgeLimits{Kind: relay.PurgePublished, Keep: time.Nanosecond}); n != 2 {
		t.Errorf("%d events are purged, want 2", n)
	}
	f.wantLeft(pending)
}

// A clock that was wrong left events from the future. They stay, and nothing is stuck behind them.
func TestEventsFromTheFutureStopNothing(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	future := f.aged(-365*relay.Day, "published", "published")
	f.aged(31*relay.Day, "published")
	if n := f.purge(relay.PurgeLimits{Kind: relay.PurgePublished, Keep: month, Rows: 1}); n != 1 {
		t.Errorf("%d events are purged, want 1", n)
	}
	f.wantLeft(future)
}

// What had to stay is looked at again a day later, and when somebody asks for it.
func TestWalkBeginsAnew(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	limits := relay.PurgeLimits{Kind: relay.PurgePublished, Keep: month, Rows: 2}
	f.aged(40*relay.Day, "parked")
	young := f.aged(0, "published")
	if n := f.purge(limits); n != 0 {
		t.Errorf("%d events are purged", n)
	}
	const publish = `update postrider.outbox_event set state = 'published', hold_id = null, sent_at = now() - interval '31 days' where state = 'parked'`
	f.exec(publish)
	if n := f.purge(limits); n != 0 {
		t.Errorf("%d events are purged within the same round", n)
	}
	f.exec(`update postrider.outbox_purge set round_began_at = now() - interval '25 hours'`)
	if n := f.purge(limits); n != 1 {
		t.Errorf("%d events are purged in the next round, want 1", n)
	}
	f.wantLeft(young)
	if age := value[float64](f, `select extract(epoch from clock_timestamp() - round_began_at)::float8 from postrider.outbox_purge where kind = 'published'`); age > 600 {
		t.Errorf("the round began %v seconds ago", age)
	}
	f.aged(40*relay.Day, "parked")
	f.exec(`update postrider.outbox_event set created_at = now() - interval '31 days', sent_at = now() - interval '31 days' where state = 'published'`)
	if n := f.purge(limits); n != 1 {
		t.Errorf("%d events are purged, want the young one of before", n)
	}
	f.exec(publish)
	limits.Restart = true
	if n := f.purge(limits); n != 1 {
		t.Errorf("%d events are purged after a restart, want 1", n)
	}
	f.wantLeft()
}

// A round that takes more than a day is not begun anew before its end.
func TestLongRoundComesToItsEnd(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	stay := f.aged(40*relay.Day, "pending", "pending", "pending")
	f.aged(40*relay.Day, "published")
	limits := relay.PurgeLimits{Kind: relay.PurgePublished, Keep: month, Rows: 1}
	for range 3 {
		f.exec(`update postrider.outbox_purge set round_began_at = now() - interval '25 hours' where position is not null`)
		if got, err := f.store.Purge(t.Context(), limits); err != nil || got.Rows != 0 || !got.More {
			t.Fatalf("%+v, %v", got, err)
		}
	}
	if got, err := f.store.Purge(t.Context(), limits); err != nil || got.Rows != 1 {
		t.Errorf("%+v, %v, want the last event purged", got, err)
	}
	f.wantLeft(stay)
}

// record writes what the collector would have written.
func (f *fixture) record(id int64, episode int, status string) {
	f.Helper()
	f.exec(`with opened as (
			insert into postrider.dlq_entry (subject_type, subject_id, original_state, dlq_reason, dlq_timestamp, last_occurred_at, snapshot, resolution_status, resolution_timestamp)
			select 'event', event_id::text, 'failed', 'undeliverable', now(), now(), '{}', $3::postrider.dlq_resolution_status, case when $3 <> 'pending' then now() end
			from postrider.outbox_event where id = $1 returning dlq_entry_uuid, subject_id)
		insert into postrider.dlq_letter (letter_id, dlq_entry_uuid, dialect, dlq_topic, dlq_partition, dlq_offset, key_kind, payload_kind)
		select 'event:' || subject_id || ':' || $2::int, dlq_entry_uuid, 'postrider', 'postrider.dlq', 0, 0, 'inline', 'inline' from opened`,
		id, episode, status)
}

func TestDeadLetteredEventsStayForTheirInvestigation(t *testing.T) {
	t.Parallel()
	for _, rows := range []int{1, 1000} {
		t.Run(fmt.Sprint(rows), func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			stay := f.aged(91*relay.Day, "exhausted", "dead_lettered", "dead_lettered", "dead_lettered", "published", "pending")
			exhausted, unrecorded, open, again := stay[0], stay[1], stay[2], stay[3]
			f.record(exhausted, 1, "manually_resolved")
			f.record(open, 1, "pending")
			f.record(again, 1, "cancelled")
			f.exec(`update postrider.outbox_event set episode = 2 where id = $1`, again) // given up once more, not recorded yet
			for _, status := range []string{"manually_resolved", "permanently_failed", "cancelled"} {
				f.record(f.aged(91*relay.Day, "dead_lettered")[0], 1, status)
			}
			purged := f.aged(91*relay.Day, "dead_lettered")[0]
			f.record(purged, 1, "cancelled")
			f.exec(`delete from postrider.dlq_entry where subject_id = (select event_id::text from postrider.outbox_event where id = $1)`, purged)
			young := f.aged(89*relay.Day, "dead_lettered")
			f.record(young[0], 1, "cancelled")
			limits := relay.PurgeLimits{Kind: relay.PurgeDeadLettered, Keep: 90 * relay.Day, Rows: rows}
			dry := limits
			dry.DryRun = true
			if n := f.purge(dry); n != 4 {
				t.Errorf("%d events would be purged, want 4", n)
			}
			if n := f.purge(limits); n != 4 {
				t.Errorf("%d events are purged, want 4", n)
			}
			f.wantLeft(stay, young)
			// The last letter arrives, and the investigation is closed.
			f.record(unrecorded, 1, "cancelled")
			f.exec(`update postrider.dlq_entry set resolution_status = 'cancelled', resolution_timestamp = now() where resolution_status = 'pending'`)
			limits.Restart = true
			if n := f.purge(limits); n != 2 {
				t.Errorf("%d more events are purged, want 2", n)
			}
			f.wantLeft([]int64{exhausted, again}, stay[4:], young)
		})
	}
}

// TestHaltingEventsStay: the row of an event that halts its key stays as long as it does, whatever became of its
// investigation, so that it can be put back and its hold is about something. Released, or put back and sent, it
// goes as any other.
func TestHaltingEventsStay(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.insert("a", "b", "c", "a", "b")
	limits := relay.PurgeLimits{Kind: relay.PurgeDeadLettered, Keep: relay.Day, Rows: 10}
	for _, key := range []string{"a", "b"} {
		f.halt(key)
	}
	f.settle(f.claim(), &relay.Settlement{Exhausted: []relay.Failure{*failure(3, 5)}})
	f.buried(1, 2, 3)
	f.exec(`update postrider.outbox_event set sent_at = sent_at - interval '2 days' where state = 'dead_lettered'`)
	for id := range int64(3) {
		f.record(id+1, 1, "manually_resolved")
	}
	if got := f.purge(limits); got != 1 {
		t.Errorf("%d events went, want the one that halts nothing", got)
	}
	f.wantStates("1:dead_lettered(5) 2:dead_lettered(5) 4:parked 5:parked")
	f.done(f.store.Redrive(t.Context(), 1))
	if _, err := f.store.Release(t.Context(), value[int64](f, `select hold_id from postrider.outbox_hold where key = 'b'`)); err != nil {
		t.Fatal(err)
	}
	limits.Restart = true
	if got := f.purge(limits); got != 1 {
		t.Errorf("%d events went, want the one whose key was released", got)
	}
	f.wantStates("1:pending 4:parked 5:parked")
}

func TestOldIdempotencyKeysGo(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.exec(`insert into postrider.outbox_idempotency_key (topic, idempotency_key, event_id, created_at)
		select 't', 'key ' || n, gen_random_uuid(), now() - n * interval '1 hour' from generate_series(1, 2000) n`)
	limits := relay.PurgeLimits{Kind: relay.PurgeIdempotencyKeys, Keep: month, Rows: 100}
	dry := limits
	dry.DryRun = true
	old := 2000 - 30*24 + 1 // the one that is just 30 days old too
	if n := f.purge(dry); n != old {
		t.Errorf("%d keys would be purged, want %d", n, old)
	}
	if n := f.purge(limits); n != old {
		t.Errorf("%d keys are purged, want %d", n, old)
	}
	if n := value[int](f, `select count(*) from postrider.outbox_idempotency_key where created_at > now() - interval '30 days'`); n != 2000-old {
		t.Errorf("%d keys are left, want %d", n, 2000-old)
	}
	// A key that is forgotten can be used again.
	const publish = `select postrider.outbox_publish('t', 'k', '1', idempotency_key => 'key 2000')`
	first := value[string](f, publish+`::text`)
	if again := value[string](f, publish+`::text`); again != first {
		t.Errorf("a key that is used again has the events %s and %s", first, again)
	}
	if n := f.purge(limits); n != 0 {
		t.Errorf("%d new keys are purged", n)
	}
}

func TestDryRunChangesNothing(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.aged(31*relay.Day, "published", "published")
	before := value[string](f, `select string_agg(p::text, ';' order by kind) from postrider.outbox_purge p`)
	for _, rows := range []int{1, 2, 1000} {
		if n := f.purge(relay.PurgeLimits{Kind: relay.PurgePublished, Keep: month, Rows: rows, DryRun: true}); n != 2 {
			t.Errorf("in steps of %d, %d events would be purged, want 2", rows, n)
		}
	}
	if after := value[string](f, `select string_agg(p::text, ';' order by kind) from postrider.outbox_purge p`); after != before || len(f.left()) != 2 {
		t.Errorf("a dry run left %d of 2 events, and the walks at %s, were at %s", len(f.left()), after, before)
	}
}

// Another purger is at work, or somebody's foreign key holds an event for long: the purge waits a second at most, gives
// way, and finds all of it later.
func TestPurgeGivesWay(t *testing.T) {
	t.Parallel()
	for name, other := range map[string]struct {
		sql  string
		args []any
	}{
		"another purger": {lockPurge, []any{"published"}},
		"a foreign key":  {`select from postrider.outbox_event where id = (select max(id) from postrider.outbox_event) for key share`, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			f.aged(31*relay.Day, "published", "published")
			tx, err := f.pool.Begin(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			pgtest.Exec(t, tx, other.sql, other.args...)
			limits := relay.PurgeLimits{Kind: relay.PurgePublished, Keep: month, Rows: 1000}
			if got, err := f.store.Purge(t.Context(), limits); err != nil || !got.Busy || got.Rows != 0 {
				t.Errorf("beside it: %+v, %v", got, err)
			}
			if err := tx.Rollback(t.Context()); err != nil {
				t.Fatal(err)
			}
			if n := f.purge(limits); n != 2 {
				t.Errorf("%d events are purged after it ended, want 2", n)
			}
		})
	}
}

// Many purgers at once remove each row once, and all of them.
func TestPurgersShareTheWalk(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.exec(`insert into postrider.outbox_event (topic, key, state, created_at, sent_at, updated_at)
		select 't', 'k', 'published', at, at, at from (select now() - interval '31 days' as at from generate_series(1, 2000)) a`)
	stay := f.insert("a", "b")
	var mu sync.Mutex
	var wg sync.WaitGroup
	total := 0
	for range 4 {
		store, _ := f.open(Options{MaxConns: 1}, StoreOptions{})
		wg.Go(func() {
			for {
				got, err := store.Purge(t.Context(), relay.PurgeLimits{Kind: relay.PurgePublished, Keep: month, Rows: 50})
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				total += got.Rows
				mu.Unlock()
				if !got.Busy && !got.More {
					return
				}
			}
		})
	}
	wg.Wait()
	if total != 2000 {
		t.Errorf("%d rows are counted, want 2000", total)
	}
	f.wantLeft(stay)
}

// The connection of a purge is cut: its row is free at once, and nothing is half done.
func TestPurgeThatDies(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.aged(31*relay.Day, "published", "published")
	conn := f.db.Conn(t)
	for _, sql := range []string{"begin", "select from postrider.outbox_purge where kind = 'published' for update",
		"delete from postrider.outbox_event", "update postrider.outbox_purge set position = '1000' where kind = 'published'"} {
		if _, err := conn.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	f.exec(`select pg_terminate_backend($1)`, conn.PgConn().PID())
	f.waitFor(`select not exists (select from pg_stat_activity where pid = $1)`, conn.PgConn().PID())
	if n := f.purge(relay.PurgeLimits{Kind: relay.PurgePublished, Keep: month}); n != 2 {
		t.Errorf("%d events are purged, want 2", n)
	}
}

func TestPurgeErrors(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.exec(`update postrider.outbox_purge set position = 'nonsense'`)
	for want, l := range map[string]relay.PurgeLimits{
		"looks at 0 rows":                   {Kind: relay.PurgePublished},
		`no "socks" rows`:                   {Kind: "socks", Rows: 1, DryRun: true},
		`position "nonsense" of a purge is`: {Kind: relay.PurgePublished, Rows: 1},
		`position "x" of a purge is`:        {Kind: relay.PurgeIdempotencyKeys, Rows: 1, DryRun: true, From: "x"},
		"invalid input syntax":              {Kind: relay.PurgeDeadLettered, Rows: 1},
	} {
		if _, err := f.store.Purge(t.Context(), l); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want a mention of %q", l, err, want)
		}
	}
	for _, kind := range relay.PurgeKinds() { // a restart mends it
		if _, err := f.store.Purge(t.Context(), relay.PurgeLimits{Kind: kind, Rows: 1, Restart: true}); err != nil {
			t.Error(err)
		}
	}
}

package postgres

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/postrider/postrider/relay"
)

// parts are the partitions in order, without the default one.
func (f *fixture) parts() string {
	f.Helper()
	return value[string](f, `select coalesce(string_agg(name, ' ' order by to_id), '') from postrider.outbox_partition`)
}

// rotated takes one step of the purge of published events.
func (f *fixture) rotated(keep time.Duration) relay.Purged {
	f.Helper()
	got, err := f.store.Purge(f.Context(), relay.PurgeLimits{Kind: relay.PurgePublished, Keep: keep, Rows: 10_000})
	if err != nil {
		f.Fatal(err)
	}
	return got
}

// passed settles everything pending and raises the marks over it.
func (f *fixture) passed() {
	f.Helper()
	f.exec(`update postrider.outbox_event set state = 'published', sent_at = now(), updated_at = now() where state = 'pending'`)
	f.raise()
}

// outlived makes partitions of 1000 and passes them with events that are done, until it is known since when they are.
func (f *fixture) outlived() {
	f.Helper()
	f.partition(1000)
	f.many(3500)
	f.rotated(month)
	f.raise()
	f.rotated(month)
}

func TestPartitionsAreDroppedWhenTheyAreDone(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.partition(1000)
	if got := f.parts(); got != "outbox_event_p0 outbox_event_p1 outbox_event_p1001" {
		t.Fatalf("the partitions are %s", got)
	}
	f.exec(`insert into postrider.outbox_event (topic) select 't' from generate_series(1, 1190)`) // 1 to 1190
	waiting := f.aged(40*relay.Day, "parked")[0]                                                  // 1191
	dead := f.aged(40*relay.Day, "dead_lettered", "dead_lettered")                                // 1192, 1193
	if got := f.rotated(month); got.Partitions != 0 {
		t.Errorf("%+v while events are pending", got)
	}
	if got := f.parts(); got != "outbox_event_p0 outbox_event_p1 outbox_event_p1001 outbox_event_p2001 outbox_event_p3001" {
		t.Errorf("the partitions are %s, want more ahead", got)
	}
	f.exec(`insert into postrider.outbox_event (topic) select 't' from generate_series(1, 3000)`) // to 4193
	f.passed()
	if got := f.rotated(month); got.Partitions != 0 {
		t.Errorf("%+v before it is known since when they are settled", got)
	}
	settled := func() string {
		return value[string](f, `select coalesce(string_agg(name, ' ' order by to_id), '') from postrider.outbox_partition where settled_at is not null`)
	}
	if got := settled(); got != "outbox_event_p0 outbox_event_p1 outbox_event_p2001 outbox_event_p3001" {
		t.Errorf("settled are %s, want all full ones but that with event %d", got, waiting)
	}
	if got := f.rotated(month); got.Partitions != 0 {
		t.Errorf("%+v before their time", got)
	}
	f.exec(`update postrider.outbox_partition set settled_at = settled_at - interval '31 days' where name <> 'outbox_event_p3001'`)
	dry, err := f.store.Purge(t.Context(), relay.PurgeLimits{Kind: relay.PurgePublished, Keep: month, Rows: 1, DryRun: true})
	if err != nil || dry.Partitions != 3 || dry.More {
		t.Errorf("a dry run: %+v, %v, want 3 partitions", dry, err)
	}
	for range 3 { // the empty one of before, and two
		if got := f.rotated(month); got.Partitions != 1 || !got.More {
			t.Errorf("%+v, want one dropped", got)
		}
	}
	if got := f.rotated(month); got.Partitions != 0 {
		t.Errorf("%+v, want none", got)
	}
	if got := f.parts(); got != "outbox_event_p1001 outbox_event_p3001 outbox_event_p5193 outbox_event_p6193" {
		t.Errorf("the partitions are %s", got)
	}
	// The parked event goes; its partition follows, without the dead-lettered ones.
	f.exec(`update postrider.outbox_event set state = 'published', hold_id = null, sent_at = now(), updated_at = now() where id = $1`, waiting)
	f.rotated(month)
	f.exec(`update postrider.outbox_partition set settled_at = settled_at - interval '31 days' where name = 'outbox_event_p1001'`)
	letters := value[string](f, `select string_agg(e::text, ';' order by id) from postrider.outbox_event e where state = 'dead_lettered'`)
	if got := f.rotated(month); got.Partitions != 1 {
		t.Errorf("%+v, want one dropped", got)
	}
	if got := value[string](f, `select string_agg(e::text, ';' order by id) from postrider.outbox_event e where state = 'dead_lettered'`); got != letters {
		t.Errorf("the dead-lettered events are\n%s\nthey were\n%s", got, letters)
	}
	if got := value[string](f, `select string_agg(distinct c.relname, ' ') from postrider.outbox_event e join pg_class c on c.oid = e.tableoid where id <= 2000`); got != "outbox_event_default" {
		t.Errorf("they are in %s", got)
	}
	// And go when their investigations are closed.
	for _, id := range dead {
		f.record(id, 1, "cancelled")
	}
	if n := f.purge(relay.PurgeLimits{Kind: relay.PurgeDeadLettered, Keep: month}); n != 2 {
		t.Errorf("%d dead-lettered events are purged, want 2", n)
	}
}

// What was done and waits again begins its time anew.
func TestPartitionThatIsNeededAgainStays(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.outlived()
	f.exec(`update postrider.outbox_partition set settled_at = settled_at - interval '31 days' where name <> 'outbox_event_p0'`)
	again := func(state string) {
		f.exec(`update postrider.outbox_event set state = $1::postrider.outbox_state, next_attempt_at = now() + interval '1 day', updated_at = now() where id = 5`, state)
	}
	again("scheduled")
	f.rotated(month)
	again("published")
	f.rotated(month) // the next one is dropped, as it should be
	if got := f.parts(); got != "outbox_event_p0 outbox_event_p1 outbox_event_p4500 outbox_event_p5500" {
		t.Errorf("the partitions are %s", got)
	}
	if age := value[float64](f, `select extract(epoch from clock_timestamp() - settled_at)::float8 from postrider.outbox_partition where name = 'outbox_event_p1'`); age > 600 {
		t.Errorf("it counts as settled for %v seconds", age)
	}
	// Pending again, which lowers the mark.
	f.exec(`update postrider.outbox_partition set settled_at = settled_at - interval '31 days' where name = 'outbox_event_p1'`)
	again("pending")
	f.exec(lowerWater, value[int16](f, `select shard from postrider.outbox_event where id = 5`), 5)
	if got := f.rotated(month); got.Partitions != 0 {
		t.Errorf("%+v, although event 5 is pending", got)
	}
	c := f.claim()
	if got := claimed(c); !slices.Equal(got, []int64{5}) {
		t.Errorf("claimed %v", got)
	}
	c.Abandon()
}

// An event that is not committed yet keeps its partition, although nothing is to be seen of it.
func TestPartitionWaitsForUncommittedEvents(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.partition(1000)
	tx, err := f.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(t.Context())
	if _, err := tx.Exec(t.Context(), `insert into postrider.outbox_event (topic, key) values ('t', 'late')`); err != nil {
		t.Fatal(err)
	}
	f.many(4000)
	f.raise()
	for range 2 {
		f.rotated(time.Nanosecond)
	}
	if n := value[int](f, `select count(*) from postrider.outbox_partition where settled_at is not null and name <> 'outbox_event_p0'`); n != 0 {
		t.Errorf("%d partitions count as settled beside an uncommitted event", n)
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	c := f.claim()
	f.settle(c, &relay.Settlement{Delivered: claimed(c)})
	f.raise()
	for range 8 {
		f.rotated(time.Nanosecond)
	}
	if got := f.parts(); strings.Contains(got, "outbox_event_p0 ") || strings.Contains(got, "outbox_event_p1 ") {
		t.Errorf("the partitions are %s", got)
	}
}

func TestManyDeadLettersKeepTheirPartition(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.partition(2000)
	f.exec(`insert into postrider.outbox_event (topic, key, state, sent_at, updated_at, episode)
		select 't', 'k', 'dead_lettered', now(), now(), 1 from generate_series(1, 1001)`)
	f.many(4000)
	f.raise()
	for range 4 {
		f.rotated(time.Nanosecond)
	}
	if got := f.parts(); !strings.HasPrefix(got, "outbox_event_p1 ") {
		t.Errorf("the partitions are %s", got)
	}
	f.exec(`delete from postrider.outbox_event where id = 1`)
	if got := f.rotated(time.Nanosecond); got.Partitions != 1 {
		t.Errorf("%+v, want the partition dropped, with 1000 dead letters moved", got)
	}
	if n := value[int](f, `select count(*) from postrider.outbox_event_default where state = 'dead_lettered'`); n != 1000 {
		t.Errorf("%d dead-lettered events are kept, want 1000", n)
	}
}

// Writers never fail for want of a partition: what has none goes to the default one, and is purged there.
func TestWritersAreFasterThanPartitions(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.partition(100)
	f.many(450) // 1 to 200 have partitions
	if n := value[int](f, `select count(*) from postrider.outbox_event_default`); n != 250 {
		t.Errorf("%d events are in the default partition, want 250", n)
	}
	f.rotated(month)
	if got := f.parts(); got != "outbox_event_p0 outbox_event_p1 outbox_event_p101 outbox_event_p550 outbox_event_p650" {
		t.Errorf("the partitions are %s, want new ones where writers are not yet", got)
	}
	f.many(200) // 451 to 650
	if n := value[int](f, `select count(*) from postrider.outbox_event_default`); n != 349 {
		t.Errorf("%d events are in the default partition, want 349", n)
	}
	f.exec(`update postrider.outbox_event set state = 'published', created_at = now() - interval '31 days', sent_at = now() - interval '31 days', updated_at = now()`)
	if got := f.rotated(month); got.Rows != 349 {
		t.Errorf("%+v, want 349 events of the default partition purged", got)
	}
	if n := value[int](f, `select count(*) from postrider.outbox_event`); n != 301 {
		t.Errorf("%d events are left, want the 301 in partitions", n)
	}
}

// The lock is not to be had: the rotation gives way, the purge goes on, and the next turn finds the rest.
func TestRotationGivesWay(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.outlived()
	tx, err := f.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), `select count(*) from postrider.outbox_event`); err != nil {
		t.Fatal(err)
	}
	if got := f.rotated(time.Nanosecond); got.Partitions != 0 || got.Busy {
		t.Errorf("%+v, beside a reader", got)
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := f.rotated(time.Nanosecond); got.Partitions != 1 {
		t.Errorf("%+v, want a partition dropped", got)
	}
}

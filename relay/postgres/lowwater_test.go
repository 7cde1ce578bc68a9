package postgres

import (
	"testing"
	"time"
)

// raise looks at the marks now, twice: the first look opens a fence, the second may find it closed.
func (f *fixture) raise() {
	f.Helper()
	for range 2 {
		f.store.water.looked = time.Time{}
		if err := f.store.raiseMarks(f.Context()); err != nil {
			f.Fatal(err)
		}
	}
	f.believed(f.store.water.final.Load())
}

// many writes n events of null keys, which spread over all shards, and settles them.
func (f *fixture) many(n int) {
	f.Helper()
	f.exec(`insert into postrider.outbox_event (topic) select 't' from generate_series(1, $1::int)`, n)
	f.exec(`update postrider.outbox_event set state = 'published' where key is null`)
}

func (f *fixture) lowest() int64 {
	f.Helper()
	return value[int64](f, `select min(low_water) from postrider.outbox_shard`)
}

// wantClaimed fails the test unless a claim has so many events.
func (f *fixture) wantClaimed(which string, n int) {
	f.Helper()
	c := f.claim()
	defer c.Abandon()
	if got := len(c.Batch().Events); got != n {
		f.Errorf("claimed %d events, want %s", got, which)
	}
}

func TestMarksRiseOverSettledEvents(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.many(raiseAfter + 500)
	f.raise()
	if got := f.lowest(); got != raiseAfter+500 {
		t.Errorf("the lowest mark is %d, want %d", got, raiseAfter+500)
	}
	// What comes later is found.
	f.insert("a")
	f.wantClaimed("the later one", 1)
}

func TestMarksStopAtPendingEvents(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	id := f.insert("a")[0]
	f.many(raiseAfter + 500)
	f.raise()
	if got := value[int64](f, `select low_water from postrider.outbox_shard s join postrider.outbox_event e using (shard) where e.id = $1`, id); got >= id {
		t.Errorf("the mark is %d, and event %d is pending", got, id)
	}
}

// The race that loses rows for good in every design with a cursor: an event with a low id becomes
// visible after everything around it was settled.
func TestMarksWaitForUncommittedEvents(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	tx, err := f.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(t.Context())
	var id int64
	if err := tx.QueryRow(t.Context(), `insert into postrider.outbox_event (topic, key) values ('t', 'late') returning id`).Scan(&id); err != nil {
		t.Fatal(err)
	}
	f.many(raiseAfter + 500)
	for range 3 {
		f.raise()
	}
	if got := f.lowest(); got != 0 {
		t.Fatalf("a mark rose to %d while event %d was uncommitted", got, id)
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	f.raise()
	c := f.claim()
	defer c.Abandon()
	if n := len(c.Batch().Events); n != 1 || c.Batch().Events[0].ID != id {
		t.Errorf("claimed %d events, want the late one", n)
	}
}

func TestMarksDoNotWaitForReaders(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	tx, err := f.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(t.Context())
	if _, err := tx.Exec(t.Context(), `select count(*) from postrider.outbox_event`); err != nil {
		t.Fatal(err)
	}
	f.many(raiseAfter + 500)
	f.raise()
	if f.lowest() == 0 {
		t.Error("a reading transaction kept the marks down")
	}
}

func TestReturnedEventsLowerTheMark(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	ids := f.insert("held", "later")
	f.exec(`insert into postrider.outbox_hold (scope, topic, key, cause, next_probe_at, draining) values ('key', 't', 'held', 'retry', now(), true)`)
	f.exec(`insert into postrider.outbox_hold_shard (hold_id, shard) select 1, shard from postrider.outbox_event where id = $1`, ids[0])
	f.exec(`update postrider.outbox_event set state = 'parked', hold_id = 1 where id = $1`, ids[0])
	f.exec(`update postrider.outbox_event set state = 'scheduled', next_attempt_at = now() where id = $1`, ids[1])
	f.many(raiseAfter + 500)
	f.raise()
	if f.lowest() == 0 {
		t.Fatal("the marks did not rise")
	}
	if _, err := f.store.Return(t.Context(), 10, time.Minute); err != nil {
		t.Fatal(err)
	}
	f.wantClaimed("those that came back", 2)
}

func TestSunkenEventsAreFound(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.insert("a")
	f.exec(`update postrider.outbox_shard set low_water = 1000`) // as after a restore that rewound the ids
	f.nothing()
	if err := f.store.raiseMarks(t.Context()); err != nil {
		t.Fatal(err)
	}
	f.wantClaimed("the sunken one", 1)
}

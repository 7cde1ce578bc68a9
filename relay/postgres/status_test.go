package postgres

import (
	"testing"
	"time"

	"github.com/postrider/postrider/relay"
)

func (f *fixture) status() relay.Status {
	f.Helper()
	st, err := f.store.Status(f.Context())
	if err != nil {
		f.Fatal(err)
	}
	return st
}

func TestStatusOfAnEmptyOutbox(t *testing.T) {
	t.Parallel()
	if st := newFixture(t).status(); st.Pending+st.Due+st.Processing+st.Failed+st.Parked+st.Scheduled+st.Exhausted+st.DeadLettered+st.HoldCount != 0 ||
		st.OldestDueSeconds != 0 || len(st.Holds) != 0 {
		t.Errorf("%+v", st)
	}
}

func TestStatusCounts(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.exec(`insert into postrider.outbox_hold (scope, topic, key, cause, error_code, error, held_at, next_probe_at, probes, draining) values
		('topic', 't', null, 'route', 'X', 'gone', '2026-01-02', '2026-01-03', 7, false), ('key', 'u', '\xff00', 'retry', null, null, '2026-01-01', '2026-01-04', 1, true)`)
	f.exec(`insert into postrider.outbox_event (topic, state, attempts, available_at, created_at, hold_id, next_attempt_at) values
		('t', 'pending', 0, now() - interval '1 minute', now() - interval '1 minute', null, null),
		('t', 'pending', 1, now(), now(), null, null),
		('t', 'pending', 0, now() + interval '1 hour', now(), null, null),
		('t', 'parked', 0, now() - interval '1 hour', now() - interval '2 hours', 1, null),
		('t', 'parked', 2, now(), now(), 1, null),
		('t', 'parked', 3, now(), now(), 2, null),
		('t', 'scheduled', 1, now(), now(), null, now()),
		('t', 'scheduled', 0, now() - interval '1 day', now(), null, now() + interval '1 hour'),
		('t', 'exhausted', 5, now(), now(), null, null), ('t', 'exhausted', 5, now(), now(), null, null),
		('t', 'dead_lettered', 5, now(), now(), null, null),
		('t', 'published', 0, now() - interval '1 year', now() - interval '1 year', null, null)`)
	f.exec(`insert into postrider.outbox_batch (worker, shards, first_id, last_id, events) values ('w', '{1}', 1, 2, 40), ('w', '{2}', 3, 4, 2)`)
	st := f.status()
	got := []int64{st.Pending, st.Due, st.Processing, st.Failed, st.Parked, st.Scheduled, st.Exhausted, st.DeadLettered, st.HoldCount}
	for i, want := range []int64{3, 2, 42, 4, 3, 2, 2, 1, 2} {
		if got[i] != want {
			t.Errorf("number %d is %d, want %d: %+v", i, got[i], want, st)
		}
	}
	if st.OldestDueSeconds < 3600 || st.OldestDueSeconds > 3660 {
		t.Errorf("the oldest that is due waits for %v s, want the parked one's hour", st.OldestDueSeconds)
	}
	day := func(d int) time.Time { return time.Date(2026, 1, d, 0, 0, 0, 0, time.UTC) }
	if len(st.Holds) != 2 {
		t.Fatalf("holds %+v", st.Holds)
	}
	if h := st.Holds[0]; h.Scope != relay.ScopeKey || h.Topic != "u" || h.Key != "\uFFFD\uFFFD" || h.Cause != relay.CauseRetry || !h.HeldAt.Equal(day(1)) ||
		!h.NextProbeAt.Equal(day(4)) || h.Probes != 1 || !h.Draining || h.Parked != 1 || h.ErrorCode+h.Error != "" {
		t.Errorf("the oldest hold is %+v", h)
	}
	if h := st.Holds[1]; h.Scope != relay.ScopeTopic || h.Topic != "t" || h.Key != "" || h.Cause != relay.CauseRoute || h.ErrorCode != "X" || h.Error != "gone" ||
		h.Probes != 7 || h.Draining || h.Parked != 2 {
		t.Errorf("the other hold is %+v", h)
	}
}

func TestStatusListsTheOldestHoldsOnly(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.exec(`insert into postrider.outbox_hold (scope, topic, cause, held_at, next_probe_at) select 'topic', 't' || i, 'route', now() - i * interval '1 minute', now() from generate_series(1, 150) i`)
	st := f.status()
	if st.HoldCount != 150 || len(st.Holds) != 100 || st.Holds[0].Topic != "t150" || st.Holds[99].Topic != "t51" {
		t.Errorf("%d holds, %d are listed, from %s to %s", st.HoldCount, len(st.Holds), st.Holds[0].Topic, st.Holds[len(st.Holds)-1].Topic)
	}
}

// TestEverythingFailsWithoutADatabase: and says so, and leaves nothing behind.
func TestEverythingFailsWithoutADatabase(t *testing.T) {
	t.Parallel()
	pool, err := NewPool(t.Context(), "postgres://nobody@127.0.0.1:1/none?sslmode=disable", Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	s := NewStore(pool, StoreOptions{})
	if c, err := s.Claim(t.Context(), relay.Limits{Worker: "w/0", Shards: 1, Events: 1}); c != nil || err == nil {
		t.Errorf("claimed %v, %v", c, err)
	}
	if c, err := s.ClaimLetters(t.Context(), toDLQ, 1); c != nil || err == nil {
		t.Errorf("claimed letters %v, %v", c, err)
	}
	if got, err := s.Return(t.Context(), 1, 1); err == nil || got != (relay.Returned{}) {
		t.Errorf("returned %+v, %v", got, err)
	}
	if _, err := s.Status(t.Context()); err == nil {
		t.Error("there is a status")
	}
}

package postgres

import (
	"testing"
	"time"

	"github.com/postrider/postrider/internal/relay"
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
	f.exec(`insert into postrider.outbox_event (topic, created_at) select 't', now() - case i when 4 then interval '2 hours' when 12 then interval '1 year' else interval '0' end from generate_series(1, 12) i`)
	f.exec(`update postrider.outbox_event set available_at = now() + interval '1 day' where id = 8`)
	x := exhausted(9, 10, 11)
	x = append(append(x, parked(1, 4, 5)...), parked(2, 6)...)
	x[4].Attempts, x[5].Attempts = 2, 3
	f.pass(relay.Receipt{Exceptions: append(x, relay.Exception{ID: 7, State: relay.Scheduled, In: 1, Attempts: 1}, relay.Exception{ID: 8, State: relay.Scheduled, In: time.Hour})})
	f.buried(11)
	f.exec(`insert into postrider.outbox_event (topic, available_at, created_at) values ('t', null, now() - interval '1 minute'), ('t', null, now()), ('t', now() + interval '1 hour', now())`)
	f.equal("in hand", f.take(1, 2), 6)
	st := f.status()
	got := []int64{st.Pending, st.Due, st.Processing, st.Failed, st.Parked, st.Scheduled, st.Exhausted, st.DeadLettered, st.HoldCount}
	for i, want := range []int64{3, 2, 1, 3, 3, 2, 2, 1, 2} {
		if got[i] != want {
			t.Errorf("number %d is %d, want %d: %+v", i, got[i], want, st)
		}
	}
	if st.OldestDueSeconds < 7200 || st.OldestDueSeconds > 7260 {
		t.Errorf("the oldest that is due waits for %v s, want the parked one's two hours", st.OldestDueSeconds)
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
	if d, err := s.Lead(t.Context(), "w"); d != nil || err == nil {
		t.Errorf("leads %v, %v", d, err)
	}
	if c, err := s.ClaimLetters(t.Context(), toDLQ, 1); c != nil || err == nil {
		t.Errorf("claimed letters %v, %v", c, err)
	}
	if _, err := s.Status(t.Context()); err == nil {
		t.Error("there is a status")
	}
}

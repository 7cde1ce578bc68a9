package relay

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
)

// stock is a store with so many rows of each kind to purge.
type stock struct {
	mu    sync.Mutex
	rows  map[PurgeKind]int
	calls map[PurgeKind][]PurgeLimits
	takes time.Duration
	fails map[PurgeKind]error
}

func (s *stock) purge(_ context.Context, l PurgeLimits) (Purged, error) {
	time.Sleep(s.takes)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls[l.Kind] = append(s.calls[l.Kind], l)
	if err := s.fails[l.Kind]; err != nil {
		return Purged{}, err
	}
	n := min(s.rows[l.Kind], l.Rows)
	s.rows[l.Kind] -= n
	return Purged{Rows: n, More: s.rows[l.Kind] > 0}, nil
}

func newStock(published, dead, keys int) *stock {
	return &stock{calls: map[PurgeKind][]PurgeLimits{}, fails: map[PurgeKind]error{},
		rows: map[PurgeKind]int{PurgePublished: published, PurgeDeadLettered: dead, PurgeIdempotencyKeys: keys}}
}

// TestRetentionOfOneThatRestsBegins within ten minutes: a process may not live for longer.
func TestRetentionOfOneThatRestsBegins(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		var ended sync.WaitGroup
		var stocks []*stock
		for range 5 {
			s := newStock(1, 0, 0)
			r := testRelay(t, func(c *Config) {
				restful(c)
				c.Store = &fakeStore{purge: s.purge}
			})
			stocks = append(stocks, s)
			ended.Go(func() { _ = r.Run(ctx) })
		}
		time.Sleep(restingPurge + time.Second)
		stop()
		ended.Wait()
		for i, s := range stocks {
			if s.rows[PurgePublished] != 0 {
				t.Errorf("relay %d has not looked", i)
			}
		}
	})
}

func TestRetentionGoesOnAndRests(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newStock(10_500, 10, 2000)
		s.takes = 10 * time.Millisecond
		reg := prometheus.NewRegistry()
		r := testRelay(t, func(c *Config) {
			c.Store, c.Registerer = &fakeStore{purge: s.purge}, reg
			c.Retention = Retention{Published: time.Hour, DeadLettered: 2 * time.Hour, IdempotencyKeys: 3 * time.Hour}
		})
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- r.Run(ctx) }()
		time.Sleep(5 * time.Second)
		// 11 steps of published rows, one pass beside the others each, and a few looks at nothing.
		s.mu.Lock()
		steps := len(s.calls[PurgePublished])
		for kind, keep := range map[PurgeKind]time.Duration{PurgePublished: time.Hour, PurgeDeadLettered: 2 * time.Hour, PurgeIdempotencyKeys: 3 * time.Hour} {
			if len(s.calls[kind]) != steps || s.calls[kind][0] != (PurgeLimits{Kind: kind, Keep: keep, Rows: purgeRows}) {
				t.Errorf("%s: %d steps, the first %+v", kind, len(s.calls[kind]), s.calls[kind][0])
			}
			if s.rows[kind] != 0 {
				t.Errorf("%d %s rows are left", s.rows[kind], kind)
			}
		}
		s.mu.Unlock()
		if steps < 11 || steps > 16 {
			t.Errorf("%d steps in five seconds", steps)
		}
		time.Sleep(10 * time.Minute)
		s.mu.Lock()
		if n := len(s.calls[PurgePublished]); n < steps+8 || n > steps+25 {
			t.Errorf("%d looks in ten minutes without work", n-steps)
		}
		s.mu.Unlock()
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if err := testutil.GatherAndCompare(reg, strings.NewReader(`
# HELP postrider_outbox_purged_total Rows removed because they are not needed any more, by kind: published and dead_lettered events, idempotency keys.
# TYPE postrider_outbox_purged_total counter
postrider_outbox_purged_total{kind="dead_lettered"} 10
postrider_outbox_purged_total{kind="idempotency_key"} 2000
postrider_outbox_purged_total{kind="published"} 10500
`), "postrider_outbox_purged_total"); err != nil {
			t.Error(err)
		}
	})
}

// Of the time that a purge is under way, the database is asked for a fifth.
func TestRetentionTakesAFifth(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newStock(1<<30, 1<<30, 1<<30)
		s.takes = 30 * time.Millisecond
		r := testRelay(t, func(c *Config) { c.Store = &fakeStore{purge: s.purge} })
		began := time.Now()
		if n, err := r.purge(t.Context()); n != 3 || err != nil {
			t.Errorf("purge() = %d, %v", n, err)
		}
		if took := time.Since(began); took != 3*5*s.takes {
			t.Errorf("three steps of %v took %v", s.takes, took)
		}
	})
}

// TestRetentionStopsWhenItMiscounts: the gauge says so until an operator has looked.
func TestRetentionStopsWhenItMiscounts(t *testing.T) {
	t.Parallel()
	s := newStock(10, 10, 10)
	s.fails[PurgePublished] = fmt.Errorf("of 10 rows 9: %w", ErrMiscounted)
	r := testRelay(t, func(c *Config) { c.Store = &fakeStore{purge: s.purge} })
	if _, err := r.purge(t.Context()); !errors.Is(err, ErrMiscounted) || testutil.ToFloat64(r.metrics.miscounted) != 1 {
		t.Errorf("purge() = %v, the gauge is %v", err, testutil.ToFloat64(r.metrics.miscounted))
	}
}

func TestRetentionOfOneKindFails(t *testing.T) {
	t.Parallel()
	s := newStock(10, 10, 10)
	s.fails[PurgePublished], s.fails[PurgeDeadLettered] = errTest, context.DeadlineExceeded
	r := testRelay(t, func(c *Config) { c.Store = &fakeStore{purge: s.purge} })
	_, err := r.purge(t.Context())
	if !errors.Is(err, errTest) || !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "purge published rows: ") {
		t.Errorf("the error is %v", err)
	}
	if s.rows[PurgeIdempotencyKeys] != 0 {
		t.Error("the other kind is not purged")
	}
}

// TestRetentionCountsWhatWasDone: also of a step that failed midway, by a relay and by hand.
func TestRetentionCountsWhatWasDone(t *testing.T) {
	t.Parallel()
	failing := &fakeStore{purge: func(_ context.Context, l PurgeLimits) (Purged, error) {
		if l.Kind != PurgePublished {
			return Purged{Rows: 1}, nil
		}
		return Purged{Rows: 3}, errTest
	}}
	for name, clean := range map[string]func(*Relay) error{
		"a relay": func(r *Relay) error { _, err := r.purge(t.Context()); return err },
		"by hand": func(r *Relay) error {
			got, err := r.Cleanup(t.Context(), CleanupOptions{})
			if got.Published != 3 || got.DeadLettered != 1 || got.IdempotencyKeys != 1 {
				t.Errorf("by hand: %+v", got)
			}
			return err
		},
	} {
		reg := prometheus.NewRegistry()
		r := testRelay(t, func(c *Config) { c.Store, c.Registerer = failing, reg })
		if err := clean(r); !errors.Is(err, errTest) {
			t.Errorf("%s: %v", name, err)
		}
		for kind, want := range map[PurgeKind]float64{PurgePublished: 3, PurgeDeadLettered: 1, PurgeIdempotencyKeys: 1} {
			if n := testutil.ToFloat64(r.metrics.purged.WithLabelValues(string(kind))); n != want {
				t.Errorf("%s: %v %s rows are counted, want %v", name, n, kind, want)
			}
		}
	}
}

func TestBacklogGauges(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		reg := prometheus.NewRegistry()
		var mu sync.Mutex
		reads := 0
		read := func() int {
			mu.Lock()
			defer mu.Unlock()
			return reads
		}
		r := testRelay(t, func(c *Config) {
			c.Registerer = reg
			c.Store = &fakeStore{backlog: func(_ context.Context, limit int) (Backlog, error) {
				mu.Lock()
				defer mu.Unlock()
				reads++
				if limit != backlogLimit {
					t.Errorf("a limit of %d", limit)
				}
				if reads > 1 && reads < 4 {
					return Backlog{}, errTest
				}
				return Backlog{Pending: 5, Due: 4, Parked: 3, Scheduled: 2, Exhausted: 1, OldestDue: 90 * time.Second}, nil
			}}
		})
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- r.Run(ctx) }()
		time.Sleep(time.Second)
		if n := read(); n != 1 {
			t.Errorf("%d reads in the first second", n)
		}
		first := float64(time.Now().Add(-time.Second).UnixMilli()) / 1000
		time.Sleep(time.Minute - 2*time.Second) // the second and the third fail and are tried again sooner
		if n := read(); n < 6 || n > 8 {
			t.Errorf("%d reads in a minute", n)
		}
		if got := testutil.ToFloat64(r.metrics.backlog.readAt); got <= first {
			t.Errorf("the backlog was read at %f, first at %f", got, first)
		}
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if err := testutil.GatherAndCompare(reg, strings.NewReader(`
# HELP postrider_outbox_backlog_due_events Pending events that are not delayed, among the first 10000 pending ones.
# TYPE postrider_outbox_backlog_due_events gauge
postrider_outbox_backlog_due_events 4
# HELP postrider_outbox_backlog_events Events that wait, by state: pending (may be claimed), parked (behind a hold), scheduled (for their time), exhausted (for the dead-letter topic). Counted every 10s up to 10000 of each; that number means so many or more.
# TYPE postrider_outbox_backlog_events gauge
postrider_outbox_backlog_events{state="exhausted"} 1
postrider_outbox_backlog_events{state="parked"} 3
postrider_outbox_backlog_events{state="pending"} 5
postrider_outbox_backlog_events{state="scheduled"} 2
# HELP postrider_outbox_oldest_due_seconds Age of the oldest event that should have gone by now, parked, retried and exhausted ones included, but not events behind halted keys, which wait for an operator; 0 when there is none.
# TYPE postrider_outbox_oldest_due_seconds gauge
postrider_outbox_oldest_due_seconds 90
`), "postrider_outbox_backlog_due_events", "postrider_outbox_backlog_events", "postrider_outbox_oldest_due_seconds"); err != nil {
			t.Error(err)
		}
	})
}

package dlq_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/postrider/postrider/internal/dlq"
)

// TestStopDuringPause stops a collector that waits after a failed poll.
func TestStopDuringPause(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRoom(t)
		for range 100 {
			r.source.pollErrs = append(r.source.pollErrs, errPoll)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		start := time.Now()
		if err := r.collector.Run(ctx); err != nil {
			t.Error(err)
		}
		if took := time.Since(start); took != 10*time.Second {
			t.Errorf("stopped after %v", took)
		}
		if polls := len(r.trace); polls < 10 || polls > 30 {
			t.Errorf("%d polls in 10 s, want a pause of at most about a second", polls)
		}
	})
}

// TestStopFinishesWhatIsInHand stops while the store is at work; it is given time to finish.
func TestStopFinishesWhatIsInHand(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRoom(t, events(15)...)
		ctx, cancel := context.WithCancel(t.Context())
		r.store.called = func(inner context.Context, _ int) {
			cancel()
			synctest.Wait()
			if inner.Err() != nil {
				t.Error("the work in hand is cut off at once")
			}
		}
		if err := r.collector.Run(ctx); err != nil {
			t.Error(err)
		}
		r.wantTrace("poll store commit")
		if r.source.committed != 10 || !r.source.closed {
			t.Errorf("committed %d, closed %v", r.source.committed, r.source.closed)
		}
	})
}

// TestStopGivesUp stops while the database is away: after the stop timeout nothing is committed, and the
// next collector reads the same again.
func TestStopGivesUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRoom(t, events(3)...)
		for range 1000 {
			r.store.errs = append(r.store.errs, errPassing)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		start := time.Now()
		if err := r.collector.Run(ctx); err != nil {
			t.Error(err)
		}
		if took := time.Since(start); took != time.Minute+dlq.DefaultStopTimeout {
			t.Errorf("stopped after %v", took)
		}
		if strings.Contains(strings.Join(r.trace, " "), "commit") || !r.source.closed {
			t.Errorf("calls: %v", r.trace)
		}
		if !strings.Contains(r.log.String(), "they will be read again") {
			t.Errorf("log: %s", r.log.String())
		}
		r.store.errs, r.registry = nil, prometheus.NewRegistry()
		again := r.newCollector(r.source.reader(10, &r.trace))
		if read, err := again.RunOnce(t.Context()); read != 3 || err != nil {
			t.Errorf("the next collector read %d, %v", read, err)
		}
		r.wantEntries(3)
	})
}

// TestStopDuringFallback gives up while letters are stored one at a time: the stored letters stay, and reading all of
// them again records each once.
func TestStopDuringFallback(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRoom(t, events(3)...)
		r.store.errs = []error{dlq.ErrLetter, nil}
		for range 1000 {
			r.store.errs = append(r.store.errs, errPassing)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := r.collector.Run(ctx); err != nil {
			t.Error(err)
		}
		r.wantEntries(1)
		r.store.errs, r.registry = nil, prometheus.NewRegistry()
		again := r.newCollector(r.source.reader(10, &r.trace))
		if read, err := again.RunOnce(t.Context()); read != 3 || err != nil {
			t.Errorf("the next collector read %d, %v", read, err)
		}
		for _, letters := range r.wantEntries(3) {
			if letters != 1 {
				t.Errorf("%d occurrences", letters)
			}
		}
	})
}

// TestStartStop starts and stops collectors, many at a time.
func TestStartStop(t *testing.T) {
	t.Parallel()
	for range 10 {
		t.Run("", func(t *testing.T) {
			t.Parallel()
			for range 50 {
				r := newRoom(t, events(3)...)
				ctx, cancel := context.WithCancel(t.Context())
				done := make(chan error, 1)
				go func() { done <- r.collector.Run(ctx) }()
				cancel()
				if err := <-done; err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

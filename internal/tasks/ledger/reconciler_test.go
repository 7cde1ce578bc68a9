package ledger

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
)

// looks answers one CatchUp after the other; when none is left, with nothing to do.
type looks struct {
	answers []CaughtUp
	errs    []error
	limits  []int
	at      []time.Time
}

func (l *looks) CatchUp(_ context.Context, limit int) (CaughtUp, error) {
	n := len(l.limits)
	l.limits, l.at = append(l.limits, limit), append(l.at, time.Now())
	switch {
	case n < len(l.errs) && l.errs[n] != nil:
		return CaughtUp{}, l.errs[n]
	case n < len(l.answers):
		return l.answers[n], nil
	}
	return CaughtUp{}, nil
}

// A full batch is followed by another at once, everything else by a pause; an outage is logged once.
func TestReconciler(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		away := errors.New("the database is away")
		store := &looks{
			answers: []CaughtUp{{Moved: 2, Refused: 1}, {Waiting: 3}, {}, {}, {}, {Moved: 1, Waiting: 2}},
			errs:    []error{nil, nil, away, away, nil, nil, away},
		}
		registry := prometheus.NewRegistry()
		f, err := NewReconciler(ReconcilerConfig{Store: store, Batch: 3, Logger: slog.New(slog.NewTextHandler(&log, nil)), Registerer: registry})
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), 33*time.Second)
		defer cancel()
		if err := f.Run(ctx); err != nil {
			t.Fatal(err)
		}
		var at []string
		for i, when := range store.at {
			if store.limits[i] != 3 {
				t.Errorf("limit %d, want 3", store.limits[i])
			}
			at = append(at, when.Sub(began).String())
		}
		if got := strings.Join(at, " "); got != "5s 5s 10s 15s 20s 25s 30s" {
			t.Errorf("looked at %s", got)
		}
		want := `
# HELP postrider_tasks_caught_up_total Tasks whose event was given up while another session was at work on them, by what became of them later: moved to the dead-letter state, or refused.
# TYPE postrider_tasks_caught_up_total counter
postrider_tasks_caught_up_total{outcome="moved"} 3
postrider_tasks_caught_up_total{outcome="refused"} 1
# HELP postrider_tasks_to_catch_up Tasks whose event was given up and that could not be moved when they were last tried, because another session was at work on them or moving them failed; at most a batch of them.
# TYPE postrider_tasks_to_catch_up gauge
postrider_tasks_to_catch_up 2
`
		if err := testutil.GatherAndCompare(registry, strings.NewReader(want)); err != nil {
			t.Error(err)
		}
		if n := strings.Count(log.String(), "the database is away"); n != 2 {
			t.Errorf("two outages were logged %d times:\n%s", n, &log)
		}
		if _, err := NewReconciler(ReconcilerConfig{Store: store, Registerer: registry}); err == nil {
			t.Error("a second reconciler took the registry")
		}
	})
}

func TestNewReconciler(t *testing.T) {
	t.Parallel()
	if _, err := NewReconciler(ReconcilerConfig{}); err == nil {
		t.Error("a reconciler without a store")
	}
	if _, err := NewReconciler(ReconcilerConfig{Store: &looks{}, Interval: -1}); err == nil {
		t.Error("a reconciler with a negative pause")
	}
	f, err := NewReconciler(ReconcilerConfig{Store: &looks{}})
	if err != nil || f.cfg.Interval != defaultReconcileInterval || f.cfg.Batch != defaultReconcileBatch {
		t.Errorf("defaults are %+v, %v", f, err)
	}
}

// silent is a database that does not answer.
type silent struct{}

func (silent) CatchUp(ctx context.Context, _ int) (CaughtUp, error) {
	<-ctx.Done()
	return CaughtUp{}, context.Cause(ctx)
}

// A database that does not answer at all is asked again.
func TestReconcilerOfASilentDatabase(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		f, err := NewReconciler(ReconcilerConfig{Store: silent{}, Logger: slog.New(slog.NewTextHandler(&log, nil))})
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		if more := f.runOnce(t.Context()); more || time.Since(began) != batchTimeout || !strings.Contains(log.String(), "deadline exceeded") {
			t.Errorf("more %v after %v; the log says %s", more, time.Since(began), &log)
		}
	})
}

package ledger

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
)

// figures answers with what it is told.
type figures struct {
	mu sync.Mutex
	Figures
	err error
}

func (f *figures) set(to Figures, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.Figures, f.err = to, err
}

type figuresReader struct{ *figures }

func (r figuresReader) Figures(context.Context) (Figures, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.figures.Figures, r.err
}

func TestTaskWatch(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		reg := prometheus.NewRegistry()
		counted := time.Unix(1_700_000_000, 0)
		f := &figures{Figures: Figures{Discovered: 7, CountedAt: counted, States: []StateFigures{{"pending", 5, 1}, {"waiting_for_retry", 2, 2}}}}
		w, err := NewWatch(WatchConfig{Store: figuresReader{f}, Registerer: reg, Logger: slog.New(slog.NewTextHandler(&log, nil))})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- w.Run(ctx) }()
		wait := func(d time.Duration) { time.Sleep(d); synctest.Wait() }
		want := func(discovered, pending, retrying, stale, readAt float64) {
			t.Helper()
			if err := testutil.GatherAndCompare(reg, strings.NewReader(fmt.Sprintf(`
# HELP postrider_tasks Live tasks by state, as of postrider_tasks_read_timestamp_seconds; states past the 64th are one, other.
# TYPE postrider_tasks gauge
postrider_tasks{state="pending"} %v
postrider_tasks{state="waiting_for_retry"} %v
# HELP postrider_tasks_discovered_total Tasks that get_next_ready_tasks handed out to workers, in all of the database.
# TYPE postrider_tasks_discovered_total counter
postrider_tasks_discovered_total %v
# HELP postrider_tasks_read_timestamp_seconds When the live tasks were counted, which the archiver does once a minute; 0 before the first time.
# TYPE postrider_tasks_read_timestamp_seconds gauge
postrider_tasks_read_timestamp_seconds %v
# HELP postrider_tasks_stale Those of them that are past a threshold, and wait for the detector or were left in place by it.
# TYPE postrider_tasks_stale gauge
postrider_tasks_stale{state="pending"} 1
postrider_tasks_stale{state="waiting_for_retry"} %v
`, pending, retrying, discovered, readAt, stale)), "postrider_tasks", "postrider_tasks_discovered_total", "postrider_tasks_read_timestamp_seconds", "postrider_tasks_stale"); err != nil {
				t.Error(err)
			}
		}
		wait(time.Second)
		want(7, 5, 2, 2, 1.7e9)

		f.set(Figures{}, errors.New("away"))
		wait(2 * DefaultWatchInterval)
		want(7, 5, 2, 2, 1.7e9)
		if n := strings.Count(log.String(), "check=tasks "); n != 1 || testutil.ToFloat64(w.errors) != 2 {
			t.Errorf("%d lines, %v errors counted", n, testutil.ToFloat64(w.errors))
		}
		f.set(Figures{Discovered: 9}, nil) // the states are not counted any more
		wait(DefaultWatchInterval)
		want(9, 5, 2, 2, 1.7e9)
		later := Figures{Discovered: 9, CountedAt: counted.Add(time.Hour), States: []StateFigures{{"pending", 6, 1}}}
		f.set(later, nil)
		wait(DefaultWatchInterval)
		want(9, 6, 0, 0, 1.7000036e9)
		later.Discovered = 2 // a schema that was made anew
		f.set(later, nil)
		wait(DefaultWatchInterval)
		later.Discovered = 3
		f.set(later, nil)
		wait(DefaultWatchInterval)
		want(10, 6, 0, 0, 1.7000036e9)

		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		f.set(later, errors.New("too late"))
		w.watcher.RunOnce(ctx)
		if got := testutil.ToFloat64(w.errors); got != 2 {
			t.Errorf("the end counts as an error: %v", got)
		}
	})
}

func TestTaskWatchBoundsItsStates(t *testing.T) {
	t.Parallel()
	reg := prometheus.NewRegistry()
	f := &figures{Figures: Figures{CountedAt: time.Unix(1, 0)}}
	for n := range 100 {
		f.States = append(f.States, StateFigures{fmt.Sprintf("s%d", n), 1, 1})
	}
	w, err := NewWatch(WatchConfig{Store: figuresReader{f}, Registerer: reg})
	if err != nil {
		t.Fatal(err)
	}
	w.watcher.RunOnce(t.Context())
	if n := testutil.CollectAndCount(w.tasks); n != 65 {
		t.Errorf("%d states", n)
	}
	if got := testutil.ToFloat64(w.tasks.WithLabelValues("other")); got != 36 {
		t.Errorf("%v tasks in other states, want 36", got)
	}
}

func TestTaskWatchRefusesBadConfigs(t *testing.T) {
	t.Parallel()
	reg := prometheus.NewRegistry()
	f := figuresReader{&figures{}}
	if _, err := NewWatch(WatchConfig{Store: f, Registerer: reg}); err != nil {
		t.Fatal(err)
	}
	for name, cfg := range map[string]WatchConfig{"no store": {}, "negative": {Store: f, Interval: -1}, "twice": {Store: f, Registerer: reg}} {
		if _, err := NewWatch(cfg); err == nil {
			t.Errorf("%s is accepted", name)
		}
	}
	if _, err := NewWatch(WatchConfig{Store: f}); err != nil {
		t.Errorf("without a registerer: %v", err)
	}
}

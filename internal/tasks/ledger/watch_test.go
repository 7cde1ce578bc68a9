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
	counts []Count
	paused bool
	err    error
}

func (f *figures) set(to Figures, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.Figures, f.err = to, err
}

func (f *figures) pause(to bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.paused = to
}

func (f *figures) count(to ...Count) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.counts = to
}

type figuresReader struct{ *figures }

func (r figuresReader) Figures(context.Context) (Figures, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.figures.Figures, r.err
}

func (r figuresReader) Counts(context.Context) ([]Count, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.counts, r.err
}

func (r figuresReader) Switch(_ context.Context, e Engine) (Switch, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return Switch{Paused: r.paused && e == EngineArchiver}, r.err
}

// TestTaskWatchShowsThePauseOfArchivers as it is, also while the archiver has nothing to do.
func TestTaskWatchShowsThePauseOfArchivers(t *testing.T) {
	t.Parallel()
	f := &figures{}
	w, err := NewWatch(WatchConfig{Store: figuresReader{f}})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []float64{0, 1, 0} {
		f.pause(want == 1)
		w.watcher.RunOnce(t.Context())
		if got := testutil.ToFloat64(w.paused); got != want {
			t.Errorf("postrider_archive_paused is %v, want %v", got, want)
		}
	}
}

func TestTaskWatch(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		reg := prometheus.NewRegistry()
		counted := time.Unix(1_700_000_000, 0)
		f := &figures{Figures: Figures{CountedAt: counted, States: []StateFigures{{"pending", 5, 1}, {"waiting_for_retry", 2, 2}}}}
		w, err := NewWatch(WatchConfig{Store: figuresReader{f}, Registerer: reg, Logger: slog.New(slog.NewTextHandler(&log, nil))})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- w.Run(ctx) }()
		wait := func(d time.Duration) { time.Sleep(d); synctest.Wait() }
		want := func(pending, retrying, stale, readAt float64) {
			t.Helper()
			if err := testutil.GatherAndCompare(reg, strings.NewReader(fmt.Sprintf(`
# HELP postrider_tasks Live tasks by state, as of postrider_tasks_read_timestamp_seconds; states past the 64th are one, other.
# TYPE postrider_tasks gauge
postrider_tasks{state="pending"} %v
postrider_tasks{state="waiting_for_retry"} %v
# HELP postrider_tasks_read_timestamp_seconds When the live tasks were counted, which the archiver does once a minute; 0 before the first time.
# TYPE postrider_tasks_read_timestamp_seconds gauge
postrider_tasks_read_timestamp_seconds %v
# HELP postrider_tasks_stale Live tasks that are past a threshold, and wait for the detector or were left in place by it.
# TYPE postrider_tasks_stale gauge
postrider_tasks_stale{state="pending"} 1
postrider_tasks_stale{state="waiting_for_retry"} %v
`, pending, retrying, readAt, stale)), "postrider_tasks", "postrider_tasks_read_timestamp_seconds", "postrider_tasks_stale"); err != nil {
				t.Error(err)
			}
		}
		wait(time.Second)
		want(5, 2, 2, 1.7e9)

		f.set(Figures{}, errors.New("away"))
		wait(2 * DefaultWatchInterval)
		want(5, 2, 2, 1.7e9)
		for _, check := range []string{"tasks", "task_counts", "archiver"} {
			if n := strings.Count(log.String(), "check="+check+" "); n != 1 || testutil.ToFloat64(w.errors.WithLabelValues(check)) != 2 {
				t.Errorf("%s: %d lines, %v errors counted", check, n, testutil.ToFloat64(w.errors.WithLabelValues(check)))
			}
		}
		f.set(Figures{}, nil) // the states are not counted any more
		wait(DefaultWatchInterval)
		want(5, 2, 2, 1.7e9)
		later := Figures{CountedAt: counted.Add(time.Hour), States: []StateFigures{{"pending", 6, 1}}}
		f.set(later, nil)
		wait(DefaultWatchInterval)
		want(6, 0, 0, 1.7000036e9)

		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		f.set(later, errors.New("too late"))
		w.watcher.RunOnce(ctx)
		if got := testutil.ToFloat64(w.errors.WithLabelValues("tasks")); got != 2 {
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
	for n := range 100 {
		f.counts = append(f.counts, Count{CountStale, fmt.Sprintf("s%d", n), "flag", 1})
	}
	w.watcher.RunOnce(t.Context())
	if n := testutil.CollectAndCount(w.tasks); n != 57 {
		t.Errorf("%d states, want 56 beside the eight built-in ones, and other", n)
	}
	if got := testutil.ToFloat64(w.tasks.WithLabelValues("other")); got != 44 {
		t.Errorf("%v tasks in other states, want 44", got)
	}
	if n := testutil.CollectAndCount(w.totals[CountStale]); n != 65*4 {
		t.Errorf("%d series of stale tasks, want four of each state", n)
	}
	if got := testutil.ToFloat64(w.totals[CountStale].WithLabelValues("other", "flag")); got != 44 {
		t.Errorf("%v stale tasks of other states, want 44", got)
	}
}

// What was done with tasks is shown as the database counts it, by processes that begin at different times, and never falls.
func TestTaskWatchShowsTheDatabasesCounts(t *testing.T) {
	t.Parallel()
	f := &figures{err: errors.New("away")}
	watch := func() (*Watch, *prometheus.Registry) {
		reg := prometheus.NewRegistry()
		w, err := NewWatch(WatchConfig{Store: figuresReader{f}, Registerer: reg})
		if err != nil {
			t.Fatal(err)
		}
		return w, reg
	}
	first, reg := watch()
	look := func(w *Watch, reg *prometheus.Registry, discovered, archived, stale, dead float64) {
		t.Helper()
		w.watcher.RunOnce(t.Context())
		for name, is := range map[string][2]float64{
			"discovered": {testutil.ToFloat64(w.totals[CountDiscovered].WithLabelValues()), discovered},
			"archived":   {testutil.ToFloat64(w.totals[CountArchived].WithLabelValues("cancelled")), archived},
			"stale":      {testutil.ToFloat64(w.totals[CountStale].WithLabelValues("pending", "move_to_dlq")), stale},
			"dead":       {testutil.ToFloat64(w.totals[CountDeadLetter].WithLabelValues("mine", "manual_dlq")), dead},
		} {
			if is[0] != is[1] {
				t.Errorf("%s: %v, want %v", name, is[0], is[1])
			}
		}
		shown, err := testutil.GatherAndCount(reg, "postrider_tasks_discovered_total", "postrider_tasks_archived_total", "postrider_tasks_detected_stale_total", "postrider_tasks_moved_to_dlq_total")
		if want := 1 + 4 + 8*4 + 8*6 + 1; err != nil || shown != want && f.err == nil || shown != 0 && f.err != nil {
			t.Errorf("%d series are shown, want %d, and none before the first look: %v", shown, want, err)
		}
	}
	look(first, reg, 0, 0, 0, 0)
	f.set(Figures{}, nil)
	f.count(Count{CountDiscovered, "", "", 7}, Count{CountArchived, "", "cancelled", 20_004}, Count{CountStale, "pending", "move_to_dlq", 3}, Count{CountDeadLetter, "mine", "manual_dlq", 2})
	look(first, reg, 7, 20_004, 3, 2)
	second, other := watch()
	f.count(Count{CountDiscovered, "", "", 9}, Count{CountArchived, "", "cancelled", 20_005}, Count{CountStale, "pending", "move_to_dlq", 3}, Count{CountDeadLetter, "mine", "manual_dlq", 5})
	look(first, reg, 9, 20_005, 3, 5)
	look(second, other, 9, 20_005, 3, 5)
	f.count(Count{CountDiscovered, "", "", 2}, Count{CountDeadLetter, "mine", "manual_dlq", 1}) // the schema was made anew
	look(first, reg, 9, 20_005, 3, 5)
	f.count(Count{CountDiscovered, "", "", 3}, Count{CountDeadLetter, "mine", "manual_dlq", 1}, Count{CountArchived, "", "cancelled", 1})
	look(first, reg, 10, 20_006, 3, 5)
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

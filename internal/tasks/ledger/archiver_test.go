package ledger

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	dto "github.com/prometheus/client_model/go"

	"github.com/postrider/postrider/internal/loop"
)

// fakeArchive has a number of tasks to archive, and records its calls.
type fakeArchive struct {
	mu       sync.Mutex
	tasks    int
	took     time.Duration
	fail     func(call int) error
	calls    []ArchiveStep
	times    []time.Duration
	start    time.Time
	renewals []time.Duration
	renew    error
	// pauses and ends are when the archivers are paused and go on again, after the start; asked counts looks at the switch:
	// the first unanswered of them fail.
	pauses, ends      time.Duration
	asked, unanswered int
}

func (f *fakeArchive) Switch(_ context.Context, e Engine) (Switch, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.asked++; f.asked <= f.unanswered || e != EngineArchiver {
		return Switch{}, errors.New("no answer")
	}
	now := time.Since(f.start)
	return Switch{Paused: now >= f.pauses && now < f.ends, PausedBy: "me", Reason: "release"}, nil
}

func (f *fakeArchive) ArchiveBatch(ctx context.Context, s ArchiveStep) (ArchivedBatch, error) {
	if err := loop.Sleep(ctx, f.took); err != nil {
		return ArchivedBatch{}, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls = append(f.calls, s)
	f.times = append(f.times, time.Since(f.start))
	if f.fail != nil {
		if err := f.fail(len(f.calls)); err != nil {
			return ArchivedBatch{}, err
		}
	}
	n := min(f.tasks, s.BatchSize)
	f.tasks -= n
	return ArchivedBatch{
		Archived: Archived{Tasks: n, Steps: 4 * n, Transitions: 8 * n, Complete: n - n/10*3, Error: n / 10, Cancelled: n / 10, DLQResolved: n / 10},
		More:     n == s.BatchSize, Last: &TaskPlace{At: time.Unix(int64(len(f.calls)), 0), TaskUUID: uuid.Nil},
	}, nil
}

func (f *fakeArchive) RefreshDashboards(_ context.Context, minAge time.Duration) (bool, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if minAge >= time.Minute || minAge < 50*time.Second {
		return false, errors.New("asked for something else")
	}
	f.renewals = append(f.renewals, time.Since(f.start))
	return true, f.renew
}

// archiveFor runs an archiver for so long.
func archiveFor(t *testing.T, f *fakeArchive, d time.Duration, change func(*ArchiverConfig)) *prometheus.Registry {
	t.Helper()
	reg := prometheus.NewRegistry()
	f.start = time.Now()
	c := ArchiverConfig{Store: f, RetentionDays: 30, Registerer: reg}
	if change != nil {
		change(&c)
	}
	a, err := NewArchiver(c)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- a.Run(ctx) }()
	time.Sleep(d)
	stop()
	stopped := time.Now()
	if err := <-ended; err != nil || time.Since(stopped) > 0 {
		t.Errorf("Run() = %v after %v", err, time.Since(stopped))
	}
	return reg
}

func TestArchiverGoesOnUntilNothingIsLeft(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := &fakeArchive{tasks: 2500, took: 250 * time.Millisecond}
		var log bytes.Buffer
		reg := archiveFor(t, f, 50*time.Hour-time.Second, func(c *ArchiverConfig) { c.Logger = slog.New(slog.NewTextHandler(&log, nil)) })
		// Four transactions are a batch. The last transaction of the first pass is empty, and so is every later one.
		var want []time.Duration
		for n := range 11 {
			want = append(want, time.Duration(n+1)*250*time.Millisecond+time.Duration(n/4)*100*time.Millisecond)
		}
		want = append(want, 24*time.Hour+250*time.Millisecond, 48*time.Hour+250*time.Millisecond)
		if len(f.times) != len(want) {
			t.Fatalf("batches at %v, want %v", f.times, want)
		}
		for i := range want {
			if f.times[i] != want[i] {
				t.Errorf("batch %d at %v, want %v", i, f.times[i], want[i])
			}
		}
		for i, s := range f.calls {
			if s.RetentionDays != 30 || s.BatchSize != MaxArchiveTransaction || s.DryRun || s.Policies != DefaultArchivePolicies() || (s.After == nil) != (i == 0 || i > 10) {
				t.Errorf("batch %d is %+v", i, s)
			}
		}
		if f.calls[2].After.At != time.Unix(2, 0) {
			t.Errorf("the third batch goes on behind %v", f.calls[2].After)
		}
		if err := testutil.GatherAndCompare(reg, strings.NewReader(`
			# HELP postrider_archive_failures_total Passes of the archiver that failed; what they had moved until then stays moved.
			# TYPE postrider_archive_failures_total counter
			postrider_archive_failures_total 0
		`), "postrider_archive_failures_total"); err != nil {
			t.Error(err)
		}
		// Batches of four, four and three transactions of a quarter of a second, and two of one that found nothing.
		m := gathered(t, reg, "postrider_archive_duration_seconds")
		if h := m.GetHistogram(); h.GetSampleCount() != 5 || h.GetSampleSum() != 3.25 || m.GetLabel()[0].GetName() != "batch_size" || m.GetLabel()[0].GetValue() != "1000" {
			t.Errorf("durations: %v", m)
		}
		if lines := strings.Count(log.String(), "\n"); lines != 1 || !strings.Contains(log.String(), "tasks=2500") {
			t.Errorf("logged:\n%s", log.String())
		}
		if n := len(f.renewals); n != 50*60 {
			t.Errorf("the dashboards were renewed %d times in 50 hours", n)
		}
	})
}

func TestArchiverTriesAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := &fakeArchive{tasks: 2500, renew: errors.New("no")}
		f.fail = func(call int) error {
			if call >= 2 && call <= 6 {
				return errors.New("the database is away")
			}
			return nil
		}
		reg := archiveFor(t, f, 20*time.Hour, nil)
		// The second batch fails, and again after one minute, a minute and a half …; then all goes on from the
		// beginning: what was moved stays moved.
		if len(f.calls) != 16 || f.calls[6].After != nil || f.times[6] > 20*time.Minute || f.tasks != 0 {
			t.Errorf("batches at %v, %d tasks left", f.times, f.tasks)
		}
		if n := gathered(t, reg, "postrider_archive_failures_total").GetCounter().GetValue(); n != 5 {
			t.Errorf("%v failures are counted", n)
		}
		if n := gathered(t, reg, "postrider_dashboard_failures_total").GetCounter().GetValue(); n < 1000 {
			t.Errorf("%v failures of dashboards are counted", n)
		}
	})
}

// TestPausedArchiverWaits: a batch that is under way ends, and the next begins where it ended, soon after the pause. A pause
// is said once, and is in no figure.
func TestPausedArchiverWaits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := &fakeArchive{tasks: 1500, took: time.Second, pauses: 1500 * time.Millisecond, ends: 3 * time.Hour}
		var log bytes.Buffer
		reg := archiveFor(t, f, 23*time.Hour-time.Second, func(c *ArchiverConfig) { c.Logger = slog.New(slog.NewTextHandler(&log, nil)) })
		if len(f.times) != 7 || f.times[3] != 4*time.Second || f.times[4] < f.ends || f.times[4] > f.ends+pausedLook+time.Second || f.calls[4].After.At != time.Unix(4, 0) || f.tasks != 0 {
			t.Errorf("transactions at %v, %d tasks left", f.times, f.tasks)
		}
		h := gathered(t, reg, "postrider_archive_duration_seconds").GetHistogram()
		if failed := gathered(t, reg, "postrider_archive_failures_total").GetCounter().GetValue(); h.GetSampleCount() != 2 || h.GetSampleSum() != 7 || failed != 0 {
			t.Errorf("%d batches took %v seconds, %v failures", h.GetSampleCount(), h.GetSampleSum(), failed)
		}
		for _, said := range []string{"is paused", "by=me reason=release", "goes on"} {
			if n := strings.Count(log.String(), said); n != 1 {
				t.Errorf("%q is said %d times in\n%s", said, n, log.String())
			}
		}
		if len(f.renewals) != 23*60 {
			t.Errorf("%d renewals of the dashboards in 23 hours", len(f.renewals))
		}
	})
}

// TestArchiverNeedsTheSwitch: where the switch cannot be read, nothing is moved; the pass failed, and is made again.
func TestArchiverNeedsTheSwitch(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := &fakeArchive{tasks: 1, unanswered: 1}
		reg := archiveFor(t, f, time.Hour, nil)
		if n := gathered(t, reg, "postrider_archive_failures_total").GetCounter().GetValue(); n != 1 || len(f.times) != 1 || f.times[0] != time.Minute {
			t.Errorf("%v failures, batches at %v", n, f.times)
		}
	})
}

// gathered is the first series of a metric.
func gathered(t *testing.T, reg *prometheus.Registry, name string) *dto.Metric {
	t.Helper()
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == name {
			return f.GetMetric()[0]
		}
	}
	t.Fatalf("no metric %s", name)
	return nil
}

func TestDisabledArchiverRenewsDashboards(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := &fakeArchive{tasks: 1}
		archiveFor(t, f, time.Hour-time.Second, func(c *ArchiverConfig) { c.Disabled = true })
		if len(f.calls) != 0 || len(f.renewals) != 60 {
			t.Errorf("%d batches, %d renewals", len(f.calls), len(f.renewals))
		}
	})
}

func TestArchiverStopsInTheMiddle(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := &fakeArchive{tasks: 1_000_000, took: time.Second}
		reg := archiveFor(t, f, 9500*time.Millisecond, func(c *ArchiverConfig) { c.Pause = 2 * time.Second })
		if len(f.calls) != 7 { // four, a rest of two seconds, three
			t.Errorf("%d transactions in nine and a half seconds", len(f.calls))
		}
		if n := gathered(t, reg, "postrider_archive_failures_total").GetCounter().GetValue(); n != 0 {
			t.Errorf("a stop counts as %v failures", n)
		}
	})
}

func TestArchiverSettings(t *testing.T) {
	t.Parallel()
	for _, c := range []ArchiverConfig{{}, {Store: &fakeArchive{}, Interval: -1}, {Store: &fakeArchive{}, DashboardInterval: -1},
		{Store: &fakeArchive{}, RetentionDays: -1}, {Store: &fakeArchive{}, BatchSize: 100_001}, {Store: &fakeArchive{}, Pause: -1}} {
		if _, err := NewArchiver(c); err == nil {
			t.Errorf("%+v is accepted", c)
		}
	}
}

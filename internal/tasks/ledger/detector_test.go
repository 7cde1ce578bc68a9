package ledger

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
)

// fakeDetectorStore has so many stale tasks, and the switch. It may take its time, and fail.
type fakeDetectorStore struct {
	mu     sync.Mutex
	stale  int
	takes  time.Duration
	errs   []error // of the next calls of DetectStale
	status DetectorStatus
	until  time.Time // end of a pause
	near   NearStale

	calls, asked int
	passes       []Pass
	pauses       []Pause
	times        []time.Duration
	began        time.Time
}

func newFakeDetectorStore(stale int) *fakeDetectorStore {
	return &fakeDetectorStore{stale: stale, began: time.Now()}
}

func (s *fakeDetectorStore) DetectStale(ctx context.Context, d Detection) ([]StaleTask, error) {
	s.mu.Lock()
	s.calls++
	s.times = append(s.times, time.Since(s.began))
	takes := s.takes
	s.mu.Unlock()
	select {
	case <-time.After(takes):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.errs) > 0 {
		err := s.errs[0]
		s.errs = s.errs[1:]
		return nil, err
	}
	found := make([]StaleTask, min(s.stale, d.BatchSize))
	for i := range found {
		found[i] = StaleTask{TaskUUID: uuid.New(), NamespaceName: "ns", TaskName: "t", CurrentState: "steps_in_process", ActionTaken: StaleMovedToDLQ,
			MovedToDLQ: !d.DryRun, TransitionSuccess: !d.DryRun, DLQReason: "staleness_timeout", TaskAgeSeconds: 3000,
			StalenessThresholdMinutes: 30, ThresholdKind: "state", ThresholdSource: "default"}
	}
	if !d.DryRun {
		s.stale -= len(found)
	}
	return found, nil
}

func (s *fakeDetectorStore) NearStale(context.Context, Detection, float64) (NearStale, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.near, nil
}

func (s *fakeDetectorStore) DetectorStatus(context.Context) (DetectorStatus, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked++
	if s.status.Paused && !s.until.IsZero() && !time.Now().Before(s.until) {
		s.status = DetectorStatus{}
	}
	return s.status, nil
}

func (s *fakeDetectorStore) PauseEngine(_ context.Context, _ Engine, p Pause) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pauses = append(s.pauses, p)
	s.status = DetectorStatus{Switch: Switch{Paused: true, PausedBy: p.By, Reason: p.Reason}}
	s.until = time.Now().Add(p.For)
	return nil
}

func (s *fakeDetectorStore) RecordPass(_ context.Context, p Pass) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.passes = append(s.passes, p)
	return nil
}

// detector makes one on a store, with its metrics and its log.
func detector(t *testing.T, c DetectorConfig) (*Detector, *prometheus.Registry, *bytes.Buffer) {
	t.Helper()
	reg := prometheus.NewRegistry()
	var text bytes.Buffer
	c.Registerer, c.Logger, c.Process = reg, slog.New(slog.NewTextHandler(&text, nil)), "here:1"
	d, err := NewDetector(c)
	if err != nil {
		t.Fatal(err)
	}
	return d, reg, &text
}

// runFor runs a detector for a time, and waits until it has ended.
func runFor(t *testing.T, d *Detector, how time.Duration) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), how)
	defer cancel()
	if err := d.Run(ctx); err != nil {
		t.Errorf("Run: %v", err)
	}
}

func TestPassRepeatsItsBatch(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newFakeDetectorStore(250)
		s.near = NearStale{State: 3, Lifetime: 2}
		d, reg, text := detector(t, DetectorConfig{Store: s})
		runFor(t, d, 11*time.Minute)
		// A full batch, two more side by side, and one after the other full one at once; then an empty one after five
		// and ten minutes.
		if s.calls != 6 || s.times[3] != 0 || s.times[4] != 5*time.Minute || s.times[5] != 10*time.Minute {
			t.Errorf("calls at %v", s.times)
		}
		want := Pass{By: "here:1", Batches: 4, Stale: 250, Moved: 250, Letters: 250}
		if len(s.passes) != 3 || s.passes[0] != want {
			t.Errorf("passes %+v, want %+v first", s.passes, want)
		}
		if n := strings.Count(text.String(), "stale tasks found"); n != 1 {
			t.Errorf("%d passes are logged, want the one that found something:\n%s", n, text)
		}
		const applied = `msg="threshold passed" component=detector tasks=%d namespace=ns task_name=t state=steps_in_process threshold_minutes=30 threshold_kind=state threshold_source=default action=move_to_dlq dry_run=false`
		for tasks, batches := range map[int]int{100: 2, 50: 1} {
			if n := strings.Count(text.String(), fmt.Sprintf(applied, tasks)); n != batches {
				t.Errorf("%d batches say which threshold counted for %d tasks, want %d:\n%s", n, tasks, batches, text)
			}
		}
		if strings.Contains(text.String(), "task_uuid") {
			t.Errorf("single tasks are logged:\n%s", text)
		}
		if err := testutil.GatherAndCompare(reg, strings.NewReader(`
			# HELP postrider_tasks_near_stale Tasks past staleness.warn_percent of the threshold of their state, or of their lifetime, after the last pass. Of each template and state no more than 1000 are counted.
			# TYPE postrider_tasks_near_stale gauge
			postrider_tasks_near_stale{kind="lifetime"} 2
			postrider_tasks_near_stale{kind="state"} 3
			# HELP postrider_staleness_detection_errors_total Passes of this process's detector that failed, by type: database, timeout, configuration (schema, rights or login), validation (the database refused a value of the settings or of a template).
			# TYPE postrider_staleness_detection_errors_total counter
			postrider_staleness_detection_errors_total{error_type="configuration"} 0
			postrider_staleness_detection_errors_total{error_type="database"} 0
			postrider_staleness_detection_errors_total{error_type="timeout"} 0
			postrider_staleness_detection_errors_total{error_type="validation"} 0
			# HELP postrider_staleness_detection_paused 1 while an operator, or a detector that was too slow, has paused detection; otherwise 0.
			# TYPE postrider_staleness_detection_paused gauge
			postrider_staleness_detection_paused 0
			# HELP postrider_staleness_detection_interval_seconds The setting staleness.detection_interval_seconds: the pause between two passes.
			# TYPE postrider_staleness_detection_interval_seconds gauge
			postrider_staleness_detection_interval_seconds 300
			`), "postrider_tasks_near_stale", "postrider_staleness_detection_interval_seconds", "postrider_staleness_detection_errors_total", "postrider_staleness_detection_paused"); err != nil {
			t.Error(err)
		}
		// After ten minutes of this clock, which begins at the year 2000.
		if last, began := testutil.ToFloat64(d.metrics.lastPass), float64(time.Now().Unix()); last != began-60 {
			t.Errorf("the last pass was %v s ago, want 60", began-last)
		}
		for _, name := range []string{"postrider_staleness_detection_duration_seconds", "postrider_task_time_until_stale_seconds"} {
			if n, err := testutil.GatherAndCount(reg, name); n != 1 || err != nil {
				t.Errorf("%s has %d series, %v", name, n, err)
			}
		}
	})
}

// A dry run would find the same tasks again and again. It names them, and says that there may be more.
func TestDryPassMakesOneBatch(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newFakeDetectorStore(250)
		detection := DefaultDetection()
		detection.DryRun = true
		d, reg, text := detector(t, DetectorConfig{Store: s, Detection: detection})
		runFor(t, d, 6*time.Minute)
		if n := strings.Count(text.String(), `level=INFO msg="stale task" component=detector task_uuid=`); n != 200 || strings.Count(text.String(), "unfinished=true") != 2 {
			t.Errorf("%d tasks are named in two passes:\n%s", n, text)
		}
		if s.calls != 2 || s.stale != 250 || s.passes[0].Stale != 100 || s.passes[0].Moved+s.passes[0].Letters != 0 || !s.passes[0].DryRun {
			t.Errorf("%d calls, passes %+v", s.calls, s.passes)
		}
		if n, err := testutil.GatherAndCount(reg, "postrider_task_time_until_stale_seconds"); n != 0 || err != nil {
			t.Errorf("the ages of what stays stale are counted: %d series, %v", n, err)
		}
		s.stale = 50
		runFor(t, d, time.Second)
		if last := s.passes[len(s.passes)-1]; last.Stale != 50 || last.Unfinished {
			t.Errorf("a batch that was not full: %+v", last)
		}
	})
}

func TestPassEndsWithItsTimeBudget(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newFakeDetectorStore(10_000)
		s.takes = time.Second
		d, _, text := detector(t, DetectorConfig{Store: s, TimeBudget: 10 * time.Second, Interval: time.Minute})
		runFor(t, d, 30*time.Second)
		// One in the first second, then two in each.
		if s.calls != 19 || len(s.passes) != 1 || !s.passes[0].Unfinished || s.passes[0].Took != 10*time.Second || s.stale != 8100 {
			t.Errorf("%d calls, passes %+v", s.calls, s.passes)
		}
		if !strings.Contains(text.String(), "unfinished=true") {
			t.Errorf("the log does not say that more is stale:\n%s", text)
		}
	})
}

// Three slow batches in a row pause all detectors, for twelve intervals. If the next is slow too, it pauses them
// again at once; when one was fast, three are needed again.
func TestSlowDetectorStopsItself(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newFakeDetectorStore(10_000)
		s.takes = 6 * time.Second
		d, _, text := detector(t, DetectorConfig{Store: s, Interval: time.Minute, Parallel: 1})
		runFor(t, d, 5*time.Minute)
		if s.calls != 3 || len(s.pauses) != 1 {
			t.Fatalf("%d calls, %d pauses", s.calls, len(s.pauses))
		}
		if p := s.pauses[0]; p.By != PausedByLatency || p.For != 12*time.Minute || p.Reason != "3 batches in a row took longer than 5s" {
			t.Errorf("paused: %+v", p)
		}
		if testutil.ToFloat64(d.metrics.paused) != 1 || testutil.ToFloat64(d.metrics.selfStops) != 1 || !strings.Contains(text.String(), "postrider task detector resume") {
			t.Errorf("the pause is not shown:\n%s", text)
		}
		if s.asked < 4 {
			t.Errorf("it looked %d times whether it may go on", s.asked)
		}
		runFor(t, d, 8*time.Minute+30*time.Second) // until just after the pause
		if s.calls != 4 || len(s.pauses) != 2 {
			t.Fatalf("after the pause: %d calls, %d pauses", s.calls, len(s.pauses))
		}
		s.takes = time.Second
		s.status, s.stale = DetectorStatus{}, 150 // an operator resumed
		runFor(t, d, 10*time.Second)
		if s.calls != 6 || len(s.pauses) != 2 || testutil.ToFloat64(d.metrics.paused) != 0 {
			t.Errorf("after it was resumed: %d calls, %d pauses", s.calls, len(s.pauses))
		}
		s.takes, s.stale = 6*time.Second, 200
		runFor(t, d, 20*time.Second)
		if len(s.pauses) != 3 || s.calls != 9 {
			t.Errorf("slow again: %d calls, %d pauses", s.calls, len(s.pauses))
		}
	})
}

// A batch that times out is a slow one, too.
func TestBatchesThatTimeOutPauseDetection(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newFakeDetectorStore(1)
		s.takes = time.Hour
		d, _, _ := detector(t, DetectorConfig{Store: s})
		runFor(t, d, 10*time.Minute)
		if len(s.pauses) != 1 || s.calls != 3 {
			t.Errorf("%d calls, pauses %+v", s.calls, s.pauses)
		}
		if got := testutil.ToFloat64(d.metrics.errors.WithLabelValues("timeout")); got != 3 {
			t.Errorf("%v errors are counted", got)
		}
	})
}

// One process more, with other settings: the detector that was there before says by which ones it goes now, once.
func TestSettingsOfAnotherProcess(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newFakeDetectorStore(0)
		s.status.Settings = StoredSettings{"waiting_for_retry_minutes": 120.0, "emit_events": true}
		d, _, text := detector(t, DetectorConfig{Store: s})
		runFor(t, d, 11*time.Minute)
		if strings.Contains(text.String(), "WARN") {
			t.Errorf("without a change:\n%s", text)
		}
		s.status.Settings = StoredSettings{"waiting_for_retry_minutes": 30.0, "emit_events": true}
		runFor(t, d, 11*time.Minute)
		if n := strings.Count(text.String(), `changed="waiting_for_retry_minutes from 120 to 30"`); n != 1 || strings.Count(text.String(), "WARN") != 1 {
			t.Errorf("the change is told %d times:\n%s", n, text)
		}
	})
}

// An operator's pause is seen at the next pass, and so is its end.
func TestPausedDetectorDoesNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newFakeDetectorStore(5)
		s.status = DetectorStatus{Switch: Switch{Paused: true, PausedBy: "me", Reason: "release"}}
		s.until = time.Now().Add(11 * time.Minute)
		d, _, text := detector(t, DetectorConfig{Store: s})
		runFor(t, d, 10*time.Minute)
		if s.calls != 0 || len(s.passes) != 0 || testutil.ToFloat64(d.metrics.paused) != 1 {
			t.Errorf("%d calls while paused", s.calls)
		}
		if strings.Count(text.String(), "detection of stale tasks is paused") != 1 {
			t.Errorf("the log says:\n%s", text)
		}
		runFor(t, d, 6*time.Minute)
		if s.calls == 0 || s.stale != 0 || !strings.Contains(text.String(), "goes on") {
			t.Errorf("%d calls after the pause:\n%s", s.calls, text)
		}
	})
}

// A pass that fails is repeated after a second, then later and later, and counted by what failed.
func TestFailedPassIsRepeatedSooner(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newFakeDetectorStore(150)
		s.errs = []error{errors.New("connection lost"), &StoreError{Type: ErrorConfiguration, Hint: "migrate", Err: errors.New("no function")}, context.DeadlineExceeded}
		d, _, text := detector(t, DetectorConfig{Store: s})
		runFor(t, d, time.Minute)
		if s.calls != 6 || s.stale != 0 || s.times[1] > 2*time.Second || s.times[2]-s.times[1] > 4*time.Second {
			t.Errorf("calls at %v", s.times)
		}
		for _, kind := range []string{"database", "configuration", "timeout"} {
			if got := testutil.ToFloat64(d.metrics.errors.WithLabelValues(kind)); got != 1 {
				t.Errorf("%v errors of type %s", got, kind)
			}
		}
		if !strings.Contains(text.String(), "no function; migrate") {
			t.Errorf("the log lacks the hint:\n%s", text)
		}
	})
}

func TestDetectorStopsInTheMiddle(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newFakeDetectorStore(100)
		s.takes = time.Second
		d, _, text := detector(t, DetectorConfig{Store: s})
		runFor(t, d, 300*time.Millisecond)
		if len(s.passes) != 0 || s.stale != 100 || strings.Contains(text.String(), "ERROR") {
			t.Errorf("passes %+v, log\n%s", s.passes, text)
		}
	})
}

func TestDetectorConfigIsChecked(t *testing.T) {
	t.Parallel()
	s := newFakeDetectorStore(0)
	for want, c := range map[string]DetectorConfig{
		"Store is required":               {},
		"Interval is -1s":                 {Store: s, Interval: -time.Second},
		"WarnShare is 1.5":                {Store: s, WarnShare: 1.5},
		"BatchSize is 0":                  {Store: s, Detection: Detection{DryRun: true}},
		"WaitingForRetryMinutes is -5":    {Store: s, Detection: func() Detection { d := DefaultDetection(); d.WaitingForRetryMinutes = -5; return d }()},
		"TaskMaxLifetimeHours is -1":      {Store: s, Detection: func() Detection { d := DefaultDetection(); d.TaskMaxLifetimeHours = -1; return d }()},
		"it must be at least 1":           {Store: s, Detection: Detection{BatchSize: -1}},
		"they must be positive":           {Store: s, LatencyLimit: -1},
		"Parallel is -2":                  {Store: s, Parallel: -2},
		"WorkerUnavailableMinutes is -10": {Store: s, Detection: Detection{BatchSize: 1, WorkerUnavailableMinutes: -10}},
	} {
		if _, err := NewDetector(c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	d, err := NewDetector(DetectorConfig{Store: s})
	if err != nil {
		t.Fatal(err)
	}
	if d.cfg.Detection != DefaultDetection() || !strings.Contains(d.cfg.Process, ":") {
		t.Errorf("the defaults are %+v", d.cfg)
	}
}

// Labels that people choose have a limit.
func TestLabelsAreBounded(t *testing.T) {
	t.Parallel()
	m := newDetectorMetrics(nil, time.Minute)
	for i := range 500 {
		m.found(StaleTask{NamespaceName: "ns", TaskName: fmt.Sprintf("t%d", i)})
	}
	if n := testutil.CollectAndCount(m.untilStale); n != 101 {
		t.Errorf("%d series by template, want 100 and other", n)
	}
}

// The series are there before anything is found, with 0: if a series began with its first value, rate() would not see that
// value. No pass was made yet.
func TestDetectorSeriesExistFromTheStart(t *testing.T) {
	t.Parallel()
	_, reg, _ := detector(t, DetectorConfig{Store: newFakeDetectorStore(0)})
	for name, want := range map[string]int{"postrider_staleness_detection_errors_total": 4, "postrider_staleness_last_pass_timestamp_seconds": 1} {
		if n, err := testutil.GatherAndCount(reg, name); n != want || err != nil {
			t.Errorf("%s has %d series, want %d: %v", name, n, want, err)
		}
	}
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if c := m.GetCounter(); c != nil && c.GetValue() != 0 || f.GetName() == "postrider_staleness_last_pass_timestamp_seconds" && m.GetGauge().GetValue() != 0 {
				t.Errorf("%s is %v at the start", f.GetName(), m)
			}
		}
	}
}

// A pass that fails does not count as the last pass. A pass that finds detection paused does.
func TestLastPass(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newFakeDetectorStore(0)
		s.errs = slices.Repeat([]error{errors.New("no")}, 1000)
		d, _, _ := detector(t, DetectorConfig{Store: s})
		runFor(t, d, 6*time.Minute)
		if at := testutil.ToFloat64(d.metrics.lastPass); at != 0 {
			t.Errorf("a pass that failed was at %v", at)
		}
		s.status.Paused = true
		began := time.Now()
		runFor(t, d, time.Minute)
		if at := testutil.ToFloat64(d.metrics.lastPass); at != float64(began.Unix()) {
			t.Errorf("the pass that found detection paused was at %v, want %v", at, began.Unix())
		}
	})
}

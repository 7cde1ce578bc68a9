package ledger

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v4"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/postrider/postrider/internal/loop"
)

// DetectorConfig is what a Detector is made of.
type DetectorConfig struct {
	// Store is the database. Required.
	Store DetectorStore
	// Detection says when tasks are stale and what may be done with them. Defaults to DefaultDetection.
	Detection Detection
	// Interval is the pause between passes. Defaults to 5m.
	Interval time.Duration
	// TimeBudget bounds a pass; tasks that are still stale after it wait for the next. Defaults to 1m.
	TimeBudget time.Duration
	// Parallel is how many batches are under way at once when the first one was full, each in a transaction of
	// its own. Defaults to 2.
	Parallel int
	// LatencyLimit is how long a batch may take. After three batches in a row that took longer, all detectors of
	// the database pause, for twelve intervals or until an operator resumes them. If the first batch after that is
	// too slow as well, they pause again. Defaults to 5s.
	LatencyLimit time.Duration
	// WarnShare is the share of a threshold past which tasks are counted as nearly stale. Defaults to 0.8.
	WarnShare float64
	// Process names this process to operators. Defaults to host:pid.
	Process string
	// Logger defaults to one that discards.
	Logger *slog.Logger
	// Registerer receives the metrics. Defaults to none.
	Registerer prometheus.Registerer
}

// PausedByLatency is who paused the detectors when one of them was too slow.
const PausedByLatency = "latency_limit"

const (
	// slowBatches is how many slow batches in a row pause the detectors.
	slowBatches = 3
	// restIntervals is for how many intervals they pause then.
	restIntervals = 12
	// detectTimeout bounds what a pass waits for the database. It is more than its own statement_timeout, and
	// there for a database that does not answer at all.
	detectTimeout = 65 * time.Second
)

func (c DetectorConfig) withDefaults() DetectorConfig {
	if c.Detection == (Detection{}) {
		c.Detection = DefaultDetection()
	}
	if c.Interval == 0 {
		c.Interval = 5 * time.Minute
	}
	if c.TimeBudget == 0 {
		c.TimeBudget = time.Minute
	}
	if c.Parallel == 0 {
		c.Parallel = 2
	}
	if c.LatencyLimit == 0 {
		c.LatencyLimit = 5 * time.Second
	}
	if c.WarnShare == 0 {
		c.WarnShare = 0.8
	}
	if c.Process == "" {
		host, err := os.Hostname()
		if err != nil {
			host = "unknown"
		}
		c.Process = fmt.Sprintf("%s:%d", host, os.Getpid())
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	c.Logger = c.Logger.With("component", "detector")
	return c
}

func (c DetectorConfig) validate() error {
	switch {
	case c.Store == nil:
		return errors.New("detector: Store is required")
	case c.Interval < 0 || c.TimeBudget < 0 || c.LatencyLimit < 0:
		return fmt.Errorf("detector: Interval is %v, TimeBudget %v and LatencyLimit %v, they must be positive", c.Interval, c.TimeBudget, c.LatencyLimit)
	case c.Parallel < 1:
		return fmt.Errorf("detector: Parallel is %d, it must be at least 1", c.Parallel)
	case c.WarnShare < 0 || c.WarnShare > 1:
		return fmt.Errorf("detector: WarnShare is %v, it must be between 0 and 1", c.WarnShare)
	}
	if err := c.Detection.Validate(); err != nil {
		return fmt.Errorf("detector: %w", err)
	}
	return nil
}

// Detector looks for stale tasks again and again. Any number of processes may have one: each takes the tasks
// that no other has.
type Detector struct {
	cfg     DetectorConfig
	metrics *detectorMetrics

	mu      sync.Mutex
	slow    int  // slow batches in a row
	stopped bool // slow batches ended this pass
	paused  bool // as last seen, so that each change is logged once

	settings StoredSettings // likewise; nil before the first pass
}

// NewDetector checks the configuration and returns a detector that does nothing until Run.
func NewDetector(cfg DetectorConfig) (*Detector, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	return &Detector{cfg: cfg, metrics: newDetectorMetrics(cfg.Registerer, cfg.Interval)}, nil
}

// Run makes a pass at once and then one after each interval, until ctx ends, and returns nil. A pass that
// failed is repeated sooner. The batch in hand when ctx ends is given up as a whole; the next pass finds the
// same tasks.
func (d *Detector) Run(ctx context.Context) error {
	d.cfg.Logger.Info("detector started", "interval", d.cfg.Interval.String(), "batch_size", d.cfg.Detection.BatchSize, "dry_run", d.cfg.Detection.DryRun)
	failing := backoff.NewExponentialBackOff(backoff.WithInitialInterval(time.Second),
		backoff.WithMaxInterval(d.cfg.Interval), backoff.WithMaxElapsedTime(0))
	loop.Repeat(ctx, func(ctx context.Context) time.Duration {
		pass, err := d.runOnce(ctx)
		pause := d.cfg.Interval
		switch {
		case err != nil && ctx.Err() != nil:
		case err != nil:
			pause = min(failing.NextBackOff(), d.cfg.Interval)
			d.metrics.errors.WithLabelValues(string(typeOf(err))).Inc()
			d.cfg.Logger.Error("detection failed", "err", err, "error_type", string(typeOf(err)), "stale", pass.Stale, "retry_in", pause.String())
		default:
			failing.Reset()
			d.metrics.lastPass.SetToCurrentTime()
		}
		return pause
	})
	d.cfg.Logger.Info("detector stopped")
	return nil
}

// runOnce makes one pass: it repeats its batch until one is not full, or the time is up.
func (d *Detector) runOnce(ctx context.Context) (Pass, error) {
	began := time.Now()
	pass := Pass{By: d.cfg.Process, DryRun: d.cfg.Detection.DryRun}
	status, err := d.status(ctx)
	if err != nil {
		return pass, fmt.Errorf("ask whether detection is paused: %w", err)
	}
	d.noticeSettings(status.Settings)
	if d.noticePause(status); status.Paused {
		pass.Paused = true
		return pass, nil
	}
	d.stopped = false
	if more, first := d.batch(ctx, &pass); first != nil {
		err = first
	} else if more {
		err = d.repeat(ctx, &pass, began)
	}
	pass.Took = time.Since(began)
	d.report(pass)
	if err != nil {
		return pass, err
	}
	return pass, d.after(ctx, pass)
}

// repeat makes batches, some at a time, until none is full or the time is up.
func (d *Detector) repeat(ctx context.Context, pass *Pass, began time.Time) error {
	errs := make([]error, d.cfg.Parallel)
	var wg sync.WaitGroup
	for n := range errs {
		wg.Go(func() {
			for more := true; more && errs[n] == nil; {
				if time.Since(began) >= d.cfg.TimeBudget {
					d.mu.Lock()
					pass.Unfinished = true
					d.mu.Unlock()
					return
				}
				more, errs[n] = d.batch(ctx, pass)
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

func (d *Detector) status(ctx context.Context) (DetectorStatus, error) {
	ctx, cancel := context.WithTimeout(ctx, detectTimeout)
	defer cancel()
	return d.cfg.Store.DetectorStatus(ctx)
}

// batch makes one call and reports whether it was full, so that another may find more.
func (d *Detector) batch(ctx context.Context, pass *Pass) (more bool, err error) {
	bounded, cancel := context.WithTimeout(ctx, detectTimeout)
	defer cancel()
	began := time.Now()
	found, err := d.cfg.Store.DetectStale(bounded, d.cfg.Detection)
	if stop := d.judge(time.Since(began), ctx.Err() == nil, err); stop {
		err = errors.Join(err, d.stopItself(ctx))
	}
	if err != nil {
		return false, fmt.Errorf("detect stale tasks: %w", err)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	pass.Batches++
	pass.Stale += len(found)
	full := len(found) == d.cfg.Detection.BatchSize
	level := slog.LevelDebug
	if pass.DryRun { // the log is where it says what would be done
		level = slog.LevelInfo
		pass.Unfinished = full
	}
	for _, t := range found {
		if t.TransitionSuccess {
			pass.Moved++
		}
		if t.MovedToDLQ {
			pass.Letters++
		}
		if !pass.DryRun { // the next one finds it again
			d.metrics.found(t)
		}
		d.cfg.Logger.Log(ctx, level, "stale task", "task_uuid", t.TaskUUID, "namespace", t.NamespaceName, "task_name", t.TaskName, "state", t.CurrentState,
			"minutes", t.TimeInStateMinutes, "threshold_minutes", t.StalenessThresholdMinutes, "threshold_kind", t.ThresholdKind,
			"threshold_source", t.ThresholdSource, "action", string(t.ActionTaken), "dry_run", pass.DryRun)
	}
	d.reportThresholds(found)
	// A dry run leaves them stale: the next batch would be the same.
	return full && !pass.DryRun && !d.stopped, nil
}

// appliedThreshold is what the tasks of a batch have in common for which one threshold counted.
type appliedThreshold struct {
	namespace, name, state, kind, source string
	minutes                              int
	action                               StaleAction
}

// reportThresholds logs which thresholds counted in a batch, for how many tasks each.
func (d *Detector) reportThresholds(found []StaleTask) {
	tasks := map[appliedThreshold]int{}
	for _, t := range found {
		tasks[appliedThreshold{t.NamespaceName, t.TaskName, t.CurrentState, t.ThresholdKind, t.ThresholdSource, t.StalenessThresholdMinutes, t.ActionTaken}]++
	}
	for a, n := range tasks {
		d.cfg.Logger.Info("threshold passed", "tasks", n, "namespace", a.namespace, "task_name", a.name, "state", a.state, "threshold_minutes", a.minutes,
			"threshold_kind", a.kind, "threshold_source", a.source, "action", string(a.action), "dry_run", d.cfg.Detection.DryRun)
	}
}

// judge counts slow batches in a row and reports, once in a pass, whether there were too many. A batch that is given up
// because the process stops does not count.
func (d *Detector) judge(took time.Duration, running bool, err error) (stop bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case took > d.cfg.LatencyLimit && running:
		d.slow++
	case err == nil:
		d.slow = 0
	}
	if d.slow < slowBatches || !running || d.stopped {
		return false
	}
	d.stopped = true
	return true
}

// stopItself pauses the detectors of all processes: the database is too slow for them, and what makes them
// slow is likely the same for all.
func (d *Detector) stopItself(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, detectTimeout)
	defer cancel()
	pause := restIntervals * d.cfg.Interval
	reason := fmt.Sprintf("%d batches in a row took longer than %v", slowBatches, d.cfg.LatencyLimit)
	if err := d.cfg.Store.PauseEngine(ctx, EngineDetector, Pause{By: PausedByLatency, Reason: reason, For: pause}); err != nil {
		return fmt.Errorf("pause detection, because %s: %w", reason, err)
	}
	d.metrics.selfStops.Inc()
	d.metrics.paused.Set(1)
	d.mu.Lock()
	d.paused = true
	d.mu.Unlock()
	d.cfg.Logger.Error("detection of stale tasks is paused: the database is too slow for it", "reason", reason, "resumes_in", pause.String(),
		"hint", "look at the load of the database; postrider task detector resume ends the pause")
	return nil
}

// noticePause shows the switch, and says so when it was turned.
func (d *Detector) noticePause(s DetectorStatus) {
	switch {
	case s.Paused:
		d.metrics.paused.Set(1)
	default:
		d.metrics.paused.Set(0)
	}
	if s.Paused == d.paused {
		return
	}
	d.paused = s.Paused
	if s.Paused {
		d.cfg.Logger.Warn("detection of stale tasks is paused", "by", s.PausedBy, "reason", s.Reason, "hint", "postrider task detector resume")
	} else {
		d.cfg.Logger.Info("detection of stale tasks goes on")
	}
}

// noticeSettings says so when the settings are no longer those of the pass before: this process did not change them.
func (d *Detector) noticeSettings(now StoredSettings) {
	if changed := d.settings.Changes(now); changed != "" && d.settings != nil {
		d.cfg.Logger.Warn("another process has changed the settings of detection: this detector goes by them from now on", "changed", changed,
			"hint", "all detectors of a database go by one set of settings, that of the one which started last: give all the same")
	}
	d.settings = now
}

// report counts and logs a pass, the latter only if it found something.
func (d *Detector) report(p Pass) {
	d.metrics.duration.WithLabelValues(fmt.Sprint(p.DryRun)).Observe(p.Took.Seconds())
	if p.Stale == 0 {
		return
	}
	d.cfg.Logger.Info("stale tasks found", "stale", p.Stale, "transitioned", p.Moved, "moved_to_dlq", p.Letters, "batches", p.Batches,
		"took", p.Took.String(), "dry_run", p.DryRun, "unfinished", p.Unfinished)
}

// after notes a pass for operators, and counts what will be stale soon.
func (d *Detector) after(ctx context.Context, p Pass) error {
	ctx, cancel := context.WithTimeout(ctx, detectTimeout)
	defer cancel()
	if err := d.cfg.Store.RecordPass(ctx, p); err != nil {
		return fmt.Errorf("note the pass: %w", err)
	}
	near, err := d.cfg.Store.NearStale(ctx, d.cfg.Detection, d.cfg.WarnShare)
	if err != nil {
		return fmt.Errorf("count the nearly stale tasks: %w", err)
	}
	d.metrics.near.WithLabelValues("state").Set(float64(near.State))
	d.metrics.near.WithLabelValues("lifetime").Set(float64(near.Lifetime))
	return nil
}

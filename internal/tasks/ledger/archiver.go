package ledger

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v4"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/postrider/postrider/internal/loop"
)

// ArchiverConfig is what an Archiver is made of.
type ArchiverConfig struct {
	// Store is where tasks are moved. Required.
	Store ArchiveStore
	// Disabled archives nothing; the dashboards' summaries are renewed all the same. Defaults to false.
	Disabled bool
	// Interval is the time between the beginnings of two passes; the first begins at once. Defaults to 24h.
	Interval time.Duration
	// RetentionDays is for how many days an ended task stays live; 0 archives each in the next pass. Defaults
	// to 0.
	RetentionDays int
	// BatchSize is how many tasks go between two rests, 1 to 100000, in transactions of at most
	// MaxArchiveTransaction. Defaults to 1000.
	BatchSize int
	// Pause is the rest between two batches, so that a long pass leaves the database to others. Defaults to
	// 100ms.
	Pause time.Duration
	// Policies say which ends count. Defaults to DefaultArchivePolicies, if nil.
	Policies *ArchivePolicies
	// DashboardInterval is how old the dashboards' summaries get before they are renewed; views use none that is
	// older than five minutes. Defaults to 1m.
	DashboardInterval time.Duration
	// Logger defaults to one that discards.
	Logger *slog.Logger
	// Registerer receives the metrics. Defaults to none.
	Registerer prometheus.Registerer
}

// Archiver moves ended tasks into the archive from time to time. Any number may run, in any number of
// processes: they share the work.
type Archiver struct {
	cfg     ArchiverConfig
	options ArchiveOptions
	metrics *archiverMetrics
}

// NewArchiver checks the settings.
func NewArchiver(c ArchiverConfig) (*Archiver, error) {
	if c.Store == nil {
		return nil, errors.New("archiver: Store is missing")
	}
	if c.Interval == 0 {
		c.Interval = 24 * time.Hour
	}
	if c.Pause == 0 {
		c.Pause = 100 * time.Millisecond
	}
	if c.DashboardInterval == 0 {
		c.DashboardInterval = time.Minute
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	c.Logger = c.Logger.With("component", "archiver")
	if c.Interval < 0 || c.DashboardInterval < 0 {
		return nil, fmt.Errorf("archiver: the intervals are %v and %v, they must not be negative", c.Interval, c.DashboardInterval)
	}
	o := ArchiveOptions{RetentionDays: c.RetentionDays, BatchSize: c.BatchSize, Policies: c.Policies, Pause: c.Pause}
	if err := o.fill(); err != nil {
		return nil, err
	}
	return &Archiver{cfg: c, options: o, metrics: newArchiverMetrics(c.Registerer, o.BatchSize)}, nil
}

// Run works until ctx ends. A pass that fails is tried again, first after a minute at most; what it had moved
// stays moved.
func (a *Archiver) Run(ctx context.Context) error {
	var loops sync.WaitGroup
	loops.Go(func() { a.every(ctx, "dashboards", a.cfg.DashboardInterval, a.refresh, a.metrics.dashboards) })
	if !a.cfg.Disabled {
		loops.Go(func() { a.every(ctx, "archive", a.cfg.Interval, a.pass, a.metrics.failures) })
	}
	loops.Wait()
	return nil
}

// every begins do again and again, each time an interval after the last time, or sooner when that failed.
func (a *Archiver) every(ctx context.Context, name string, interval time.Duration, do func(context.Context) error, failures prometheus.Counter) {
	failing := backoff.NewExponentialBackOff(backoff.WithInitialInterval(min(time.Minute, interval)),
		backoff.WithMaxInterval(min(time.Hour, interval)), backoff.WithMaxElapsedTime(0), backoff.WithRandomizationFactor(0))
	loop.Repeat(ctx, func(ctx context.Context) time.Duration {
		began := time.Now()
		err := do(ctx)
		switch {
		case err == nil:
			failing.Reset()
			return interval - time.Since(began)
		case ctx.Err() != nil: // told to stop
			return 0
		}
		pause := failing.NextBackOff()
		failures.Inc()
		a.cfg.Logger.Error("cycle failed", "loop", name, "err", err, "retry_in", pause.String())
		return pause
	})
}

// pausedLook is the pause between two looks at the switch while archiving is paused.
const pausedLook = 15 * time.Second

// untilResumed returns when archiving is not paused.
func (a *Archiver) untilResumed(ctx context.Context) error {
	for waited := false; ; waited = true {
		bounded, cancel := context.WithTimeout(ctx, batchTimeout)
		s, err := a.cfg.Store.Switch(bounded, EngineArchiver)
		cancel()
		switch {
		case err != nil:
			return fmt.Errorf("ask whether archiving is paused: %w", err)
		case s.Paused && !waited:
			a.cfg.Logger.Warn("archiving of tasks is paused", "by", s.PausedBy, "reason", s.Reason, "hint", "postrider archive resume")
		case !s.Paused && waited:
			a.cfg.Logger.Info("archiving of tasks goes on")
		}
		if !s.Paused {
			return nil
		}
		if err := loop.Sleep(ctx, pausedLook); err != nil {
			return err
		}
	}
}

// pass archives all that may go. Between two batches it waits while archiving is paused.
func (a *Archiver) pass(ctx context.Context) error {
	began := time.Now()
	got, err := archive(ctx, a.cfg.Store, a.options, a.untilResumed, func(took time.Duration) { a.metrics.seconds.Observe(took.Seconds()) })
	if got.Tasks > 0 {
		a.cfg.Logger.Info("tasks archived", "tasks", got.Tasks, "steps", got.Steps, "transitions", got.Transitions, "took", time.Since(began).String())
	}
	return err
}

// refresh renews the dashboards' summaries, unless another process just did.
func (a *Archiver) refresh(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, batchTimeout)
	defer cancel()
	// A little less than the interval: processes take turns, and none misses its own by a moment.
	if _, err := a.cfg.Store.RefreshDashboards(ctx, a.cfg.DashboardInterval*9/10); err != nil {
		return fmt.Errorf("renew the dashboards: %w", err)
	}
	return nil
}

// archiverMetrics are the archiver's own; a nil registerer keeps them to itself.
type archiverMetrics struct {
	seconds  prometheus.Observer
	failures prometheus.Counter
	// dashboards counts renewals of the summaries behind the views that failed.
	dashboards prometheus.Counter
}

func newArchiverMetrics(reg prometheus.Registerer, batchSize int) *archiverMetrics {
	seconds := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "postrider_archive_duration_seconds",
		Help:    "Time of one batch of this process's archiver, by the setting archive.archive_batch_size. Batches of commands and SQL are not in it.",
		Buckets: prometheus.ExponentialBuckets(0.005, 2, 16)}, []string{"batch_size"})
	m := &archiverMetrics{
		seconds: seconds.WithLabelValues(strconv.Itoa(batchSize)),
		failures: prometheus.NewCounter(prometheus.CounterOpts{Name: "postrider_archive_failures_total",
			Help: "Passes of the archiver that failed; what they had moved until then stays moved."}),
		dashboards: prometheus.NewCounter(prometheus.CounterOpts{Name: "postrider_dashboard_failures_total",
			Help: "Renewals of the summaries behind the dashboard views that failed."}),
	}
	if reg != nil {
		reg.MustRegister(seconds, m.failures, m.dashboards)
	}
	return m
}

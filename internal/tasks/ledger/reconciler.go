package ledger

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/postrider/postrider/internal/loop"
)

// Defaults of ReconcilerConfig.
const (
	defaultReconcileInterval = 5 * time.Second
	defaultReconcileBatch    = 50
)

// CaughtUp counts what became of tasks whose events were given up while another transaction had the task locked.
type CaughtUp struct {
	// Moved are in their dead-letter state now, Refused cannot be moved, Waiting are tried again.
	Moved, Refused, Waiting int
}

// CatchUpper moves these tasks, at most limit in a call. The tasks that were tried longest ago come first.
type CatchUpper interface {
	CatchUp(ctx context.Context, limit int) (CaughtUp, error)
}

// ReconcilerConfig is what a Reconciler needs.
type ReconcilerConfig struct {
	// Store is the ledger. Required.
	Store CatchUpper
	// Interval is the pause between two looks. Defaults to 5s.
	Interval time.Duration
	// Batch is how many tasks are tried in one transaction. Each has a savepoint, and with more than 64 of these a
	// transaction is slow for all who look at its rows. Defaults to 50.
	Batch int
	// Logger defaults to one that discards.
	Logger *slog.Logger
	// Registerer receives the metrics postrider_tasks_caught_up_total and postrider_tasks_to_catch_up. Defaults
	// to none.
	Registerer prometheus.Registerer
}

// Reconciler moves a task to its dead-letter state if its event was given up while another transaction had the task
// locked: giving up an event waits for no task, and no task is forgotten.
type Reconciler struct {
	cfg     ReconcilerConfig
	log     *slog.Logger
	tasks   *prometheus.CounterVec
	waiting prometheus.Gauge
	outage  loop.Outage
}

// NewReconciler returns a Reconciler that works once it is run. It fails on an incomplete config and on a
// Registerer that has its metrics already.
func NewReconciler(cfg ReconcilerConfig) (*Reconciler, error) {
	switch {
	case cfg.Store == nil:
		return nil, errors.New("reconciler: Store is required")
	case cfg.Interval < 0 || cfg.Batch < 0:
		return nil, errors.New("reconciler: Interval and Batch must not be negative")
	}
	if cfg.Interval == 0 {
		cfg.Interval = defaultReconcileInterval
	}
	if cfg.Batch == 0 {
		cfg.Batch = defaultReconcileBatch
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	f := &Reconciler{cfg: cfg, log: cfg.Logger.With(slog.String("component", "reconciler")), tasks: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "postrider_tasks_caught_up_total",
		Help: "Tasks whose event was given up while another session was at work on them, by what became of them later: moved to the dead-letter state, or refused.",
	}, []string{"outcome"}), waiting: prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "postrider_tasks_to_catch_up",
		Help: "Tasks whose event was given up and that could not be moved when they were last tried, because another session was at work on them or moving them failed; at most a batch of them.",
	})}
	for _, outcome := range []string{"moved", "refused"} {
		f.tasks.WithLabelValues(outcome)
	}
	if cfg.Registerer == nil {
		return f, nil
	}
	for _, c := range []prometheus.Collector{f.tasks, f.waiting} {
		if err := cfg.Registerer.Register(c); err != nil {
			return nil, err
		}
	}
	return f, nil
}

// Run looks until ctx ends, and returns nil. A look that fails is logged, once per outage, and made again.
func (f *Reconciler) Run(ctx context.Context) error {
	loop.AfterEvery(ctx, f.cfg.Interval, func(ctx context.Context) {
		for f.runOnce(ctx) && ctx.Err() == nil {
		}
	})
	return nil
}

// runOnce tries a batch, and reports whether there may be more that can go on.
func (f *Reconciler) runOnce(ctx context.Context) (more bool) {
	bounded, cancel := context.WithTimeout(ctx, batchTimeout)
	got, err := f.cfg.Store.CatchUp(bounded, f.cfg.Batch)
	cancel()
	if err != nil && ctx.Err() != nil {
		return false // it was told to stop
	}
	if f.outage.Observe(err) {
		f.log.LogAttrs(ctx, slog.LevelError, "moving tasks whose events were given up failed, trying again", slog.Any("err", err))
	}
	if err != nil {
		return false
	}
	f.waiting.Set(float64(got.Waiting))
	f.tasks.WithLabelValues("moved").Add(float64(got.Moved))
	f.tasks.WithLabelValues("refused").Add(float64(got.Refused))
	if got.Moved+got.Refused > 0 {
		f.log.LogAttrs(ctx, slog.LevelInfo, "tasks whose events were given up before were moved", slog.Int("moved", got.Moved),
			slog.Int("refused", got.Refused), slog.Int("waiting", got.Waiting))
	}
	return got.Moved+got.Refused >= f.cfg.Batch
}

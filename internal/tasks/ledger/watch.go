package ledger

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/postrider/postrider/internal/loop"
)

// Figures are numbers about live tasks, as they were when the archiver's engine last counted them.
type Figures struct {
	// CountedAt is when the states were counted; zero when that is too long ago, or was never done.
	CountedAt time.Time
	// States are the live tasks by state.
	States []StateFigures
}

// StateFigures count the tasks in one state: how many there are, and how many are past one of their thresholds.
type StateFigures struct {
	State        string
	Tasks, Stale int64
}

// FiguresReader reads figures, at a price that does not grow with the number of tasks.
type FiguresReader interface {
	// Figures are the numbers about live tasks.
	Figures(ctx context.Context) (Figures, error)
	// Counts are what was done with tasks since the schema exists, each kind, state and outcome once.
	Counts(ctx context.Context) ([]Count, error)
	// Switch reads the switch of a kind of engine.
	Switch(ctx context.Context, e Engine) (Switch, error)
}

// DefaultWatchInterval is the default of WatchConfig.Interval.
const DefaultWatchInterval = 15 * time.Second

// watchTime bounds one look.
const watchTime = 10 * time.Second

// WatchConfig is what a Watch needs.
type WatchConfig struct {
	// Store is the ledger. Required.
	Store FiguresReader
	// Interval is the pause between two looks. Defaults to 15s.
	Interval time.Duration
	// Logger defaults to one that discards.
	Logger *slog.Logger
	// Registerer receives the metrics postrider_tasks, postrider_tasks_stale, postrider_tasks_discovered_total,
	// postrider_tasks_detected_stale_total, postrider_tasks_moved_to_dlq_total, postrider_tasks_archived_total,
	// postrider_archive_paused and postrider_tasks_read_*. Defaults to none.
	Registerer prometheus.Registerer
}

// Watch shows how many live tasks there are, and what was done with tasks. Processes that watch one database show the same.
type Watch struct {
	cfg     WatchConfig
	watcher loop.Watcher
	tasks   *prometheus.GaugeVec
	stale   *prometheus.GaugeVec
	readAt  prometheus.Gauge
	paused  prometheus.Gauge
	errors  *prometheus.CounterVec
	states  *bounded
	known   map[string]StateFigures
	totals  map[CountKind]*totals
}

// NewWatch returns a Watch that works once it is run. It fails on an incomplete config and on a Registerer that has its
// metrics already.
func NewWatch(cfg WatchConfig) (*Watch, error) {
	switch {
	case cfg.Store == nil:
		return nil, errors.New("task watch: Store is required")
	case cfg.Interval < 0:
		return nil, errors.New("task watch: Interval must not be negative")
	}
	if cfg.Interval == 0 {
		cfg.Interval = DefaultWatchInterval
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	w := &Watch{cfg: cfg, states: newBounded(64), known: map[string]StateFigures{}, totals: newTaskTotals()}
	w.prepareBuiltin()
	w.tasks = prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "postrider_tasks",
		Help: "Live tasks by state, as of postrider_tasks_read_timestamp_seconds; states past the 64th are one, other."}, []string{"state"})
	w.stale = prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "postrider_tasks_stale",
		Help: "Live tasks that are past a threshold, and wait for the detector or were left in place by it."}, []string{"state"})
	w.readAt = prometheus.NewGauge(prometheus.GaugeOpts{Name: "postrider_tasks_read_timestamp_seconds",
		Help: "When the live tasks were counted, which the archiver does once a minute; 0 before the first time."})
	w.paused = prometheus.NewGauge(prometheus.GaugeOpts{Name: "postrider_archive_paused",
		Help: "1 while an operator has paused the archivers of the database; otherwise 0."})
	w.errors = prometheus.NewCounterVec(prometheus.CounterOpts{Name: "postrider_tasks_read_errors_total",
		Help: "Looks at live tasks (tasks), at what was done with tasks (task_counts), or at the switch of the archivers (archiver), that failed; the metrics stay as they were."}, []string{"check"})
	w.watcher = loop.Watcher{Interval: cfg.Interval, Timeout: watchTime, Logger: cfg.Logger.With(slog.String("component", "task-watch")),
		Readings: []loop.Reading{
			{Check: "tasks", Read: w.readFigures, Failed: w.errors.WithLabelValues("tasks").Inc},
			{Check: "task_counts", Read: w.readCounts, Failed: w.errors.WithLabelValues("task_counts").Inc},
			{Check: "archiver", Read: w.readSwitch, Failed: w.errors.WithLabelValues("archiver").Inc},
		}}
	if cfg.Registerer == nil {
		return w, nil
	}
	collectors := []prometheus.Collector{w.tasks, w.stale, w.readAt, w.paused, w.errors}
	for _, t := range w.totals {
		collectors = append(collectors, t)
	}
	for _, c := range collectors {
		if err := cfg.Registerer.Register(c); err != nil {
			return nil, err
		}
	}
	return w, nil
}

// Run looks until ctx ends, and returns nil. A look that fails is logged, once per outage, and made again.
func (w *Watch) Run(ctx context.Context) error { return w.watcher.Run(ctx) }

func (w *Watch) readFigures(ctx context.Context) error {
	f, err := w.cfg.Store.Figures(ctx)
	if err == nil {
		w.show(f)
	}
	return err
}

func (w *Watch) readSwitch(ctx context.Context) error {
	s, err := w.cfg.Store.Switch(ctx, EngineArchiver)
	if err != nil {
		return err
	}
	w.paused.Set(0)
	if s.Paused {
		w.paused.Set(1)
	}
	return nil
}

// show shows figures. Each gauge is set once, so that no scrape sees a fall that did not happen.
func (w *Watch) show(f Figures) {
	if f.CountedAt.IsZero() {
		return
	}
	now := map[string]StateFigures{}
	for _, s := range f.States {
		label := w.states.label(s.State)
		sum := now[label]
		now[label] = StateFigures{State: label, Tasks: sum.Tasks + s.Tasks, Stale: sum.Stale + s.Stale}
	}
	for label := range w.known {
		w.known[label] = StateFigures{}
	}
	maps.Copy(w.known, now)
	for label, s := range w.known {
		w.prepare(label)
		w.tasks.WithLabelValues(label).Set(float64(s.Tasks))
		w.stale.WithLabelValues(label).Set(float64(s.Stale))
	}
	w.readAt.Set(float64(f.CountedAt.UnixMilli()) / 1000)
}

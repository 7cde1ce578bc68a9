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
	// Discovered is how many tasks get_next_ready_tasks has handed out since the schema exists.
	Discovered int64
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
	Figures(ctx context.Context) (Figures, error)
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
	// Registerer receives the metrics postrider_tasks, postrider_tasks_stale, postrider_tasks_discovered_total and
	// postrider_tasks_read_timestamp_seconds. Defaults to none.
	Registerer prometheus.Registerer
}

// Watch shows how many live tasks there are. Processes that watch one database show the same.
type Watch struct {
	cfg     WatchConfig
	watcher loop.Watcher
	tasks   *prometheus.GaugeVec
	stale   *prometheus.GaugeVec
	readAt  prometheus.Gauge
	errors  prometheus.Counter
	states  *bounded
	known   map[string]StateFigures

	discovered *latest
}

// latest shows a counter that the database keeps.
type latest struct {
	prometheus.Counter
	value int64
}

// show raises it to the database's number. A smaller number means that the schema was made anew.
func (l *latest) show(n int64) {
	if n > l.value {
		l.Add(float64(n - l.value))
	}
	l.value = n
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
	w := &Watch{cfg: cfg, states: newBounded(64), known: map[string]StateFigures{}}
	w.discovered = &latest{Counter: prometheus.NewCounter(prometheus.CounterOpts{Name: "postrider_tasks_discovered_total",
		Help: "Tasks that get_next_ready_tasks handed out to workers, in all of the database."})}
	w.tasks = prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "postrider_tasks",
		Help: "Live tasks by state, as of postrider_tasks_read_timestamp_seconds; states past the 64th are one, other."}, []string{"state"})
	w.stale = prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "postrider_tasks_stale",
		Help: "Those of them that are past a threshold, and wait for the detector or were left in place by it."}, []string{"state"})
	w.readAt = prometheus.NewGauge(prometheus.GaugeOpts{Name: "postrider_tasks_read_timestamp_seconds",
		Help: "When the live tasks were counted, which the archiver does once a minute; 0 before the first time."})
	w.errors = prometheus.NewCounter(prometheus.CounterOpts{Name: "postrider_tasks_read_errors_total",
		Help: "Looks at the figures about live tasks that failed; the metrics stay as they were."})
	w.watcher = loop.Watcher{Interval: cfg.Interval, Timeout: watchTime, Logger: cfg.Logger.With(slog.String("component", "task-watch")),
		Readings: []loop.Reading{{Check: "tasks", Read: w.readFigures, Failed: w.errors.Inc}}}
	if cfg.Registerer == nil {
		return w, nil
	}
	for _, c := range []prometheus.Collector{w.discovered.Counter, w.tasks, w.stale, w.readAt, w.errors} {
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

// show shows figures. Each gauge is set once, so that no scrape sees a fall that did not happen.
func (w *Watch) show(f Figures) {
	w.discovered.show(f.Discovered)
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
		w.tasks.WithLabelValues(label).Set(float64(s.Tasks))
		w.stale.WithLabelValues(label).Set(float64(s.Stale))
	}
	w.readAt.Set(float64(f.CountedAt.UnixMilli()) / 1000)
}

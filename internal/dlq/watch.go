package dlq

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/postrider/postrider/internal/loop"
)

// AgeBounds are the ages that pending investigations are sorted by, in seconds: an hour, four, twelve, a day, three
// days, a week, four weeks.
func AgeBounds() []float64 {
	const hour, day = 3600, 86400
	return []float64{hour, 4 * hour, 12 * hour, day, 3 * day, 7 * day, 28 * day}
}

// Standing is how the pending investigations stand at one moment.
type Standing struct {
	// Pending is how many there are, by reason.
	Pending map[Reason]int64
	// Ages are how many of the oldest are older than each of AgeBounds and not than the next; the first number counts the
	// ones that are not older than any. AgeSum is their ages together, Oldest the greatest.
	Ages           []int64
	AgeSum, Oldest time.Duration
	// Groups is how many groups there are, by state.
	Groups map[GroupState]int64
}

// OpenedGroups are causes that people have not seen yet.
type OpenedGroups struct {
	// New is how many groups were made, Regressed how many came back after all of them had been closed. Muted ones do not
	// come back.
	New, Regressed int64
}

// Closed is an investigation that was closed.
type Closed struct {
	Reason Reason
	Status Status
	// Took is the time from its opening.
	Took time.Duration
}

// ClosedPlace is how far closed investigations have been looked at; the zero value is nowhere.
type ClosedPlace struct {
	ChangedAt time.Time
	Entry     uuid.UUID
}

// Defaults of WatchConfig.
const (
	DefaultWatchInterval = 10 * time.Second
	DefaultMaxPendingAge = 168 * time.Hour
)

// Bounds of one look.
const (
	watchAges   = 10_000
	watchClosed = 2_000
	watchTime   = 10 * time.Second
)

// WatchConfig is what a Watch needs.
type WatchConfig struct {
	// Standings are the investigations. Required.
	Standings Standings
	// Lag returns how many dead letters wait for the collector, by topic. Defaults to nil, which shows no lag.
	Lag func(ctx context.Context) (map[string]int64, error)
	// MaxPendingAge is how old a pending investigation may become before the alert about it. Defaults to 168h.
	MaxPendingAge time.Duration
	// Interval is the pause between two looks. Defaults to 10s.
	Interval time.Duration
	// Logger defaults to one that discards.
	Logger *slog.Logger
	// Registerer receives the metrics postrider_dlq_* and postrider_collector_lag_*; a registry takes the metrics of one
	// Watch. Defaults to none.
	Registerer prometheus.Registerer
}

// Watch shows how investigations stand. It looks at them now and then, so that a scrape of the metrics costs the
// database nothing; how old the figures are is a metric, too. Processes that watch one database show the same.
type Watch struct {
	cfg     WatchConfig
	metrics *watchMetrics
	place   ClosedPlace
	opened  time.Time // up to when groups were looked at
	watcher loop.Watcher
}

// NewWatch returns a Watch that works once it is run. It fails on an incomplete config and on a Registerer that has its
// metrics already.
func NewWatch(cfg WatchConfig) (*Watch, error) {
	switch {
	case cfg.Standings == nil:
		return nil, errors.New("watch: Standings is required")
	case cfg.Interval < 0 || cfg.MaxPendingAge < 0:
		return nil, errors.New("watch: Interval and MaxPendingAge must not be negative")
	}
	if cfg.Interval == 0 {
		cfg.Interval = DefaultWatchInterval
	}
	if cfg.MaxPendingAge == 0 {
		cfg.MaxPendingAge = DefaultMaxPendingAge
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	m, err := newWatchMetrics(cfg)
	if err != nil {
		return nil, fmt.Errorf("watch: register metrics: %w", err)
	}
	w := &Watch{cfg: cfg, metrics: m}
	w.watcher = loop.Watcher{Interval: cfg.Interval, Timeout: watchTime, Logger: cfg.Logger.With(slog.String("component", "watch")),
		Readings: []loop.Reading{
			{Check: "investigations", Read: w.readStanding, Failed: m.errors.WithLabelValues("investigations").Inc},
			{Check: "opened_groups", Read: w.readOpened, Failed: m.errors.WithLabelValues("opened_groups").Inc},
			{Check: "closed_investigations", Read: w.readClosed, Failed: m.errors.WithLabelValues("closed_investigations").Inc},
		}}
	if cfg.Lag != nil {
		w.watcher.Readings = append(w.watcher.Readings, loop.Reading{Check: "lag", Read: w.readLag, Failed: m.errors.WithLabelValues("lag").Inc})
	}
	return w, nil
}

// Run looks until ctx ends, and returns nil. A look that fails is logged, once per outage, and made again.
func (w *Watch) Run(ctx context.Context) error { return w.watcher.Run(ctx) }

func (w *Watch) readStanding(ctx context.Context) error {
	s, err := w.cfg.Standings.Standing(ctx, watchAges)
	if err == nil {
		w.metrics.show(s, time.Now())
	}
	return err
}

// readOpened counts the groups that were opened since the last look.
func (w *Watch) readOpened(ctx context.Context) error {
	n, to, err := w.cfg.Standings.Opened(ctx, w.opened)
	if err == nil {
		w.opened = to
		w.metrics.groupsOpened(n)
	}
	return err
}

// readClosed counts what was closed since the last look. When it is cut short, the next goes on.
func (w *Watch) readClosed(ctx context.Context) error {
	since := w.place.ChangedAt
	for more := true; more; {
		closed, to, further, err := w.cfg.Standings.Closed(ctx, w.place, since, watchClosed)
		if err != nil {
			return err
		}
		w.place, more = to, further
		for _, c := range closed {
			w.metrics.closed(c)
		}
	}
	return nil
}

func (w *Watch) readLag(ctx context.Context) error {
	lag, err := w.cfg.Lag(ctx)
	if err == nil {
		w.metrics.showLag(lag, time.Now())
	}
	return err
}

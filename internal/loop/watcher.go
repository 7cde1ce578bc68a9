package loop

import (
	"context"
	"log/slog"
	"time"
)

// Outage tells the failure that begins an outage from the failures that follow, so that a log has one line for an outage.
// Its zero value is ready.
type Outage struct{ on bool }

// Observe takes the outcome of an attempt, and reports whether it is the first failure since the last success.
func (o *Outage) Observe(err error) (first bool) {
	first = err != nil && !o.on
	o.on = err != nil
	return first
}

// Reading is something that a Watcher reads.
type Reading struct {
	// Check names the reading in the log. Required.
	Check string
	// Read reads figures and shows them as metrics. After an error the metrics stay as they were. Required.
	Read func(context.Context) error
	// Failed is called after each error, to count it. Required.
	Failed func()

	outage Outage
}

// Watcher reads figures now and then and shows them as metrics, so that a scrape of the metrics costs the database nothing.
type Watcher struct {
	// Interval is the time between the beginnings of two rounds. Required.
	Interval time.Duration
	// Timeout bounds each reading. Required.
	Timeout time.Duration
	// Readings are what a round reads, one after the other. A failed one does not keep the next from being read. Required.
	Readings []Reading
	// Logger gets a line for each outage of a reading. Required.
	Logger *slog.Logger
}

// Run makes a round at once and then one at every interval, until ctx ends, and returns nil.
func (w *Watcher) Run(ctx context.Context) error {
	Every(ctx, w.Interval, w.RunOnce)
	return nil
}

// RunOnce makes one round.
func (w *Watcher) RunOnce(ctx context.Context) {
	for i := range w.Readings {
		w.read(ctx, &w.Readings[i])
	}
}

func (w *Watcher) read(ctx context.Context, r *Reading) {
	bounded, cancel := context.WithTimeout(ctx, w.Timeout)
	defer cancel()
	err := r.Read(bounded)
	if err != nil && ctx.Err() != nil {
		return // it was told to stop
	}
	if err != nil {
		r.Failed()
	}
	if r.outage.Observe(err) {
		w.Logger.LogAttrs(ctx, slog.LevelWarn, "figures for metrics cannot be read, they stay as they were", slog.String("check", r.Check), slog.Any("err", err))
	}
}

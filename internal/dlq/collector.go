package dlq

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/cenkalti/backoff/v4"
	"go.opentelemetry.io/otel/trace"

	"github.com/postrider/postrider/internal/loop"
)

// Pauses after failures. A poll that failed is tried again soon, because other partitions may have
// letters; the database is given up to 5 seconds, jitter included.
const (
	firstPause    = 100 * time.Millisecond
	maxPollPause  = time.Second
	maxStorePause = 4 * time.Second
	pauseJitter   = 0.25
)

// Collector reads dead-letter topics and turns every letter into an investigation, once.
//
// Offsets are committed only after the database has the letters, so a crash repeats letters and never
// loses one, and repeated letters are recognised by their ids. A failing database stops it, for as long
// as it fails, at the letters in hand; a letter that the database refuses for its content does not: it is
// recorded in a reduced form.
type Collector struct {
	source      Source
	letters     Letters
	log         *slog.Logger
	metrics     *metrics
	tracer      trace.Tracer // nil makes no spans
	stopTimeout time.Duration
	decodeOne   func(Record) Letter
	whose       Whose
	// others are the desks whose letters were left to them.
	others map[string]bool
	// originals may be nil. Nothing is asked for before askAgain.
	originals        Originals
	originalsTimeout time.Duration
	askAgain         time.Time
}

// NewCollector returns a collector that reads once it is run. It fails on an incomplete Config and on a
// Registerer that has these metrics already.
func NewCollector(cfg Config) (*Collector, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	m, err := newMetrics(cfg.Registerer)
	if err != nil {
		return nil, fmt.Errorf("collector: register metrics: %w", err)
	}
	return &Collector{
		source:      cfg.Source,
		letters:     cfg.Letters,
		log:         cfg.Logger.With(slog.String("component", "collector")),
		metrics:     m,
		tracer:      tracerOf(cfg.TracerProvider),
		stopTimeout: cfg.StopTimeout,
		decodeOne:   cfg.Custom.Decoder(cfg.Whose),
		whose:       cfg.Whose,
		others:      map[string]bool{},
		originals:   cfg.Originals, originalsTimeout: cfg.OriginalsTimeout,
	}, nil
}

// Run reads and records letters until ctx ends; then it finishes the letters in hand within the stop
// timeout, closes the source and returns nil. Nothing else ends it. It runs once.
func (c *Collector) Run(ctx context.Context) error {
	defer c.source.Close()
	pause := newPause(maxPollPause)
	loop.Repeat(ctx, func(ctx context.Context) time.Duration {
		if read, err := c.runOnce(ctx); err == nil || read > 0 {
			pause.Reset()
			return 0
		}
		return pause.NextBackOff()
	})
	return nil
}

// runOnce polls, records and commits once, and returns how many records it read. Errors have been
// counted and logged already.
func (c *Collector) runOnce(ctx context.Context) (read int, err error) {
	records, err := c.source.Poll(ctx)
	if err != nil && ctx.Err() == nil {
		c.metrics.failed(stagePoll)
		c.log.LogAttrs(ctx, slog.LevelError, "reading dead letters failed", slog.Any("err", err))
	}
	if len(records) == 0 {
		return 0, err
	}
	work, done := outlive(ctx, c.stopTimeout)
	defer done()
	recorded, storeErr := c.recordAll(work, records)
	if storeErr != nil {
		c.log.LogAttrs(ctx, slog.LevelWarn, "stopping before the letters in hand were recorded, they will be read again",
			slog.Int("letters", len(records)), slog.Any("err", storeErr))
		return len(records), errors.Join(err, storeErr)
	}
	if recorded.New > 0 {
		c.log.LogAttrs(ctx, slog.LevelInfo, "dead letters recorded", slog.Int("new", recorded.New),
			slog.Int("repeated", recorded.Repeated), slog.Int("opened", recorded.Opened), slog.Int("added", recorded.Added))
	}
	if commitErr := c.source.Commit(work, records); commitErr != nil {
		// The database has them: reading on is safe, and the next commit covers these offsets too.
		c.metrics.failed(stageCommit)
		c.log.LogAttrs(ctx, slog.LevelWarn, "committing offsets failed, letters may be read again", slog.Any("err", commitErr))
		err = errors.Join(err, commitErr)
	}
	return len(records), err
}

// recordOne stores a letter as whole as the store takes it.
func (c *Collector) recordOne(ctx context.Context, l Letter) (Recorded, error) {
	recorded, refusal := c.storeUntilDone(ctx, []Letter{l})
	if !errors.Is(refusal, ErrLetter) {
		return recorded, refusal
	}
	c.metrics.refused.Inc()
	c.log.LogAttrs(ctx, slog.LevelError, "a dead letter was refused by the database and is recorded in a reduced form",
		slog.String("letter_id", l.ID), slog.String("topic", l.DLQTopic), slog.Int("partition", int(l.DLQPartition)),
		slog.Int64("offset", l.DLQOffset), slog.Any("err", refusal))
	recorded, err := c.storeUntilDone(ctx, []Letter{Unstorable(l, refusal)})
	if !errors.Is(err, ErrLetter) {
		return recorded, err
	}
	// Nothing of the message is left in this form. A refusal of it is a fault of the schema, not of the
	// letter, and waits for its repair like any other fault of the database.
	return c.retry(ctx, []Letter{withoutBytes(l, refusal)}, func(error) bool { return true })
}

// storeUntilDone stores the letters, for as long as the store fails in passing. It returns an error that
// wraps ErrLetter, or ctx's.
func (c *Collector) storeUntilDone(ctx context.Context, letters []Letter) (Recorded, error) {
	return c.retry(ctx, letters, func(err error) bool { return !errors.Is(err, ErrLetter) })
}

func (c *Collector) retry(ctx context.Context, letters []Letter, passing func(error) bool) (Recorded, error) {
	return backoff.RetryNotifyWithData(func() (Recorded, error) {
		recorded, err := c.letters.RecordLetters(ctx, letters)
		if err != nil && !passing(err) {
			return Recorded{}, backoff.Permanent(err)
		}
		return recorded, err
	}, backoff.WithContext(newPause(maxStorePause), ctx), func(err error, next time.Duration) {
		c.metrics.failed(stageStore)
		c.log.LogAttrs(ctx, slog.LevelError, "recording dead letters failed, trying again",
			slog.Int("letters", len(letters)), slog.String("pause", next.String()), slog.Any("err", err))
	})
}

func newPause(limit time.Duration) *backoff.ExponentialBackOff {
	return backoff.NewExponentialBackOff(
		backoff.WithInitialInterval(firstPause),
		backoff.WithMaxInterval(limit),
		backoff.WithRandomizationFactor(pauseJitter),
		backoff.WithMaxElapsedTime(0)) // for ever
}

// outlive returns a context that ends the given time after ctx does.
func outlive(ctx context.Context, by time.Duration) (context.Context, context.CancelFunc) {
	longer, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		_ = loop.Sleep(longer, by) // or until its work is done
		cancel()
	})
	return longer, func() { stop(); cancel() }
}

package replay

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/google/uuid"
	"go.opentelemetry.io/otel/trace"

	"github.com/postrider/postrider/internal/dlq"
	"github.com/postrider/postrider/internal/loop"
)

// Limits of waiting for faults that pass by themselves.
const (
	// firstPause doubles up to longestPause, and is short again as soon as anything goes on.
	firstPause   = 250 * time.Millisecond
	longestPause = 5 * time.Second
	// contactLimit is how long the first question waits for a broker: an address may be wrong.
	contactLimit = 15 * time.Second
	// beginLimit is how long each later wait is before the first message is sent: a cluster that cannot be read from, or
	// takes no commits, may be the wrong one. Once a replay has begun it waits for as long as it takes.
	beginLimit = time.Minute
	// publishLimit bounds one wait for acknowledgements; after it the messages are asked for again.
	publishLimit = 10 * time.Second
	// stopLimit is how long a replay that was told to stop waits for its sent messages, and for its last commit.
	stopLimit = 3 * time.Second
)

// DefaultBatch is the default of Config.Batch.
const DefaultBatch = 500

// ErrNoBroker is wrapped by the error of a replay that waited for brokers before it sent anything, and gave up.
var ErrNoBroker = errors.New("brokers are away")

// Config configures a Replay.
type Config struct {
	// Cluster reads letters and keeps how far the replay is. Required.
	Cluster Cluster
	// Publisher sends the messages. Required.
	Publisher Publisher
	// Originals reads the records that letters without a message point to. Defaults to none: these letters are left alone.
	Originals dlq.Originals
	// Options say which letters, where to and how. Required.
	Options Options
	// Batch is how many messages are on their way at once, at most, and so how many are sent again after a death.
	// Defaults to 500.
	Batch int
	// Observer is told how far it is, from the goroutine that replays, after each batch and while it waits. Defaults
	// to none.
	Observer func(Progress)
	// Logger receives the reasons for which the replay waits. Defaults to no logging.
	Logger *slog.Logger
	// TracerProvider receives a span of each Run. Defaults to none.
	TracerProvider trace.TracerProvider
}

// Progress says how far a plan or a replay is.
type Progress struct {
	// Planning is true while the plan reads; then Sent counts messages that would be sent.
	Planning bool
	// Looked is how many of Records offsets were looked at by this call.
	Looked, Records int64
	// Sent, NotMatching and Left count letters of this call; Left includes the refused ones.
	Sent, NotMatching, Left int64
	// Waiting says what the replay waits for; empty when it goes on.
	Waiting string
}

// Replay is one call of a replay. Its methods are not safe for concurrent use.
type Replay struct {
	cluster   Cluster
	publish   Publisher
	originals dlq.Originals // may be nil
	options   Options
	batch     int
	observer  func(Progress)
	log       *slog.Logger
	owner     string
	last      Progress
	tracer    trace.Tracer // nil makes no spans
}

// New checks the configuration. Errors about the options wrap ErrRequest.
func New(cfg Config) (*Replay, error) {
	switch {
	case cfg.Cluster == nil, cfg.Publisher == nil:
		return nil, errors.New("replay: Cluster and Publisher are required")
	case cfg.Batch < 0:
		return nil, fmt.Errorf("replay: Batch is %d, it must be positive", cfg.Batch)
	case cfg.Batch == 0:
		cfg.Batch = DefaultBatch
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if err := cfg.Options.Check(); err != nil {
		return nil, err
	}
	r := &Replay{
		cluster: cfg.Cluster, publish: cfg.Publisher, originals: cfg.Originals, options: cfg.Options, batch: cfg.Batch, observer: cfg.Observer,
		log: cfg.Logger.With("component", "replay"), owner: uuid.NewString()[:8],
	}
	if cfg.TracerProvider != nil {
		r.tracer = cfg.TracerProvider.Tracer("github.com/postrider/postrider/internal/replay")
	}
	return r, nil
}

// observe tells the observer.
func (r *Replay) observe(p Progress) {
	r.last = p
	if r.observer != nil {
		r.observer(p)
	}
}

// waiting says what the replay waits for.
func (r *Replay) waiting(doing, why string) {
	r.log.Warn("waiting", "doing", doing, "err", why)
	p := r.last
	p.Waiting = doing + ": " + why
	r.observe(p)
}

// mend does something until it succeeds, fails for a reason that waiting does not mend, or ctx ends. After limit, if
// that is not 0, it fails with the last error, even if do does not come back by itself.
func (r *Replay) mend(ctx context.Context, doing string, limit time.Duration, do func(context.Context) error) error {
	began := time.Now()
	bounded := ctx
	if limit > 0 {
		var cancel context.CancelFunc
		bounded, cancel = context.WithTimeout(ctx, limit)
		defer cancel()
	}
	var last error
	for pause := firstPause; ; pause = min(2*pause, longestPause) {
		err := do(bounded)
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return ctx.Err()
		case IsFinal(err), errors.Is(err, ErrRequest):
			return fmt.Errorf("%s: %w", doing, err)
		case bounded.Err() != nil && last != nil: // says more than that time is up
			err = last
			fallthrough
		case limit > 0 && time.Since(began)+pause > limit:
			return fmt.Errorf("%s: %w for %v: %w", doing, ErrNoBroker, limit, err)
		}
		last = err
		r.waiting(doing, err.Error())
		if loop.Sleep(ctx, pause) != nil {
			return ctx.Err()
		}
	}
}

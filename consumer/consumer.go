package consumer

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/postrider/postrider/internal/loop"
)

// Consumer reads topics as a member of a consumer group and hands their messages to a Handler.
type Consumer struct {
	cfg     Config
	log     *slog.Logger
	handler Handler
	batch   BatchHandler // nil unless the handler takes batches
	routes  map[string]*route
	m       *metrics
	tracing *tracing   // nil unless Config.TracerProvider is given
	shared  *scheduler // nil unless Config.Concurrency is above 0
	started atomic.Bool

	mu       sync.Mutex
	lanes    map[Partition]lane
	assigned atomic.Int64 // len(lanes)
	// cancelCommit ends the commit under way; nil when there is none.
	cancelCommit context.CancelFunc
	stopped      bool // nothing is taken over any more

	// released is sent to when messages are done with while breathing.
	released  chan struct{}
	breathing atomic.Bool

	// committing is held from reading the positions until the broker has them: otherwise an older position could arrive
	// after the last one of a partition that was given away.
	committing sync.Mutex
}

// New checks the whole configuration, and connects to nothing.
func New(cfg Config, h Handler) (*Consumer, error) {
	cfg = cfg.withDefaults()
	c := &Consumer{cfg: cfg, log: cfg.Logger, m: newMetrics(), tracing: newTracing(&cfg), lanes: map[Partition]lane{},
		released: make(chan struct{}, 1)}
	err := cfg.validate(h)
	var rerr error
	c.routes, rerr = cfg.routes(c.m, c.tellBreaker)
	if err = errors.Join(err, rerr); err != nil {
		return nil, fmt.Errorf("consumer: %w", err)
	}
	if b, ok := h.(BatchHandler); ok {
		c.batch, c.handler = b, b
		for topic, r := range c.routes {
			if r.policy.Mode == Ordered {
				return nil, fmt.Errorf("consumer: topic %s has the mode ordered, which takes single messages, and the handler takes batches", topic)
			}
		}
	} else {
		c.handler = chain(h, cfg.Middleware)
	}
	if cfg.Concurrency > 0 {
		c.shared = &scheduler{c: c, max: cfg.Concurrency}
	}
	if err := c.m.register(cfg.Registerer, c); err != nil {
		return nil, fmt.Errorf("consumer: register metrics: %w", err)
	}
	return c, nil
}

// tellBreaker tells of a breaker that opened, stays open or closed.
func (c *Consumer) tellBreaker(e BreakerEvent) {
	if e.Paused {
		c.m.open.WithLabelValues(e.Topic).Set(1)
		c.m.opened.WithLabelValues(e.Topic).Inc()
		c.log.Error("a topic pauses: too many of its messages would be given up", slog.String("topic", e.Topic), slog.Time("until", e.Until),
			slog.Int("consecutive", e.Consecutive), slog.Float64("share", e.Share))
	} else {
		c.m.open.WithLabelValues(e.Topic).Set(0)
		c.log.Info("a topic goes on: its messages are handled again", slog.String("topic", e.Topic))
	}
	if c.cfg.OnBreaker != nil {
		c.cfg.OnBreaker(e)
	}
}

// pollPause follows a poll that brought only an error.
const pollPause = 100 * time.Millisecond

// Run joins the group and handles messages until ctx ends. Then Run takes up no new message and waits up to StopTimeout
// for the running handlers; after that their contexts end. Run commits the messages that are done and leaves the group.
// It returns nil if all of that went well. It returns an error when it could not begin, when the client was closed,
// when a handler did not end, and when the last commit failed, so that messages will be handled again. A Consumer runs
// once.
func (c *Consumer) Run(ctx context.Context) error {
	if !c.started.CompareAndSwap(false, true) {
		return errors.New("consumer: Run was called twice: make another Consumer with New")
	}
	if err := c.cfg.Client.Open(ctx, c.subscription(), c); err != nil {
		c.stop() // a member that joined halfway may have partitions
		return fmt.Errorf("consumer: %w", err)
	}
	committed := make(chan struct{})
	commits, stopCommits := context.WithCancel(context.WithoutCancel(ctx))
	go func() { defer close(committed); c.commitPeriodically(commits) }()
	err := c.read(ctx)
	stopCommits()
	<-committed
	return errors.Join(err, c.stop())
}

// read hands the polled batches to their lanes until ctx ends.
func (c *Consumer) read(ctx context.Context) error {
	for ctx.Err() == nil {
		batches, err := c.cfg.Client.Poll(ctx)
		for i := range batches {
			c.take(batches[i])
		}
		c.cfg.Client.Release()
		c.breathe(ctx)
		switch {
		case err == nil || ctx.Err() != nil:
		case errors.Is(err, ErrClosed):
			return fmt.Errorf("consumer: read: %w", err)
		default:
			c.log.Warn("reading failed, it goes on", slog.Any("err", err))
			if len(batches) == 0 {
				_ = loop.Sleep(ctx, pollPause) // the condition of the loop sees that ctx ended
			}
		}
	}
	return nil
}

// breath is how long handlers may keep the next poll waiting.
const breath = 20 * time.Millisecond

// breathe lets handlers that are behind catch up before more is read, because a partition that has to be paused throws
// away its fetched records. Partitions that are paused already do not count: they may wait for long.
func (c *Consumer) breathe(ctx context.Context) {
	if !c.behind() {
		return
	}
	c.breathing.Store(true)
	defer c.breathing.Store(false)
	over := time.NewTimer(breath)
	defer over.Stop()
	for c.behind() {
		select {
		case <-c.released:
		case <-over.C:
			return
		case <-ctx.Done():
			return
		}
	}
}

// behind reports whether the partitions that are not paused have used up half of the memory.
func (c *Consumer) behind() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	records, bytes := int64(0), int64(0)
	for _, l := range c.lanes {
		if s := l.base(); !s.paused.Load() {
			records += s.held.Load()
			bytes += s.heldBytes.Load()
		}
	}
	return 2*records > int64(c.cfg.MaxInFlight) || 2*bytes > c.cfg.MaxInFlightBytes
}

// letGo tells breathe that messages are done with.
func (c *Consumer) letGo() {
	if !c.breathing.Load() {
		return
	}
	select {
	case c.released <- struct{}{}:
	default:
	}
}

// take hands a batch to its lane.
func (c *Consumer) take(b Batch) {
	c.mu.Lock()
	l := c.lanes[b.Partition]
	c.mu.Unlock()
	if l == nil {
		c.log.Warn("records of a partition that is not this member's are not handled", slog.String("topic", b.Topic),
			slog.Int("partition", int(b.ID)))
		return
	}
	s := l.base()
	s.end.Store(b.End)
	if b.Missed > 0 {
		s.route.counts.missed.Add(float64(b.Missed))
		c.log.Error("records were deleted before they were read", slog.String("topic", b.Topic), slog.Int("partition", int(b.ID)),
			slog.Int64("missed", b.Missed))
	}
	if len(b.Messages) > 0 {
		l.push(b)
	}
}

// goodbye is the least time for the last commit, and the most for leaving the group. A commit waits for a rebalance
// that is under way, and so it may also use what handlers left of StopTimeout.
const goodbye = 5 * time.Second

// stop ends all lanes and leaves the group. Lanes stay on the list until the last commit is over, so that a partition
// that is revoked meanwhile waits for its handlers and its own last commit, instead of being given away under them.
func (c *Consumer) stop() error {
	c.mu.Lock()
	c.stopped = true
	lanes := make([]lane, 0, len(c.lanes))
	for _, l := range c.lanes {
		lanes = append(lanes, l)
	}
	c.mu.Unlock()
	last := time.Now().Add(c.cfg.StopTimeout + goodbye)
	abandoned := c.end(lanes, c.cfg.StopTimeout)
	err := c.commit(nil, max(time.Until(last), goodbye)) // of the partitions that were neither revoked nor lost meanwhile
	c.mu.Lock()
	lanes = c.remove(nil)
	c.mu.Unlock()
	for _, l := range lanes {
		c.forget(l.base())
	}
	ctx, cancel := context.WithTimeout(context.Background(), goodbye)
	defer cancel()
	if cerr := c.cfg.Client.Close(ctx); cerr != nil {
		err = errors.Join(err, fmt.Errorf("leave the group: %w", cerr))
	}
	if abandoned > 0 {
		err = errors.Join(err, fmt.Errorf("%d partitions were left with a handler that did not end within %v after its context had",
			abandoned, grace))
	}
	if err != nil {
		return fmt.Errorf("consumer: stop: %w", err)
	}
	return nil
}

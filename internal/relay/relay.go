package relay

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"

	"github.com/postrider/postrider/internal/loop"
)

// Config is what a Relay is made of.
type Config struct {
	// Store is the database. Required.
	Store Store
	// OwnTopic says what a topic that Postrider itself writes is for, for example dead letters; empty for all others.
	// Services may not write to these topics. Defaults to none.
	OwnTopic func(topic string) string
	// Allowed reports whether events of this outbox may go to a topic. Other events are given up with
	// CodeTopicNotAllowed. Defaults to every topic.
	Allowed func(topic string) bool
	// Source is the name of the outbox, which records and dead letters carry in message.HeaderSource. Defaults to "": they
	// have no such header.
	Source string
	// Publisher is the broker. Required.
	Publisher Publisher
	// Worker names this relay to operators. New appends a random part, so that a relay that was
	// restarted under the same name is not taken for the one that died. Defaults to host:pid.
	Worker string
	// BatchSize is the most events in one batch. Defaults to 5000.
	BatchSize int
	// BatchBytes is about how many bytes of keys and payloads one batch has at most; one event goes in any case. Defaults
	// to 64 MiB.
	BatchBytes int64
	// Dispatches is how many batches of events that come back behind holds are at the brokers at once at most, beside the
	// one of the log. Defaults to 16.
	Dispatches int
	// TopicSettings returns the rules for a topic; it is called once for each topic that is met. Defaults
	// to the zero TopicSettings for all, which stands for their defaults.
	TopicSettings func(topic string) TopicSettings
	// PublishTimeout bounds the wait for acknowledgements of one batch. An event whose outcome is not known by then holds
	// its partition, or its topic where the partition is not known. PublishTimeout must stay below the database's
	// idle_in_transaction_session_timeout. Defaults to 10s.
	PublishTimeout time.Duration
	// IdlePollMin and IdlePollMax bound the pause between polls when there is nothing to do. The reads of a
	// relay that finds a few events each time begin IdlePollMin apart, and up to ten times that where many events
	// come: with less of it events go sooner and cost more, here and in the database. Default to 2ms and 50ms.
	IdlePollMin, IdlePollMax time.Duration
	// Retention says how long rows stay that are not needed any more. Defaults to the defaults of its fields.
	Retention Retention
	// Notifier lets writers wake this relay when it is idle. Defaults to none: it polls.
	Notifier Notifier
	// IdlePollNotified is the longest pause between polls while the notifier works and writers notify.
	// Defaults to 500ms.
	IdlePollNotified time.Duration
	// Rests has the relay rest while there is little to do: one statement, up to IdlePollMax after the one before, looks for
	// all of its loops, and what is kept longer than needed goes less often. What people ask then waits up to IdlePollMax, and ten
	// times as long where nothing waits in the outbox.
	// Defaults to false: each loop looks for itself.
	Rests bool
	// Neighbours are the relays of this process: the more of them find events, the further apart each looks. Defaults to none.
	Neighbours *Neighbours
	// Logger defaults to one that discards.
	Logger *slog.Logger
	// LogActions writes a line to Logger about each call of an action: ProcessPending, ProcessRetries, Cleanup.
	// Defaults to false.
	LogActions bool
	// Registerer receives the metrics. Defaults to none.
	Registerer prometheus.Registerer
	// Observer is told how the relay does. Defaults to none.
	Observer Observer
	// TracerProvider receives spans: of batches, and of events whose writers gave them the traceparent of a trace
	// that is recorded. Then the record's traceparent is the span of publishing it. Defaults to none.
	TracerProvider trace.TracerProvider
}

// Observer is told how a relay does, from any goroutine. It must not block.
type Observer interface {
	// Leads is told that a term begins, and that it is over.
	Leads(leads bool)
	// Worked is told the error of each cycle of a loop that fails, and nil when the loop works again.
	Worked(loop string, err error)
}

// unobserved is the Observer where there is none.
type unobserved struct{}

func (unobserved) Leads(bool)           {}
func (unobserved) Worked(string, error) {}

func (c Config) withDefaults() Config {
	if c.Worker == "" {
		host, err := os.Hostname()
		if err != nil {
			host = "unknown"
		}
		c.Worker = fmt.Sprintf("%s:%d", host, os.Getpid())
	}
	c.Worker += ":" + uuid.NewString()[:8]
	if c.BatchSize == 0 {
		c.BatchSize = 5000
	}
	if c.BatchBytes == 0 {
		c.BatchBytes = 64 << 20
	}
	if c.Dispatches == 0 {
		c.Dispatches = 16
	}
	if c.TopicSettings == nil {
		c.TopicSettings = func(string) TopicSettings { return TopicSettings{} }
	}
	if c.PublishTimeout == 0 {
		c.PublishTimeout = 10 * time.Second
	}
	if c.IdlePollMin == 0 {
		c.IdlePollMin = 2 * time.Millisecond
	}
	if c.IdlePollMax == 0 {
		c.IdlePollMax = 50 * time.Millisecond
	}
	if c.Observer == nil {
		c.Observer = unobserved{}
	}
	c.Retention = c.Retention.withDefaults()
	if c.IdlePollNotified == 0 {
		c.IdlePollNotified = 500 * time.Millisecond
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	c.Logger = c.Logger.With("component", "relay", "worker", c.Worker)
	return c
}

func (c Config) validate() error {
	switch {
	case c.Store == nil:
		return errors.New("relay: Store is required")
	case c.Publisher == nil:
		return errors.New("relay: Publisher is required")
	case c.Dispatches < 1:
		return fmt.Errorf("relay: Dispatches is %d, it must be positive", c.Dispatches)
	case c.BatchBytes < 1:
		return fmt.Errorf("relay: BatchBytes is %d, it must be positive", c.BatchBytes)
	case c.BatchSize < 1:
		return fmt.Errorf("relay: BatchSize is %d, it must be positive", c.BatchSize)
	case c.PublishTimeout < 0:
		return fmt.Errorf("relay: PublishTimeout is %v, it must be positive", c.PublishTimeout)
	case c.IdlePollMin < 0 || c.IdlePollMax < c.IdlePollMin:
		return fmt.Errorf("relay: IdlePollMin is %v and IdlePollMax %v, they must be positive and in this order", c.IdlePollMin, c.IdlePollMax)
	case c.IdlePollNotified < 0:
		return fmt.Errorf("relay: IdlePollNotified is %v, it must be positive", c.IdlePollNotified)
	}
	if err := c.Retention.Validate(); err != nil {
		return fmt.Errorf("relay: Retention: %w", err)
	}
	return nil
}

// Relay carries outbox events to Kafka until its context ends.
type Relay struct {
	given   Config // what New was given
	cfg     Config
	metrics *metrics
	tracing *tracing
	idle    *idle
	brokers brokers
	rules   rules
	topics  sync.Map // *TopicSettings by topic
	// reminder belongs to the reader.
	reminder reminder
	// letters paces the loop that sends dead letters, which has little to do and pauses longer.
	letters *idle
	rest    rest
	// holdWake has a value when holds are to be looked at.
	holdWake chan struct{}
}

// New checks the configuration and returns a relay that does nothing until Run.
func New(cfg Config) (*Relay, error) {
	given := cfg
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	watchNotifier(cfg.Registerer, cfg.Notifier)
	r := &Relay{given: given, cfg: cfg, metrics: newMetrics(cfg.Registerer), tracing: newTracing(cfg.TracerProvider),
		idle:    newIdle(cfg.IdlePollMin, cfg.IdlePollMax, cfg.BatchSize/2).withNotifier(cfg.Notifier, cfg.IdlePollNotified),
		letters: newIdle(lettersSoon, lettersPause, 0), holdWake: make(chan struct{}, 1)}
	r.letters.rest, r.idle.neighbours = &r.rest, cfg.Neighbours
	if cfg.Rests {
		r.idle.pause = restFrom // many may begin at once, and most have nothing to do
	}
	own := cfg.OwnTopic
	if own == nil {
		own = func(string) string { return "" }
	}
	r.rules = rules{settings: r.settings, check: cfg.Publisher.Check, partition: r.partitionOf, own: own, allowed: cfg.Allowed, sourceName: cfg.Source, breakers: newBreakers()}
	return r, nil
}

// settings returns the rules for a topic. Rules that are out of range are replaced by the defaults, because events that
// are already in the outbox must not wait for a correction.
func (r *Relay) settings(topic string) *TopicSettings {
	if s, ok := r.topics.Load(topic); ok {
		return s.(*TopicSettings)
	}
	s := r.cfg.TopicSettings(topic)
	if err := s.Validate(); err != nil {
		r.cfg.Logger.Error("the settings of a topic are out of range, the defaults are used", "topic", topic, "err", err)
		s = TopicSettings{}
	}
	s = s.withDefaults()
	kept, _ := r.topics.LoadOrStore(topic, &s)
	return kept.(*TopicSettings)
}

// partitionOf returns on which of n partitions the key of an event is, as it is sent.
func (r *Relay) partitionOf(e *Event, n int32) int32 {
	key := e.Key
	if w := r.settings(e.Topic).Wire; w != nil && !e.asSent() {
		if sent, err := w.RecordKey(key); err == nil { // with an error the event is not sent
			key = sent
		}
	}
	return r.cfg.Publisher.Partition(key, n)
}

// Wake has the relay look at once whether there is something to do. Another part of the process has changed the outbox.
func (r *Relay) Wake() {
	r.rest.stir()
	r.idle.wakeUp()
	r.letters.wakeUp()
	r.wakeHolds()
}

// Run works until ctx ends. Then it reads nothing more, finishes the batches in hand within
// PublishTimeout and the time to settle them, and returns nil.
func (r *Relay) Run(ctx context.Context) error {
	r.cfg.Logger.Info("relay started", "batch_size", r.cfg.BatchSize)
	var wg sync.WaitGroup
	if r.cfg.Notifier != nil {
		wg.Go(func() { r.cfg.Notifier.Listen(ctx) })
	}
	wg.Go(func() { r.runLeader(ctx) })
	wg.Go(func() { r.loop(ctx, "dead_letter", r.sendLetters, r.letters) })
	wg.Go(func() {
		pace := newIdle(time.Second, time.Minute, 0)
		if r.cfg.Rests {
			pace = newIdle(restingPurge, restingPurgeMost, 0)
			_ = loop.Sleep(ctx, rand.N(restingPurge)) // not all of many at once
		}
		r.loop(ctx, "retention", r.purge, pace)
	})
	wg.Go(func() { r.loop(ctx, "backlog", r.readBacklog, newIdle(backlogEvery, backlogEvery, 0)) })
	wg.Wait()
	r.cfg.Logger.Info("relay stopped")
	return nil
}

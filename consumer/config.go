package consumer

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"

	"github.com/postrider/postrider/message/dialect"
)

// Config configures a Consumer.
type Config struct {
	// Client reads and writes; see package consumer/kafka. Required.
	Client Client
	// Group is the consumer group; the names of its retry topics have it, so it has at most 249 bytes and a topic
	// name's characters. Required.
	Group string
	// Topics are the topics to read; their retry topics are read as well. Required.
	Topics []string
	// Policy is the policy of every topic that Policies does not name. Defaults to retry tiers and postrider.consumer.dlq; see
	// Policy.
	Policy Policy
	// Policies are the policies of single topics. A field that is left out here has its own default, and not the value
	// of Config.Policy. Defaults to none.
	Policies map[string]Policy
	// Middleware wraps the handler, the first outermost. A BatchHandler has none. Defaults to none.
	Middleware []Middleware
	// Classify are functions that are asked in turn about an error that is marked neither Permanent nor Transient,
	// until one does not answer Unclassified. An error that none of them knows is transient, but for an ErrUndecodable.
	// Defaults to none.
	Classify []func(error) Class
	// Concurrency is how many messages are handled at once, over all partitions, in order per partition and key; a
	// message without a key has no order. 0 handles one at a time per partition, in order of offset; a topic in
	// the mode Blocking always does. Defaults to 0.
	Concurrency int
	// Batch is how many messages a BatchHandler gets at most; a batch waits for no message that has not been read yet.
	// Defaults to 100.
	Batch int
	// MaxInFlight and MaxInFlightBytes bound the messages that were read and are not done. Each partition has an equal
	// share, and fetching it pauses while the share is used up. The records of one fetch may come on top. Default to
	// 100000 and 64 MiB.
	MaxInFlight      int
	MaxInFlightBytes int64
	// MaxAhead is how many messages of a partition may be read, counted from the oldest that is not done; then fetching
	// the partition pauses. After a crash up to this many may be handled twice. Defaults to 10000.
	MaxAhead int
	// CommitInterval is the time between commits of offsets. Defaults to 1s.
	CommitInterval time.Duration
	// RevokeTimeout bounds how long a rebalance waits for messages in hand; it must be shorter than the group's
	// rebalance timeout. Then their contexts end, and they will be handled again elsewhere. Defaults to 10s.
	RevokeTimeout time.Duration
	// StopTimeout bounds how long Run waits for messages in hand when its context has ended. Then their contexts
	// end. Defaults to 20s.
	StopTimeout time.Duration
	// DeadLetterHeaders are the dialects of dead letters. With connect and without postrider a dead letter has the
	// timestamp of its origin, as Connect's have, because no header says it; the dead-letter topic must then keep
	// CreateTime, and its retention counts from that time. Defaults to postrider and spring.
	DeadLetterHeaders []dialect.Writer
	// OnBreaker is called when a topic pauses, at every attempt that failed, and when it goes on; see Breaker. It must
	// return soon. Defaults to none.
	OnBreaker func(BreakerEvent)
	// Logger receives the consumer's log, and its client's where that has no logger of its own. Defaults to one that
	// discards.
	Logger *slog.Logger
	// Registerer receives the metrics postrider_consumer_*; a registry takes the metrics of one consumer. Defaults to
	// none, the metrics are then not exported.
	Registerer prometheus.Registerer
	// TracerProvider receives a span for each attempt, in the trace that the message's header traceparent names, or in
	// a new one, and for each record that is written, whose traceparent is then that span. Handlers find the span of
	// the attempt in their context. Defaults to none.
	TracerProvider trace.TracerProvider
}

func (c Config) withDefaults() Config {
	setDefault(&c.Batch, 100)
	setDefault(&c.MaxInFlight, 100_000)
	setDefault(&c.MaxInFlightBytes, 64<<20)
	setDefault(&c.MaxAhead, 10_000)
	setDefault(&c.CommitInterval, time.Second)
	setDefault(&c.RevokeTimeout, 10*time.Second)
	setDefault(&c.StopTimeout, 20*time.Second)
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	c.Logger = c.Logger.With(slog.String("component", "consumer"), slog.String("group", c.Group))
	return c
}

func (c *Config) validate(h Handler) error {
	var errs []error
	fail := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if h == nil {
		fail("the handler is nil")
	}
	if c.Client == nil {
		fail("Client is required")
	}
	if c.Group == "" || len(c.Group) > dialect.MaxNameBytes || !utf8.ValidString(c.Group) || strings.ContainsRune(c.Group, 0) {
		fail("Group is %.80q: 1 to %d bytes of UTF-8 without NUL are required", c.Group, dialect.MaxNameBytes)
	}
	if len(c.Topics) == 0 {
		fail("Topics is required")
	}
	for _, f := range []struct {
		name  string
		value int64
		least int64
	}{
		{"Concurrency", int64(c.Concurrency), 0}, {"Batch", int64(c.Batch), 1}, {"MaxInFlight", int64(c.MaxInFlight), 1},
		{"MaxInFlightBytes", c.MaxInFlightBytes, 1}, {"MaxAhead", int64(c.MaxAhead), 1},
		{"CommitInterval", int64(c.CommitInterval), 1}, {"RevokeTimeout", int64(c.RevokeTimeout), 1}, {"StopTimeout", int64(c.StopTimeout), 1},
	} {
		if f.value < f.least {
			fail("%s is %d, it must be at least %d", f.name, f.value, f.least)
		}
	}
	for _, w := range c.DeadLetterHeaders {
		if !knownWriter(w) {
			fail("DeadLetterHeaders has %q, which is none of %v", w, dialect.Writers())
		}
	}
	if _, batch := h.(BatchHandler); batch {
		if len(c.Middleware) > 0 {
			fail("Middleware sees single messages, and the handler takes batches: wrap the handler itself")
		}
		if c.Concurrency > 0 {
			fail("Concurrency is %d, and the handler takes batches, which are in order of offset: leave it 0", c.Concurrency)
		}
	}
	return errors.Join(errs...)
}

func knownWriter(w dialect.Writer) bool {
	for _, known := range dialect.Writers() {
		if w == known {
			return true
		}
	}
	return false
}

package devstack

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"sync"
	"syscall"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// DefaultPartitions is how many partitions a topic of the embedded broker gets
// when its creator does not say.
const DefaultPartitions = 6

// brokerConfigs are the broker's settings. They go before the settings that
// a data folder remembers.
func brokerConfigs() map[string]string {
	return map[string]string{
		// A segment in memory is one slice that grows by copying; at kfake's
		// 100 MB the copying costs more than everything else.
		"log.segment.bytes": "4194304",
		// Apache Kafka's default for the largest batch of a producer, so that
		// a batch that is too large here is too large in production.
		"message.max.bytes": "1048588",
	}
}

// BrokerOptions says how the embedded Kafka broker runs.
type BrokerOptions struct {
	// Dir keeps topics, records and group offsets between runs, also when the
	// process is killed; a power failure may cost the last writes. One process
	// at a time uses it. Defaults to empty: everything is kept in memory and
	// lost at the end.
	Dir string

	// Port is the port on 127.0.0.1. Defaults to 0, a free one.
	Port int

	// Partitions is the number of partitions of a topic whose creator does not
	// say. Topics that exist keep theirs. Defaults to 6.
	Partitions int32

	// Log receives the broker's warnings and errors, for example that a disk is
	// full. Defaults to nil, which discards them.
	Log *slog.Logger
}

// Broker is an embedded Kafka broker, for development: it speaks Kafka's
// protocol to any client on this machine, idempotent and transactional
// producers and consumer groups included, and replicates nothing.
//
// As with Apache Kafka's auto.create.topics.enable, a topic is created when a
// client first uses it and asks for its creation: Java and librdkafka producers
// do by default, franz-go with kgo.AllowAutoTopicCreation.
//
// Records are kept until their topic's retention, when it has one: with neither
// retention.ms nor retention.bytes set on a topic nothing is ever removed.
type Broker struct {
	cluster *kfake.Cluster
	addr    string
	log     *brokerLog
	unlock  func() error
	once    sync.Once
	err     error // of the first Close
}

// StartBroker starts the broker and returns when it listens. ctx bounds the
// start only; the caller ends the broker with [Broker.Close].
func StartBroker(ctx context.Context, opts BrokerOptions) (_ *Broker, err error) {
	if opts.Partitions == 0 {
		opts.Partitions = DefaultPartitions
	}
	if err := opts.validate(); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("start the embedded Kafka broker: %w", context.Cause(ctx))
	}
	log := &brokerLog{log: opts.Log}
	kopts := []kfake.Opt{
		kfake.Ports(opts.Port),
		kfake.ClusterID("postrider-dev"),
		kfake.ListenFn(guardListen),
		kfake.DefaultNumPartitions(int(opts.Partitions)),
		kfake.BrokerConfigs(brokerConfigs()),
		kfake.WithLogger(log),
	}
	unlock := func() error { return nil }
	if opts.Dir != "" {
		if err := os.MkdirAll(opts.Dir, 0o755); err != nil {
			return nil, fmt.Errorf("make the embedded Kafka broker's folder: %w", err)
		}
		if unlock, err = lockDir(opts.Dir); err != nil {
			return nil, err
		}
		kopts = append(kopts, kfake.DataDir(opts.Dir))
	}
	cluster, err := kfake.NewCluster(kopts...)
	if err != nil {
		return nil, errors.Join(startError(err, opts), unlock())
	}
	control(cluster, kmsg.Metadata, createOnUse(cluster))
	control(cluster, kmsg.CreateTopics, refuseNames)
	return &Broker{cluster: cluster, addr: cluster.ListenAddrs()[0], log: log, unlock: unlock}, nil
}

func (o BrokerOptions) validate() error {
	switch {
	case o.Port < 0 || o.Port > 65535:
		return fmt.Errorf("embedded Kafka broker: port %d: give one from 1 to 65535, or 0 for a free one", o.Port)
	case o.Partitions < 0:
		return fmt.Errorf("embedded Kafka broker: %d partitions per topic: give 1 or more, or 0 for %d", o.Partitions, DefaultPartitions)
	default:
		return nil
	}
}

// startError says what to do about a start that failed.
func startError(err error, opts BrokerOptions) error {
	var listening *net.OpError
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return fmt.Errorf("start the embedded Kafka broker: port %d is in use; choose another one, or 0 for a free one: %w", opts.Port, err)
	case errors.As(err, &listening) || opts.Dir == "":
		return fmt.Errorf("start the embedded Kafka broker: %w", err)
	default:
		return fmt.Errorf("start the embedded Kafka broker: the data in %s cannot be used; remove the folder to start empty: %w", opts.Dir, err)
	}
}

// Addr is the address that clients connect to, host:port.
func (b *Broker) Addr() string { return b.addr }

// Close ends the broker, writes what Dir still lacks, and gives the folder
// free. Connections break. Further calls return the result of the first.
func (b *Broker) Close() error {
	b.once.Do(func() {
		b.log.collect()
		b.cluster.Close()
		b.err = errors.Join(b.log.collected(), b.unlock())
	})
	return b.err
}

// brokerLog passes kfake's warnings and errors on. It drops the levels
// below them, which report each request. kfake has no other way to say that its
// last writes failed, so they are collected from here.
type brokerLog struct {
	log        *slog.Logger // nil for none
	mu         sync.Mutex
	collecting bool
	errs       []error
}

// Logf is called by kfake.
func (l *brokerLog) Logf(level kfake.LogLevel, format string, args ...any) {
	if level != kfake.LogLevelError && level != kfake.LogLevelWarn {
		return
	}
	text := fmt.Sprintf(format, args...)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.collecting && level == kfake.LogLevelError {
		l.errs = append(l.errs, fmt.Errorf("close the embedded Kafka broker: %s", text))
	}
	switch {
	case l.log == nil:
	case level == kfake.LogLevelError:
		l.log.Error("embedded Kafka broker: " + text)
	default:
		l.log.Warn("embedded Kafka broker: " + text)
	}
}

func (l *brokerLog) collect() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.collecting = true
}

func (l *brokerLog) collected() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return errors.Join(l.errs...)
}

package kafka

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/postrider/postrider/consumer"
	"github.com/postrider/postrider/internal/kgolog"
)

// Pace of looking at the cluster.
const (
	// metadataMinAge bounds how long a new leader stays unnoticed; the client's default is 5 s.
	metadataMinAge = 250 * time.Millisecond
	// metadataMaxAge bounds how long added partitions, and topics that were missing, stay unnoticed.
	metadataMaxAge = 30 * time.Second
	// fetchMaxWait is how long a broker may wait for records; newly assigned partitions wait behind it.
	fetchMaxWait = 500 * time.Millisecond
)

// Config configures a Client. The consumer's own Config says which topics are read.
type Config struct {
	// Brokers are the addresses, host:port, to learn the cluster from. Required.
	Brokers []string
	// ClientID names the client in the brokers' logs. Defaults to the group.
	ClientID string
	// CreateTopics creates missing retry topics, with as many partitions as the topic that they belong to, and
	// missing dead-letter topics, as the broker does by default, both with its default replication. Without it
	// opening fails and names them. Defaults to false.
	CreateTopics bool
	// MaxFetchBytes bounds the bytes of one fetch from a broker, and MaxPartitionFetchBytes its bytes of one partition;
	// a single larger batch is fetched all the same. A fetch per broker is held in memory beside the messages that the
	// consumer holds. Default to 16 MiB and 1 MiB.
	MaxFetchBytes, MaxPartitionFetchBytes int32
	// MaxMessageBytes is the largest record batch to write; it should be max.message.bytes of the retry and
	// dead-letter topics. Defaults to 1048588, Kafka's default.
	MaxMessageBytes int32
	// SessionTimeout is how long the group waits for a member that is silent before it gives its partitions away;
	// heartbeats come at a fifth of it. It is at least 6s on a broker with default settings. Defaults to 15s.
	SessionTimeout time.Duration
	// RebalanceTimeout is how long the group waits for members to give partitions back; it must be longer than the
	// consumer's RevokeTimeout, by some seconds. Defaults to 60s.
	RebalanceTimeout time.Duration
	// Logger receives the client's log. Defaults to the logger of the consumer.
	Logger *slog.Logger
	// Options are further options of the client, for example TLS and SASL. They cannot change what the guarantees of
	// the consumer rest on: the group, the offsets and their commits, acknowledgements. Defaults to none.
	Options []kgo.Opt
}

func (c Config) withDefaults() Config {
	set(&c.MaxFetchBytes, 16<<20)
	set(&c.MaxPartitionFetchBytes, 1<<20)
	set(&c.MaxMessageBytes, 1048588)
	set(&c.SessionTimeout, 15*time.Second)
	set(&c.RebalanceTimeout, time.Minute)
	if c.Logger != nil {
		c.Logger = c.Logger.With(slog.String("component", "consumer-kafka"))
	}
	return c
}

func set[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

func (c Config) validate() error {
	var errs []error
	fail := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if len(c.Brokers) == 0 {
		fail("Brokers is required")
	}
	if c.MaxFetchBytes < 1 || c.MaxPartitionFetchBytes < 1 || c.MaxPartitionFetchBytes > c.MaxFetchBytes {
		fail("MaxFetchBytes is %d and MaxPartitionFetchBytes %d: both must be positive, and the first not the smaller", c.MaxFetchBytes,
			c.MaxPartitionFetchBytes)
	}
	if c.MaxMessageBytes < 4096 || c.MaxMessageBytes > 1<<30 {
		fail("MaxMessageBytes is %d, it must be between 4096 and 1 GiB", c.MaxMessageBytes)
	}
	if c.SessionTimeout < time.Second || c.RebalanceTimeout < c.SessionTimeout/5 {
		fail("SessionTimeout is %v and RebalanceTimeout %v: the first must be at least 1s, and the second at least a fifth of it",
			c.SessionTimeout, c.RebalanceTimeout)
	}
	return errors.Join(errs...)
}

// member are the options of the group's member. Ours come last, so that they win.
func (c Config) member(s consumer.Subscription, own []kgo.Opt) []kgo.Opt {
	opts := append([]kgo.Opt{
		kgo.ClientID(c.clientID(s.Group)),
		kgo.WithLogger(kgolog.New(c.Logger)),
		kgo.MetadataMinAge(metadataMinAge),
		kgo.MetadataMaxAge(metadataMaxAge),
		kgo.FetchMaxWait(fetchMaxWait),
		kgo.DisableClientMetrics(),
	}, c.Options...)
	opts = append(opts,
		kgo.SeedBrokers(c.Brokers...),
		kgo.ConsumerGroup(s.Group),
		kgo.ConsumeTopics(s.Topics...),
		kgo.Balancers(kgo.CooperativeStickyBalancer()),
		kgo.FetchMaxBytes(c.MaxFetchBytes),
		kgo.FetchMaxPartitionBytes(c.MaxPartitionFetchBytes),
		kgo.SessionTimeout(c.SessionTimeout),
		kgo.HeartbeatInterval(c.SessionTimeout/5),
		kgo.RebalanceTimeout(c.RebalanceTimeout),
		kgo.DisableAutoCommit(),
		kgo.BlockRebalanceOnPoll(),
		// Never skip a message: begin at the start, and there again when offsets are gone. The client's default for
		// the second is one minute back.
		kgo.ConsumeStartOffset(kgo.NewOffset().AtStart()),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		// A message of an aborted transaction was never sent.
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
	)
	return append(opts, own...)
}

// producer are the options of the client that writes. No record is ever cancelled or given up by it: that is how
// acknowledged records get lost.
func (c Config) producer(group string) []kgo.Opt {
	opts := append([]kgo.Opt{
		kgo.ClientID(c.clientID(group)),
		kgo.WithLogger(kgolog.New(c.Logger)),
		kgo.MetadataMinAge(metadataMinAge),
		kgo.DisableClientMetrics(),
	}, c.Options...)
	return append(opts,
		kgo.SeedBrokers(c.Brokers...),
		kgo.RequiredAcks(kgo.AllISRAcks()), // with idempotence, the client's default
		kgo.ProducerBatchMaxBytes(c.MaxMessageBytes),
		kgo.BrokerMaxWriteBytes(max(100<<20, c.MaxMessageBytes+1<<20)),
		kgo.MaxBufferedRecords(1<<20), // the consumer bounds its messages in hand
		kgo.UnknownTopicRetries(1),
		kgo.ProducerLinger(0),
		kgo.RecordPartitioner(kgo.StickyKeyPartitioner(nil)), // murmur2, as the Java client and the relay
	)
}

func (c Config) clientID(group string) string {
	if c.ClientID != "" {
		return c.ClientID
	}
	return group
}

// Package kafka is the relay's broker adapter: an idempotent producer with acks=all, and the one
// function that decides what its errors mean.
package kafka

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/postrider/postrider/internal/kgolog"
	"github.com/postrider/postrider/internal/relay"
)

// DefaultMaxMessageBytes is Kafka's own default of max.message.bytes.
const DefaultMaxMessageBytes = 1048588

// MinMaxMessageBytes is the least that Config.MaxMessageBytes may be: a dead letter that only refers to its
// event always fits.
const MinMaxMessageBytes = 4096

// maxMaxMessageBytes is the most that the client can send, 1 GiB, less room for the rest of a request.
const maxMaxMessageBytes = 1<<30 - requestRoom

// Config is what a Publisher is made of.
type Config struct {
	// Brokers are seed addresses, host:port. Required.
	Brokers []string
	// ClientID is what the broker logs. Defaults to "postrider".
	ClientID string
	// MaxMessageBytes is the largest record batch to send, in bytes; it should be the topics'
	// max.message.bytes. Larger events become dead letters. At least 4096. Defaults to 1048588, Kafka's
	// default.
	MaxMessageBytes int
	// MaxRequestBytes is the largest request to a broker, in bytes; it should be the brokers' socket.request.max.bytes. At
	// least 65536. An event must fit into it, beside 16384 bytes. If brokers close the connection on large requests,
	// they are made smaller. Defaults to 100 MiB, Kafka's default.
	MaxRequestBytes int
	// Compression is none, gzip, snappy, lz4 or zstd. Defaults to none.
	Compression string
	// AllowTopicCreation lets a publish create a missing topic, if the broker allows it too.
	// Defaults to false: a missing topic is held and reported.
	AllowTopicCreation bool
	// Logger defaults to one that discards.
	Logger *slog.Logger
	// Options are added to the client's, for TLS and SASL, and for hooks. A hook may put a context of its own around that
	// of a record, and none that can end.
	Options []kgo.Opt
}

// Publisher implements relay.Publisher on franz-go.
//
// Each batch is produced on a client of its own with manual flushing: all its records are buffered
// before the first is sent. The client fails all buffered records of a partition when one of them
// fails, and only that keeps the order of a key: a record handed over after the failure would go out.
type Publisher struct {
	cfg  Config
	opts []kgo.Opt
	last lastError

	mu         sync.Mutex
	idle       []*kgo.Client
	own        Share               // of callers that have none of their own
	all        map[*kgo.Client]int // by client the generation that it belongs to
	met        map[*kgo.Client]*met
	generation int // clients of other generations are not used again
	closed     bool
	pending    map[relay.MessageID]*flight
	pruned     time.Time    // when flights kept for too long were last looked for
	flights    atomic.Int64 // len(pending), read without the lock
	stuck      stuck
	sizes      sizes
	batches    atomic.Int64
	delivered  atomic.Pointer[[]relay.Outcome] // see allDelivered

	inUse sync.WaitGroup // clients taken and not given back

	maxRequest, maxBatch atomic.Int64 // of clients that are made now, in bytes; see limitRequests
}

// NewPublisher checks the configuration. It does not connect.
func NewPublisher(cfg Config) (*Publisher, error) {
	if len(cfg.Brokers) == 0 {
		return nil, errors.New("kafka: no broker addresses: set kafka brokers to host:port,…")
	}
	if cfg.ClientID == "" {
		cfg.ClientID = "postrider"
	}
	if cfg.MaxMessageBytes == 0 {
		cfg.MaxMessageBytes = DefaultMaxMessageBytes
	}
	if cfg.MaxMessageBytes < MinMaxMessageBytes || cfg.MaxMessageBytes > maxMaxMessageBytes {
		return nil, fmt.Errorf("kafka: MaxMessageBytes is %d, it must be between %d and %d", cfg.MaxMessageBytes, MinMaxMessageBytes,
			maxMaxMessageBytes)
	}
	if cfg.MaxRequestBytes != 0 && (cfg.MaxRequestBytes < MinMaxRequestBytes || cfg.MaxRequestBytes > 1<<30) {
		return nil, fmt.Errorf("kafka: MaxRequestBytes is %d, it must be between %d and %d", cfg.MaxRequestBytes, MinMaxRequestBytes, 1<<30)
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	cfg.Logger = cfg.Logger.With("component", "publisher")
	codec, err := compression(cfg.Compression)
	if err != nil {
		return nil, err
	}
	p := &Publisher{cfg: cfg, own: Share{limit: maxClients}, all: map[*kgo.Client]int{}, met: map[*kgo.Client]*met{}, pending: map[relay.MessageID]*flight{}}
	p.opts = append([]kgo.Opt{
		kgo.SeedBrokers(cfg.Brokers...),
		kgo.ClientID(cfg.ClientID),
		kgo.RequiredAcks(kgo.AllISRAcks()), // with idempotence, kgo's default
		kgo.ProducerBatchCompression(codec...),
		kgo.MaxBufferedRecords(1 << 30), // a batch is bounded when it is read; ErrMaxBuffered would break order
		kgo.ManualFlushing(),
		// A flush does not wait for this. It ends, sooner than nudge does, what nudge is for.
		kgo.ProducerLinger(10 * time.Millisecond),
		kgo.MetadataMinAge(250 * time.Millisecond), // the default makes every leader change cost 5 s
		kgo.MetadataMaxAge(metadataMaxAge),
		kgo.UnknownTopicRetries(1), // each takes 250 ms, and the rest of a batch waits
		kgo.RecordPartitioner(partitioner{p}),
		kgo.DisableClientMetrics(), // pushing them to a broker that is away would hold up Close
		kgo.WithHooks(&p.last, queueHook{}),
		kgo.WithLogger(kgolog.New(cfg.Logger)),
		kgo.ProducerOnDataLossDetected(func(topic string, partition int32) {
			cfg.Logger.Warn("the broker lost track of the producer, sending goes on with a new producer id",
				"topic", topic, "partition", partition)
		}),
	}, cfg.Options...)
	if cfg.AllowTopicCreation {
		p.opts = append(p.opts, kgo.AllowAutoTopicCreation())
	}
	p.limitRequests(cmp.Or(cfg.MaxRequestBytes, DefaultMaxRequestBytes))
	c, err := p.newClient() // finds bad options now
	if err != nil {
		return nil, err
	}
	p.idle = append(p.idle, c)
	return p, nil
}

// sourceClients bounds the producers of one Share that wait for partitions that are away.
const sourceClients = 4

// Share is the use that one source makes of a Publisher, a relay.Publisher of its own. Records of a source that get no answer
// take no more than a few producers, and none from other sources. It needs no closing.
type Share struct {
	*Publisher
	limit int
	left  []*kgo.Client // in use only because records are without an answer, longest first; under the publisher's lock
}

var _ relay.Publisher = (*Share)(nil)

// NewShare returns a share for one more source.
func (p *Publisher) NewShare() *Share { return &Share{Publisher: p, limit: sourceClients} }

// Publish implements relay.Publisher.
func (s *Share) Publish(ctx context.Context, ms []relay.Message) []relay.Outcome {
	return s.publish(ctx, s, ms)
}

func compression(name string) ([]kgo.CompressionCodec, error) {
	switch name {
	case "", "none":
		return []kgo.CompressionCodec{kgo.NoCompression()}, nil
	case "gzip":
		return []kgo.CompressionCodec{kgo.GzipCompression(), kgo.NoCompression()}, nil
	case "snappy":
		return []kgo.CompressionCodec{kgo.SnappyCompression(), kgo.NoCompression()}, nil
	case "lz4":
		return []kgo.CompressionCodec{kgo.Lz4Compression(), kgo.NoCompression()}, nil
	case "zstd":
		return []kgo.CompressionCodec{kgo.ZstdCompression(), kgo.NoCompression()}, nil
	}
	return nil, fmt.Errorf("kafka: compression %q is not one of none, gzip, snappy, lz4, zstd", name)
}

// Close ends all clients and waits for calls that use one. Records without an acknowledgement stay
// unsettled.
func (p *Publisher) Close() {
	p.mu.Lock()
	p.closed = true
	all := p.all
	p.idle, p.all = nil, nil
	p.mu.Unlock()
	for c := range all {
		c.Close()
	}
	p.inUse.Wait()
}

package kafka

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/postrider/postrider/internal/dlq"
	"github.com/postrider/postrider/internal/kgolog"
)

const (
	// DefaultMaxBytes is the default of OriginalsConfig.MaxBytes.
	DefaultMaxBytes = 64 << 20
	// emptyWait is how long a broker may wait for a record that should be there.
	emptyWait = 250 * time.Millisecond
)

// OriginalsConfig is what an Originals needs.
type OriginalsConfig struct {
	// Brokers are the addresses, host:port, to learn the cluster from. Required.
	Brokers []string
	// ClientID is the name under which brokers know this client. Defaults to "postrider-collector".
	ClientID string
	// MaxBytes is about how many bytes of keys and values a Fetch returns at most; records beyond it stay unanswered.
	// Defaults to 64 MiB.
	MaxBytes int
	// Logger receives what the client has to say. Defaults to no logging.
	Logger *slog.Logger
	// Options are further options of the client, for example TLS and SASL. Defaults to none.
	Options []kgo.Opt
}

// Originals reads single records by their places, outside of any group. It is safe for concurrent use.
type Originals struct {
	client *kgo.Client
	admin  *kadm.Client
	max    int
	share  float64 // of the time of a question about groups, how much they have to answer
}

var _ dlq.Originals = (*Originals)(nil)

// NewOriginals returns one that connects when it is used.
func NewOriginals(cfg OriginalsConfig) (*Originals, error) {
	switch {
	case len(cfg.Brokers) == 0:
		return nil, errors.New("originals of dead letters: Brokers is required")
	case cfg.MaxBytes < 0:
		return nil, fmt.Errorf("originals of dead letters: MaxBytes is %d, it must be positive", cfg.MaxBytes)
	}
	if cfg.MaxBytes == 0 {
		cfg.MaxBytes = DefaultMaxBytes
	}
	if cfg.ClientID == "" {
		cfg.ClientID = DefaultGroup
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	client, err := kgo.NewClient(append([]kgo.Opt{
		kgo.ClientID(cfg.ClientID), kgo.MetadataMinAge(metadataMinAge),
		kgo.WithLogger(kgolog.New(cfg.Logger.With(slog.String("component", "dlq-originals")))),
	}, append(cfg.Options, kgo.SeedBrokers(cfg.Brokers...))...)...)
	if err != nil {
		return nil, fmt.Errorf("originals of dead letters: %w", err)
	}
	return &Originals{client: client, admin: kadm.NewClient(client), max: cfg.MaxBytes, share: 0.9}, nil
}

// Close ends the client.
func (o *Originals) Close() { o.client.Close() }

// Fetch implements dlq.Originals. Places are asked one after the other: a batch of the log each.
func (o *Originals) Fetch(ctx context.Context, places []dlq.Place) []dlq.Original {
	all := make([]dlq.Original, len(places))
	topics := dlq.TopicsOf(places)
	there, err := o.admin.Metadata(ctx, topics...)
	retention := o.retention(ctx, topics)
	bytes := 0
	for i, p := range places {
		switch {
		case err != nil:
			all[i] = failed(err)
		case ctx.Err() != nil:
			all[i] = failed(context.Cause(ctx))
		case bytes > o.max:
			all[i] = failed(fmt.Errorf("not asked for: the letters read with it had %d bytes to fetch already", bytes))
		default:
			all[i] = o.one(ctx, there.Topics[p.Topic], p)
			bytes += len(all[i].Key) + len(all[i].Value)
		}
		all[i].Retention = -1
		if kept, known := retention[p.Topic]; known {
			all[i].Retention = kept
		}
	}
	return all
}

// failed is the answer that an error is.
func failed(err error) dlq.Original {
	state := dlq.OriginalUnanswered
	switch {
	case errors.Is(err, kerr.UnknownTopicOrPartition), errors.Is(err, kerr.UnknownTopicID):
		state = dlq.OriginalNoTopic
	case errors.Is(err, kerr.TopicAuthorizationFailed):
		state = dlq.OriginalRefused
	case errors.Is(err, kerr.LeaderNotAvailable), errors.Is(err, kerr.NotLeaderForPartition), errors.Is(err, kerr.FencedLeaderEpoch),
		errors.Is(err, kerr.UnknownLeaderEpoch), errors.Is(err, kerr.OffsetNotAvailable), errors.Is(err, kerr.KafkaStorageError):
		state = dlq.OriginalNoLeader
	}
	return dlq.Original{State: state, Err: err}
}

// one asks for one record.
func (o *Originals) one(ctx context.Context, topic kadm.TopicDetail, p dlq.Place) dlq.Original {
	partition, there := topic.Partitions[p.Partition]
	switch {
	case topic.Err != nil:
		return failed(topic.Err)
	case !there:
		return dlq.Original{State: dlq.OriginalAbsent, Err: fmt.Errorf("topic %s has %d partitions", p.Topic, len(topic.Partitions))}
	case partition.Leader < 0:
		return failed(kerr.LeaderNotAvailable)
	case partition.Err != nil && !errors.Is(partition.Err, kerr.ReplicaNotAvailable):
		return failed(partition.Err)
	}
	for {
		f, empty, err := o.fetch(ctx, topic, partition.Leader, p)
		switch {
		case errors.Is(err, kerr.OffsetOutOfRange):
			return o.outside(ctx, p)
		case err != nil:
			return failed(err)
		case len(f.Records) > 0 && f.Records[0].Offset == p.Offset:
			return original(f.Records[0])
		case !empty:
			return dlq.Original{State: dlq.OriginalCompacted}
		case f.HighWatermark <= p.Offset:
			return dlq.Original{State: dlq.OriginalAbsent, Err: fmt.Errorf("the partition ends at offset %d", f.HighWatermark)}
		}
	}
}

// original is a record that is where it should be.
func original(r *kgo.Record) dlq.Original {
	if r.Attrs.IsControl() {
		return dlq.Original{State: dlq.OriginalMarker}
	}
	read := record(r)
	return dlq.Original{State: dlq.OriginalFetched, Key: read.Key, Value: read.Value, Headers: read.Headers, Timestamp: read.Timestamp}
}

// fetch asks the leader for the batch with the record, committed or not: the consumer that failed at the record has read
// it. It says whether the answer had no batch at all.
func (o *Originals) fetch(ctx context.Context, topic kadm.TopicDetail, leader int32, p dlq.Place) (f kgo.FetchPartition, empty bool, err error) {
	req := kmsg.NewPtrFetchRequest()
	req.MaxWaitMillis, req.MinBytes, req.MaxBytes = int32(emptyWait.Milliseconds()), 1, 1<<20
	t := kmsg.NewFetchRequestTopic()
	t.Topic, t.TopicID = topic.Topic, topic.ID
	part := kmsg.NewFetchRequestTopicPartition()
	part.Partition, part.FetchOffset = p.Partition, p.Offset
	part.PartitionMaxBytes = 1 // a broker sends the first batch whole, however large
	t.Partitions = append(t.Partitions, part)
	req.Topics = append(req.Topics, t)
	rp, err := askLeader(ctx, o.client, leader, req)
	if err != nil {
		return f, false, err
	}
	f, _ = kgo.ProcessFetchPartition(kgo.ProcessFetchPartitionOpts{KeepControlRecords: true, Offset: p.Offset,
		Topic: p.Topic, Partition: p.Partition}, rp, kgo.DefaultDecompressor(), nil)
	if f.Err == nil {
		f.Err = kerr.ErrorForCode(rp.ErrorCode)
	}
	return f, len(rp.RecordBatches) == 0, f.Err
}

// outside tells on which side of its partition a place lies.
func (o *Originals) outside(ctx context.Context, p dlq.Place) dlq.Original {
	listed, err := o.admin.ListStartOffsets(ctx, p.Topic)
	if err != nil {
		return failed(err)
	}
	start, ok := listed.Lookup(p.Topic, p.Partition)
	switch {
	case !ok || start.Err != nil:
		return failed(errors.Join(errors.New("no start offset"), start.Err))
	case p.Offset < start.Offset:
		return dlq.Original{State: dlq.OriginalDeleted, Err: fmt.Errorf("the partition begins at offset %d", start.Offset)}
	}
	return dlq.Original{State: dlq.OriginalAbsent, Err: errors.New("the partition ends before it")}
}

// retention returns how long topics keep records, for the topics that say; negative for without end.
func (o *Originals) retention(ctx context.Context, topics []string) map[string]time.Duration {
	kept := map[string]time.Duration{}
	configs, err := o.admin.DescribeTopicConfigs(ctx, topics...)
	if err != nil {
		return kept // it is not known then
	}
	for _, topic := range configs {
		if topic.Err != nil {
			continue
		}
		values := map[string]string{}
		for _, c := range topic.Configs {
			values[c.Key] = c.MaybeValue()
		}
		ms, err := strconv.ParseInt(values["retention.ms"], 10, 64)
		deletes := slices.Contains(strings.Split(values["cleanup.policy"], ","), "delete")
		if err == nil && ms >= 0 && ms <= int64(1<<63-1)/int64(time.Millisecond) && deletes {
			kept[topic.Name] = time.Duration(ms) * time.Millisecond
		}
	}
	return kept
}

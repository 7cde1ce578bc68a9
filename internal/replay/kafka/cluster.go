package kafka

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/postrider/postrider/internal/kgolog"
	"github.com/postrider/postrider/internal/replay"
)

// Bounds of one question to the cluster; the replay asks again.
const (
	dialTimeout    = 3 * time.Second
	retryTimeout   = 8 * time.Second
	metadataMinAge = 250 * time.Millisecond
)

// Config configures a Cluster.
type Config struct {
	// Brokers are the addresses, host:port, to learn the cluster from. Required.
	Brokers []string
	// ClientID names the clients in the brokers' logs. Defaults to "postrider".
	ClientID string
	// MaxRecords is how many records a Poll returns at most. Defaults to 500.
	MaxRecords int
	// Logger receives the clients' logs. Defaults to no logging.
	Logger *slog.Logger
	// Options are further options of the clients, for example TLS and SASL. Defaults to none.
	Options []kgo.Opt
}

// Cluster implements replay.Cluster.
type Cluster struct {
	cfg    Config
	client *kgo.Client
	admin  *kadm.Client
}

var _ replay.Cluster = (*Cluster)(nil)

// New checks the configuration. It does not connect.
func New(cfg Config) (*Cluster, error) {
	if len(cfg.Brokers) == 0 {
		return nil, errors.New("replay: no broker addresses: set kafka brokers to host:port,…")
	}
	if cfg.ClientID == "" {
		cfg.ClientID = "postrider"
	}
	if cfg.MaxRecords == 0 {
		cfg.MaxRecords = replay.DefaultBatch
	}
	if cfg.MaxRecords < 0 {
		return nil, fmt.Errorf("replay: MaxRecords is %d, it must be positive", cfg.MaxRecords)
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	client, err := kgo.NewClient(append(cfg.options(), kgo.RetryTimeout(retryTimeout))...)
	if err != nil {
		return nil, fmt.Errorf("replay: %w", err)
	}
	return &Cluster{cfg: cfg, client: client, admin: kadm.NewClient(client)}, nil
}

// options are the options of every client.
func (c Config) options() []kgo.Opt {
	return append([]kgo.Opt{
		kgo.SeedBrokers(c.Brokers...),
		kgo.ClientID(c.ClientID),
		kgo.DialTimeout(dialTimeout),
		kgo.MetadataMinAge(metadataMinAge),
		kgo.DisableClientMetrics(), // pushing them to a broker that is away would hold up Close
		kgo.WithLogger(kgolog.New(c.Logger)),
	}, c.Options...)
}

// Close ends the client.
func (c *Cluster) Close() { c.client.Close() }

// Topics implements replay.Cluster.
func (c *Cluster) Topics(ctx context.Context, names ...string) (map[string]replay.Topic, error) {
	listed, err := c.admin.ListTopics(ctx, names...)
	if err != nil {
		return nil, fault("ask for topics", err)
	}
	there := map[string]replay.Topic{}
	for _, name := range names {
		t, found := listed[name]
		switch {
		case !found, errors.Is(t.Err, kerr.UnknownTopicOrPartition):
		case t.Err != nil:
			return nil, fault("topic "+name, t.Err)
		default:
			there[name] = replay.Topic{ID: idOf(t.ID), Partitions: int32(len(t.Partitions))}
		}
	}
	return there, nil
}

// idOf is empty where brokers have no ids of topics.
func idOf(id kadm.TopicID) string {
	if id == (kadm.TopicID{}) {
		return ""
	}
	return id.String()
}

// Bounds implements replay.Cluster. The end is the last stable offset: behind it transactions are open.
func (c *Cluster) Bounds(ctx context.Context, topic string) (map[int32]replay.Span, error) {
	first, err := c.admin.ListStartOffsets(ctx, topic)
	if err == nil {
		err = first.Error()
	}
	if err != nil {
		return nil, fault("ask where topic "+topic+" begins", err)
	}
	end, err := c.admin.ListCommittedOffsets(ctx, topic)
	if err == nil {
		err = end.Error()
	}
	if err != nil {
		return nil, fault("ask where topic "+topic+" ends", err)
	}
	if len(first[topic]) == 0 {
		return nil, fmt.Errorf("ask where topic %s begins: nothing is said of its partitions", topic)
	}
	bounds := map[int32]replay.Span{}
	for id, from := range first[topic] {
		to, found := end[topic][id]
		if !found {
			return nil, fmt.Errorf("topic %s, partition %d: its end is not known", topic, id)
		}
		bounds[id] = replay.Span{From: from.Offset, To: max(from.Offset, to.Offset)}
	}
	return bounds, nil
}

// CommittedOffsets implements replay.Cluster.
func (c *Cluster) CommittedOffsets(ctx context.Context, group, topic string) (map[int32]replay.CommittedOffset, error) {
	answer, err := c.admin.FetchOffsetsForTopics(ctx, group, topic)
	if errors.Is(err, kerr.GroupIDNotFound) {
		return nil, nil
	}
	if err == nil {
		err = answer.Error()
	}
	if err == nil && len(answer[topic]) == 0 {
		err = fmt.Errorf("nothing is said of topic %s", topic)
	}
	if err != nil {
		return nil, fault("read the offsets of the consumer group "+group, err)
	}
	offsets := map[int32]replay.CommittedOffset{}
	for id, o := range answer[topic] {
		if o.At >= 0 {
			offsets[id] = replay.CommittedOffset{Offset: o.At, Note: o.Metadata}
		}
	}
	return offsets, nil
}

// CommitOffsets implements replay.Cluster.
func (c *Cluster) CommitOffsets(ctx context.Context, group, topic string, offsets map[int32]replay.CommittedOffset) error {
	commit := kadm.Offsets{}
	for id, o := range offsets {
		commit.Add(kadm.Offset{Topic: topic, Partition: id, At: o.Offset, LeaderEpoch: -1, Metadata: o.Note})
	}
	err := c.admin.CommitAllOffsets(ctx, group, commit)
	if errors.Is(err, kerr.UnknownMemberID) || errors.Is(err, kerr.IllegalGeneration) || errors.Is(err, kerr.RebalanceInProgress) {
		return replay.Final(fmt.Errorf("the consumer group %s has members, so it is not a replay's; give another one (--group)", group))
	}
	return fault("commit offsets of the consumer group "+group, err)
}

// fault names what failed. If the broker will give the same answer again, it says that waiting does not help.
func fault(doing string, err error) error {
	if err == nil {
		return nil
	}
	var denied *kadm.AuthError
	var refused *kerr.Error
	if errors.As(err, &denied) || errors.As(err, &refused) && !refused.Retriable {
		return replay.Final(fmt.Errorf("%s: %w", doing, err))
	}
	return fmt.Errorf("%s: %w", doing, err)
}

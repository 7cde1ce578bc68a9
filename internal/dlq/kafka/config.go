package kafka

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/postrider/postrider/internal/kgolog"
	"github.com/postrider/postrider/message"
)

const (
	// DefaultGroup is the default of Config.Group.
	DefaultGroup = "postrider-collector"
	// DefaultMaxRecords is the default of Config.MaxRecords.
	DefaultMaxRecords = 4000
)

// Pace of looking at the cluster.
const (
	// metadataMinAge bounds how long a missing topic stays unnoticed after it was created, and a new leader.
	metadataMinAge = 500 * time.Millisecond
	// metadataMaxAge bounds how long added partitions do.
	metadataMaxAge = 30 * time.Second
	// fetchMaxWait is how long a broker may wait for records; newly assigned partitions wait behind it.
	fetchMaxWait = time.Second
)

// leaveTimeout bounds the goodbye to the group when the source closes; a group that was not told finds
// out by itself.
const leaveTimeout = 5 * time.Second

// Config is what a Source needs.
type Config struct {
	// Brokers are the addresses, host:port, to learn the cluster from. Required.
	Brokers []string
	// Topics are the dead-letter topics. One that does not exist is waited for, and never created.
	// Required.
	Topics []string
	// Patterns choose more topics, by name: topics that exist and topics that are created later; see dlq.TopicPatterns.
	// Defaults to none.
	Patterns []string
	// Exclude are topics that patterns do not choose. Defaults to none.
	Exclude []string
	// Discover is how often topics that Patterns choose are looked for. Defaults to 10s.
	Discover time.Duration
	// Group is the consumer group; collectors of one group share the partitions.
	// Defaults to "postrider-collector".
	Group string
	// Desk is the identity of the desk. Commits say it, and a group with commits of another desk is not joined: Poll returns an error
	// that wraps ErrOtherDesk. Defaults to none, then commits say nothing and every group is joined.
	Desk string
	// EarlierDesks are desks whose group this one takes over. Defaults to none.
	EarlierDesks []string
	// MaxRecords is how many records a Poll returns at most; fewer where the client has no more. What it has is bounded
	// by bytes: one answer of each broker, of 50 MB unless Options say otherwise. Defaults to 4000.
	MaxRecords int
	// Logger receives what the client and the source have to say. Defaults to no logging.
	Logger *slog.Logger
	// Registerer receives the metric postrider_collector_missed_offsets_total; a registry takes that of one
	// source. Defaults to none, the metric is then not exported.
	Registerer prometheus.Registerer
	// Options are further options of the client, for example TLS and SASL. They cannot change what the promises of the
	// collector rest on: the group, the offsets and their commits. Defaults to none.
	Options []kgo.Opt
}

func (c Config) withDefaults() Config {
	if c.Group == "" {
		c.Group = DefaultGroup
	}
	if c.MaxRecords == 0 {
		c.MaxRecords = DefaultMaxRecords
	}
	if c.Discover == 0 {
		c.Discover = DefaultDiscover
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c
}

func (c Config) validate() error {
	switch {
	case len(c.Brokers) == 0:
		return errors.New("dead-letter source: Brokers is required")
	case len(c.Topics) == 0:
		return errors.New("dead-letter source: Topics is required")
	case c.Discover < 0:
		return fmt.Errorf("dead-letter source: Discover is %v, it must be positive", c.Discover)
	case c.MaxRecords < 0:
		return fmt.Errorf("dead-letter source: MaxRecords is %d, it must be positive", c.MaxRecords)
	}
	for _, topic := range c.Topics {
		if err := message.ValidTopic(topic); err != nil {
			return fmt.Errorf("dead-letter source: %w", err)
		}
	}
	return nil
}

// options are the client's. Ours come last, so that they win.
func (c Config) options(adjust adjustFunc, m *membership) []kgo.Opt {
	opts := append([]kgo.Opt{
		kgo.ClientID(c.Group),
		kgo.WithLogger(kgolog.New(c.Logger)),
		kgo.MetadataMinAge(metadataMinAge),
		kgo.MetadataMaxAge(metadataMaxAge),
		kgo.FetchMaxWait(fetchMaxWait),
	}, c.Options...)
	if m.desk == "" {
		opts = append(opts, kgo.ConsumeTopics(c.Topics...))
	}
	return append(opts,
		kgo.SeedBrokers(c.Brokers...),
		kgo.ConsumerGroup(c.Group), // which is joined when there are topics
		kgo.OnOffsetsFetched(m.fetched),
		kgo.DisableAutoCommit(),
		kgo.BlockRebalanceOnPoll(),
		// A collector that died without leaving gives its partitions up after this, not after the default
		// of 45 s. One that is merely slow is put out of the group and reads some letters again.
		kgo.SessionTimeout(10*time.Second),
		kgo.HeartbeatInterval(2*time.Second),
		// A rebalance waits this long for members that are dead, for all of them at once; twenty deaths in a row
		// cost the next collector two of these and a session at most (TestManyDeaths). Letters are recognised
		// when they are read again, so being put out of the group too soon costs little.
		kgo.RebalanceTimeout(5*time.Second),
		// Never skip a letter: begin at the start, and begin there again when offsets are gone. The default
		// for the second is one minute back, and reading a letter twice costs nothing here.
		kgo.ConsumeStartOffset(kgo.NewOffset().AtStart()),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.AdjustFetchOffsetsFn(adjust),
		// A letter of an aborted transaction was never sent.
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
	)
}

package kafka

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/postrider/postrider/internal/dlq"
	"github.com/postrider/postrider/message"
)

// Source reads dead-letter topics as a member of a consumer group. Only offsets given to Commit are ever
// committed, and the group does not rebalance between a Poll that returned records and their Commit, so
// the records in hand stay this member's own; a member that takes longer than the group's rebalance
// timeout (5 s) loses them to another, which reads them again.
type Source struct {
	client    *kgo.Client
	group     string
	max       int
	log       *slog.Logger
	positions *positions
	discovery *discovery
	// topics are read from the time on that member is admitted to the group.
	topics []string
	member *membership
	missed prometheus.Counter
	// epochs are the leader epochs of the last Poll's newest records, for the commit.
	epochs map[partition]int32
	// deleted topics were found to be no longer what was subscribed to.
	deleted map[string]struct{}
	close   sync.Once
}

var _ dlq.Source = (*Source)(nil)

// NewSource returns a source; it connects when it is used. It fails on an invalid Config, and on a
// Registerer that has its metric already.
func NewSource(cfg Config) (*Source, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	cfg.Logger = cfg.Logger.With(slog.String("component", "dlq-source"))
	found, err := newDiscovery(cfg)
	if err != nil {
		return nil, fmt.Errorf("dead-letter source: %w", err)
	}
	s := &Source{topics: cfg.Topics, member: newMembership(cfg), group: cfg.Group, max: cfg.MaxRecords, log: cfg.Logger, positions: newPositions(), discovery: found,
		epochs: map[partition]int32{}, deleted: map[string]struct{}{}}
	s.missed = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "postrider_collector_missed_offsets_total",
		Help: "Offsets of dead-letter topics that retention deleted before the collector read them.",
	})
	if cfg.Registerer != nil {
		if err := cfg.Registerer.Register(s.missed); err != nil {
			return nil, fmt.Errorf("dead-letter source: register metrics: %w", err)
		}
	}
	client, err := kgo.NewClient(cfg.options(s.positions.adjust, s.member)...)
	if err != nil {
		return nil, fmt.Errorf("dead-letter source: %w", err)
	}
	s.client = client
	return s, nil
}

// Poll waits for records and returns at most Config.MaxRecords of them, in order per partition. An error
// that comes with records is about other partitions, or about letters that are gone. Faults that the
// client mends by itself (leaders that move, brokers away, topics that do not exist yet) are no errors.
// When ctx ends, its error is returned and nothing else.
func (s *Source) Poll(ctx context.Context) ([]dlq.Record, error) {
	if err := s.admit(ctx); err != nil {
		return nil, err
	}
	s.resubscribe()
	for {
		s.discover(ctx)
		records, err := s.poll(ctx)
		if len(records) > 0 {
			return records, err
		}
		// Nothing in hand that a rebalance could take away.
		s.client.AllowRebalance()
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if err != nil {
			return nil, err
		}
	}
}

func (s *Source) poll(ctx context.Context) ([]dlq.Record, error) {
	polling, cancel := s.patience(ctx)
	defer cancel()
	fetches := s.client.PollRecords(polling, s.max)
	clear(s.epochs)
	records := make([]dlq.Record, 0, fetches.NumRecords())
	var errs []error
	fetches.EachTopic(func(t kgo.FetchTopic) {
		for i := range t.Partitions {
			f := &t.Partitions[i]
			if f.Err != nil && !ended(ctx, polling, t.Topic, f) {
				errs = append(errs, s.fault(t.Topic, f))
			}
			if len(f.Records) == 0 {
				continue
			}
			if missed, err := s.positions.read(t.Topic, f); err != nil {
				s.missed.Add(float64(missed))
				errs = append(errs, err)
			}
			for _, r := range f.Records {
				records = append(records, record(r))
			}
			s.epochs[partition{t.Topic, f.Partition}] = f.Records[len(f.Records)-1].LeaderEpoch
		}
	})
	return records, errors.Join(errs...)
}

// fault names a partition's error.
func (s *Source) fault(topic string, f *kgo.FetchPartition) error {
	if topic == "" { // the group's, or the client's
		return fmt.Errorf("dead-letter source: %w", f.Err)
	}
	if errors.Is(f.Err, kerr.UnknownTopicID) {
		s.deleted[topic] = struct{}{}
	}
	return fmt.Errorf("topic %s, partition %d: %w", topic, f.Partition, f.Err)
}

// resubscribe makes the client forget topics that were deleted, and perhaps created again: it never reads
// another topic of the same name unless it is told to. This waits until the records in hand are done
// with, because a commit after it would put the old topic's offsets on the new one.
func (s *Source) resubscribe() {
	for topic := range s.deleted {
		s.log.Warn("a dead-letter topic was deleted, it will be read from its start when it is there again", slog.String("topic", topic))
		s.positions.recreate(topic)
		s.client.PurgeTopicsFromConsuming(topic)
		if s.discovery.wants(topic) {
			s.client.AddConsumeTopics(topic)
		}
	}
	clear(s.deleted)
}

func record(r *kgo.Record) dlq.Record {
	hs := make([]message.Header, len(r.Headers))
	for i, h := range r.Headers {
		hs[i] = message.Header{Name: h.Key, Value: h.Value}
	}
	return dlq.Record{Topic: r.Topic, Partition: r.Partition, Offset: r.Offset, Timestamp: r.Timestamp,
		Key: r.Key, Value: r.Value, Headers: hs}
}

// Commit commits the offsets behind the given records of the last Poll, and lets the group rebalance,
// whether that succeeded or not.
func (s *Source) Commit(ctx context.Context, records []dlq.Record) error {
	defer s.client.AllowRebalance()
	last := map[partition]*kgo.Record{}
	for _, r := range records {
		if _, deleted := s.deleted[r.Topic]; deleted {
			continue // its offsets mean nothing any more
		}
		at := partition{r.Topic, r.Partition}
		if before := last[at]; before == nil || before.Offset < r.Offset {
			epoch, known := s.epochs[at]
			if !known {
				epoch = -1
			}
			last[at] = &kgo.Record{Topic: r.Topic, Partition: r.Partition, Offset: r.Offset, LeaderEpoch: epoch}
		}
	}
	commits := make([]*kgo.Record, 0, len(last))
	for _, r := range last {
		commits = append(commits, r)
	}
	if err := s.client.CommitRecords(s.member.sign(ctx), commits...); err != nil {
		return fmt.Errorf("dead-letter source: commit offsets: %w", err)
	}
	for at := range last {
		s.positions.committed(at.topic, at.id)
	}
	return nil
}

// Ping returns nil if a broker answers.
func (s *Source) Ping(ctx context.Context) error { return s.client.Ping(ctx) }

// Close leaves the group without committing and ends the client. Closing twice does nothing.
func (s *Source) Close() {
	s.close.Do(func() {
		s.client.AllowRebalance()
		ctx, cancel := context.WithTimeout(context.Background(), leaveTimeout)
		defer cancel()
		// An error means that the group was not told; it notices by the missing heartbeats.
		_ = s.client.LeaveGroupContext(ctx)
		s.client.Close()
		s.client.AllowRebalance() // after a poll that came between, a goroutine of the client would wait for ever
	})
}

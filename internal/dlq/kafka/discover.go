package kafka

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/postrider/postrider/internal/dlq"
)

// DefaultDiscover is the default of Config.Discover.
const DefaultDiscover = 10 * time.Second

const (
	// listTimeout bounds one look at the topics there are.
	listTimeout = 5 * time.Second
	// missesToForget is how many looks in a row must not find a topic before it counts as deleted: a broker that
	// has just started may not know it yet.
	missesToForget = 2
)

// discovery finds the topics that patterns choose. The client could do it, too; but then it would follow topics that
// were deleted and made anew with the offsets of the old ones. It is used by the goroutine that polls.
type discovery struct {
	patterns *dlq.TopicPatterns
	// left are topics that patterns do not choose: the named ones and the excluded ones.
	left map[string]bool
	// misses says of each topic that was found how many looks in a row have not found it.
	misses map[string]int
	every  time.Duration
	next   time.Time
}

func newDiscovery(c Config) (*discovery, error) {
	patterns, err := dlq.NewTopicPatterns(c.Patterns)
	if err != nil {
		return nil, err
	}
	d := &discovery{patterns: patterns, left: map[string]bool{}, misses: map[string]int{}, every: c.Discover}
	for _, topics := range [][]string{c.Topics, c.Exclude} {
		for _, topic := range topics {
			d.left[topic] = true
		}
	}
	return d, nil
}

// look takes note of the topics there are. Of the topics that patterns choose, it returns the new and the gone ones.
func (d *discovery) look(there []string) (found, gone []string) {
	seen := make(map[string]bool, len(there))
	for _, topic := range there {
		if d.left[topic] || !d.patterns.Fits(topic) {
			continue
		}
		seen[topic] = true
		if _, known := d.misses[topic]; !known {
			found = append(found, topic)
		}
		d.misses[topic] = 0
	}
	for topic := range d.misses {
		if seen[topic] {
			continue
		}
		if d.misses[topic]++; d.misses[topic] >= missesToForget {
			delete(d.misses, topic)
			gone = append(gone, topic)
		}
	}
	return found, gone
}

// wants reports whether a topic that is read is to be read on, when it is there again.
func (d *discovery) wants(topic string) bool {
	_, found := d.misses[topic]
	return found || d.left[topic]
}

// discover begins to read topics that patterns choose, and ends reading the ones that are gone. It must not be called
// with records in hand. When the brokers do not answer, it is tried again the next time.
func (s *Source) discover(ctx context.Context) {
	d := s.discovery
	if !d.patterns.Any() || time.Now().Before(d.next) {
		return
	}
	d.next = time.Now().Add(d.every)
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	topics, err := kadm.NewClient(s.client).ListTopics(ctx) // without Kafka's own
	if err != nil {
		if ctx.Err() == nil {
			s.log.Warn("looking for dead-letter topics failed, it is tried again", slog.Any("err", err))
		}
		return
	}
	found, gone := d.look(existing(topics))
	for _, topic := range gone {
		s.log.Warn("a dead-letter topic that was found by a pattern is gone", slog.String("topic", topic))
		s.positions.recreate(topic)
		s.client.PurgeTopicsFromConsuming(topic)
	}
	for _, topic := range found {
		s.log.Info("a dead-letter topic was found by a pattern and is read", slog.String("topic", topic))
	}
	s.client.AddConsumeTopics(found...)
}

// existing are the names of topics that the brokers know; an answer may have others that this client has asked about.
func existing(topics kadm.TopicDetails) []string {
	var names []string
	for name, topic := range topics {
		if !errors.Is(topic.Err, kerr.UnknownTopicOrPartition) && !errors.Is(topic.Err, kerr.UnknownTopicID) {
			names = append(names, name)
		}
	}
	return names
}

// patience returns a context for a poll: with patterns, one that ends when it is time to look again.
func (s *Source) patience(ctx context.Context) (context.Context, context.CancelFunc) {
	if !s.discovery.patterns.Any() {
		return ctx, func() {}
	}
	return context.WithDeadline(ctx, s.discovery.next)
}

// ended reports whether a fetch says nothing but that the time for polling was over.
func ended(ctx, polling context.Context, topic string, f *kgo.FetchPartition) bool {
	return topic == "" && ctx.Err() == nil && polling.Err() != nil && f.Err == polling.Err()
}

package kafka

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
)

// Lag returns how many records of each topic a consumer group has yet to read: the records after its commits, or, where
// it has none, all that there are. Topics and partitions that are not there, or do not answer, are left out.
func Lag(ctx context.Context, admin *kadm.Client, group string, topics ...string) (map[string]int64, error) {
	a, err := ask(ctx, admin, group, topics)
	if err != nil {
		return nil, err
	}
	return a.lag(), nil
}

// asked is where a group and its topics stand.
type asked struct {
	committed  kadm.OffsetResponses
	begin, end kadm.ListedOffsets
}

func ask(ctx context.Context, admin *kadm.Client, group string, topics []string) (a asked, err error) {
	if len(topics) == 0 { // which the client would take for all
		return a, nil
	}
	a.committed, err = admin.FetchOffsets(ctx, group)
	if err != nil && !errors.Is(err, kerr.GroupIDNotFound) {
		return asked{}, fmt.Errorf("read the offsets of the group %s: %w", group, err)
	}
	if a.begin, err = admin.ListStartOffsets(ctx, topics...); err != nil {
		return asked{}, fmt.Errorf("read where the topics begin: %w", err)
	}
	if a.end, err = admin.ListEndOffsets(ctx, topics...); err != nil {
		return asked{}, fmt.Errorf("read where the topics end: %w", err)
	}
	return a, nil
}

func (a asked) lag() map[string]int64 {
	lag := map[string]int64{}
	for topic, partitions := range a.end {
		for partition, o := range partitions {
			if o.Err != nil || o.Offset < 0 {
				continue
			}
			from := int64(0)
			if first, ok := a.begin.Lookup(topic, partition); ok {
				from = max(first.Offset, 0)
			}
			if c, ok := a.committed.Lookup(topic, partition); ok {
				from = max(from, c.At)
			}
			lag[topic] += max(o.Offset-from, 0)
		}
	}
	return lag
}

// Lag is that of the source's group on its topics, all members together. On the way it counts what retention deleted
// before this member read it: where a partition was emptied, no record will come that shows it.
func (s *Source) Lag(ctx context.Context) (map[string]int64, error) {
	a, err := ask(ctx, kadm.NewClient(s.client), s.group, s.client.GetConsumeTopics())
	if err != nil {
		return nil, err
	}
	// These are the partitions that are this member's now, so no other counts the same.
	for topic, partitions := range s.client.CommittedOffsets() {
		for id := range partitions {
			first, known := a.begin.Lookup(topic, id)
			if !known || first.Err != nil {
				continue
			}
			if missed, err := s.positions.begins(topic, id, first.Offset); err != nil {
				s.missed.Add(float64(missed))
				s.log.Error("dead letters are gone", slog.Any("err", err))
			}
		}
	}
	return a.lag(), nil
}

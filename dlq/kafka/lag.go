package kafka

import (
	"context"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
)

// Lag returns how many records of each topic a consumer group has yet to read: those after its commits, or, where it
// has none, all that there are. Topics and partitions that are not there, or do not answer, are left out.
func Lag(ctx context.Context, admin *kadm.Client, group string, topics ...string) (map[string]int64, error) {
	lag := map[string]int64{}
	if len(topics) == 0 { // which the client would take for all
		return lag, nil
	}
	committed, err := admin.FetchOffsets(ctx, group)
	if err != nil && !errors.Is(err, kerr.GroupIDNotFound) {
		return nil, fmt.Errorf("read the offsets of the group %s: %w", group, err)
	}
	begin, err := admin.ListStartOffsets(ctx, topics...)
	if err != nil {
		return nil, fmt.Errorf("read where the topics begin: %w", err)
	}
	end, err := admin.ListEndOffsets(ctx, topics...)
	if err != nil {
		return nil, fmt.Errorf("read where the topics end: %w", err)
	}
	for topic, partitions := range end {
		for partition, o := range partitions {
			if o.Err != nil || o.Offset < 0 {
				continue
			}
			from := int64(0)
			if first, ok := begin.Lookup(topic, partition); ok {
				from = max(first.Offset, 0)
			}
			if c, ok := committed.Lookup(topic, partition); ok {
				from = max(from, c.At)
			}
			lag[topic] += max(o.Offset-from, 0)
		}
	}
	return lag, nil
}

// Lag is that of the source's group on its topics, all members together.
func (s *Source) Lag(ctx context.Context) (map[string]int64, error) {
	return Lag(ctx, kadm.NewClient(s.client), s.group, s.client.GetConsumeTopics()...)
}

package kafka

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/postrider/postrider/consumer"
	"github.com/postrider/postrider/message"
)

// Poll implements consumer.Client.
func (c *Client) Poll(ctx context.Context) ([]consumer.Batch, error) {
	c.resubscribe()
	fetches := c.member.PollFetches(ctx)
	var batches []consumer.Batch
	var errs []error
	fetches.EachTopic(func(t kgo.FetchTopic) {
		for i := range t.Partitions {
			f := &t.Partitions[i]
			if f.Err != nil {
				errs = append(errs, c.fault(t.Topic, f))
			}
			if len(f.Records) > 0 {
				batches = append(batches, c.batch(t.Topic, f))
			}
		}
	})
	if len(batches) == 0 && ctx.Err() != nil {
		return nil, ctx.Err()
	}
	return batches, errors.Join(errs...)
}

// fault names a partition's error.
func (c *Client) fault(topic string, f *kgo.FetchPartition) error {
	if errors.Is(f.Err, kgo.ErrClientClosed) {
		return consumer.ErrClosed
	}
	if topic == "" { // the group's, or the client's
		return f.Err
	}
	if errors.Is(f.Err, kerr.UnknownTopicID) {
		c.positions.lost(topic)
	}
	return fmt.Errorf("topic %s, partition %d: %w", topic, f.Partition, f.Err)
}

// resubscribe makes the client forget topics that were deleted, and perhaps created again: it never reads another topic
// of the same name unless it is told to.
func (c *Client) resubscribe() {
	gone := c.positions.recreate()
	if len(gone) == 0 {
		return
	}
	c.cfg.Logger.Warn("topics were deleted, they will be read from their start when they are there again", slog.Any("topics", gone))
	c.member.PurgeTopicsFromConsuming(gone...)
	c.member.AddConsumeTopics(gone...)
}

// batch turns the fetched records of a partition into messages: two allocations, whatever their number.
func (c *Client) batch(topic string, f *kgo.FetchPartition) consumer.Batch {
	last := f.Records[len(f.Records)-1]
	b := consumer.Batch{Partition: consumer.Partition{Topic: topic, ID: f.Partition}, Messages: make([]consumer.Message, len(f.Records)),
		LeaderEpoch: last.LeaderEpoch, End: f.LastStableOffset}
	if b.End < 0 { // brokers before transactions
		b.End = f.HighWatermark
	}
	b.Missed = c.positions.read(b.Partition, f)
	n := 0
	for _, r := range f.Records {
		n += len(r.Headers)
	}
	arena := make([]message.Header, 0, n)
	for i, r := range f.Records {
		m := &b.Messages[i]
		m.Topic, m.Partition, m.Offset = topic, r.Partition, r.Offset
		m.Key, m.Value, m.Timestamp = r.Key, r.Value, r.Timestamp
		m.LogAppendTime = r.Attrs.TimestampType() == 1
		b.Bytes += int64(len(r.Key) + len(r.Value))
		if len(r.Headers) == 0 {
			continue
		}
		from := len(arena)
		for _, h := range r.Headers {
			arena = append(arena, message.Header{Name: h.Key, Value: h.Value})
			b.Bytes += int64(len(h.Key) + len(h.Value))
		}
		m.Headers = arena[from:len(arena):len(arena)]
	}
	return b
}

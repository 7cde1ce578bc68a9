package kafka

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// countBytes is about how much of a partition one question to a broker reads.
const countBytes = 1 << 20

// CountRecords returns how many records a partition has between two offsets that a reader of committed records gets, at most
// limit. Offsets alone do not say it: the markers that end transactions have offsets, too, and so have the records of aborted
// ones.
func CountRecords(ctx context.Context, client *kgo.Client, topic string, partition int32, from, until int64, limit int64) (n int64, err error) {
	details, err := kadm.NewClient(client).Metadata(ctx, topic)
	if err != nil {
		return 0, fmt.Errorf("look for the leader of %s/%d: %w", topic, partition, err)
	}
	t := details.Topics[topic]
	p, there := t.Partitions[partition]
	switch {
	case t.Err != nil:
		return 0, fmt.Errorf("look for the leader of %s/%d: %w", topic, partition, t.Err)
	case !there || p.Leader < 0:
		return 0, fmt.Errorf("look for the leader of %s/%d: %w", topic, partition, kerr.LeaderNotAvailable)
	}
	for from < until && n < limit {
		f, next, err := readCommitted(ctx, client, t, p.Leader, partition, from)
		if err != nil {
			return n, fmt.Errorf("read %s/%d from offset %d: %w", topic, partition, from, err)
		}
		for _, r := range f.Records {
			if !r.Attrs.IsControl() && r.Offset < until {
				n++
			}
		}
		if next <= from { // nothing is there any more, or not yet committed
			return min(n, limit), nil
		}
		from = next
	}
	return min(n, limit), nil
}

// readCommitted asks the leader of a partition for committed records, and returns where the next question goes on.
func readCommitted(ctx context.Context, client *kgo.Client, topic kadm.TopicDetail, leader, partition int32,
	offset int64) (kgo.FetchPartition, int64, error) {
	req := kmsg.NewPtrFetchRequest()
	req.MaxWaitMillis, req.MinBytes, req.MaxBytes, req.IsolationLevel = int32(emptyWait.Milliseconds()), 1, countBytes, 1
	t := kmsg.NewFetchRequestTopic()
	t.Topic, t.TopicID = topic.Topic, topic.ID
	part := kmsg.NewFetchRequestTopicPartition()
	part.Partition, part.FetchOffset, part.PartitionMaxBytes = partition, offset, countBytes
	t.Partitions = append(t.Partitions, part)
	req.Topics = append(req.Topics, t)
	rp, err := askLeader(ctx, client, leader, req)
	if err != nil {
		return kgo.FetchPartition{}, offset, err
	}
	f, next := kgo.ProcessFetchPartition(kgo.ProcessFetchPartitionOpts{KeepControlRecords: true, Offset: offset,
		IsolationLevel: kgo.ReadCommitted(), Topic: topic.Topic, Partition: partition}, rp, kgo.DefaultDecompressor(), nil)
	if f.Err == nil {
		f.Err = kerr.ErrorForCode(rp.ErrorCode)
	}
	return f, next, f.Err
}

// askLeader sends a request for records of one partition, and returns what the broker says of it.
func askLeader(ctx context.Context, client *kgo.Client, leader int32, req *kmsg.FetchRequest) (*kmsg.FetchResponseTopicPartition, error) {
	answer, err := client.Broker(int(leader)).RetriableRequest(ctx, req)
	if err != nil {
		return nil, err
	}
	resp := answer.(*kmsg.FetchResponse)
	if err := kerr.ErrorForCode(resp.ErrorCode); err != nil {
		return nil, err
	}
	if len(resp.Topics) != 1 || len(resp.Topics[0].Partitions) != 1 {
		return nil, fmt.Errorf("broker %d answered for %d topics, not for one", leader, len(resp.Topics))
	}
	return &resp.Topics[0].Partitions[0], nil
}

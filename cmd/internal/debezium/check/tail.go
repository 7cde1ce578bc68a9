package check

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// readLimit bounds the reading of all topics.
const readLimit = time.Minute

// tail returns the last records of topics, at most last of each, and the topics that are not there.
func tail(ctx context.Context, open func(...kgo.Opt) (*kgo.Client, error), topics []string, last int) (records []*kgo.Record, missing []string, err error) {
	ctx, cancel := context.WithTimeout(ctx, readLimit)
	defer cancel()
	asking, err := open()
	if err != nil {
		return nil, nil, err
	}
	defer asking.Close()
	begin, end, missing, err := ranges(ctx, kadm.NewClient(asking), topics, last)
	if err != nil || len(end) == 0 {
		return nil, missing, err
	}
	reading, err := open(kgo.ConsumePartitions(begin), kgo.KeepControlRecords())
	if err != nil {
		return nil, missing, err
	}
	defer reading.Close()
	for len(end) > 0 {
		fetches := reading.PollFetches(ctx)
		for _, failed := range fetches.Errors() {
			if ctx.Err() != nil {
				return records, missing, fmt.Errorf("read the last records: %w", context.Cause(ctx))
			}
			return records, missing, fmt.Errorf("read %s, partition %d: %w", failed.Topic, failed.Partition, failed.Err)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			place := place{r.Topic, r.Partition}
			until, open := end[place]
			if !open || r.Offset >= until {
				return
			}
			if !r.Attrs.IsControl() {
				records = append(records, r)
			}
			if r.Offset == until-1 {
				delete(end, place)
			}
		})
	}
	return records, missing, nil
}

type place struct {
	topic     string
	partition int32
}

// ranges are where to begin in each partition to read its last records, and where each partition that has records ends.
func ranges(ctx context.Context, admin *kadm.Client, topics []string, last int) (begin map[string]map[int32]kgo.Offset, end map[place]int64, missing []string, err error) {
	starts, err := admin.ListStartOffsets(ctx, topics...)
	if err != nil {
		return nil, nil, nil, fmt.Errorf("ask for the first offsets: %w", err)
	}
	ends, err := admin.ListEndOffsets(ctx, topics...)
	if err != nil {
		return nil, nil, nil, fmt.Errorf("ask for the last offsets: %w", err)
	}
	begin, end = map[string]map[int32]kgo.Offset{}, map[place]int64{}
	for _, topic := range topics {
		partitions := ends[topic]
		var failed error
		for _, o := range partitions {
			failed = errors.Join(failed, o.Err)
		}
		if len(partitions) == 0 || errors.Is(failed, kerr.UnknownTopicOrPartition) {
			missing = append(missing, topic)
			continue
		}
		if failed != nil {
			return nil, nil, nil, fmt.Errorf("ask for the last offsets of %s: %w", topic, failed)
		}
		each := int64((last + len(partitions) - 1) / len(partitions))
		for partition, o := range partitions {
			start, _ := starts.Lookup(topic, partition)
			from := max(start.Offset, o.Offset-each)
			if begin[topic] == nil {
				begin[topic] = map[int32]kgo.Offset{}
			}
			begin[topic][partition] = kgo.NewOffset().At(from)
			if from < o.Offset {
				end[place{topic, partition}] = o.Offset
			}
		}
	}
	return begin, end, missing, nil
}

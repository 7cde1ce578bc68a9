package kafkatest

import (
	"cmp"
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/postrider/postrider/internal/loop"
)

// ReadAll returns the records of a topic: it waits until there are want of
// them, and then reads on to the end that the topic has at that moment, so that
// a record too many, for example a duplicate, is among the returned. With want 0
// it returns what the topic holds now. Records of one partition are in order of
// offset; records of aborted and of open transactions are included. The test
// fails when fewer than want come within two minutes.
func (b *Broker) ReadAll(t testing.TB, topic string, want int) []*kgo.Record {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), callTimeout)
	defer cancel()
	records, err := b.readAll(ctx, topic, want)
	if err != nil {
		t.Fatalf("kafkatest: read topic %s on %s: got %d records of %d: %v", topic, b, len(records), want, err)
	}
	return records
}

func (b *Broker) readAll(ctx context.Context, topic string, want int) ([]*kgo.Record, error) {
	// Control records are kept to see the client pass them: the end of a topic
	// written in transactions is one.
	client, err := b.newClient(kgo.ConsumeTopics(topic), kgo.KeepControlRecords(),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchMaxWait(100*time.Millisecond), freshMetadata)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	var (
		records []*kgo.Record
		next    = make(map[int32]int64) // by partition, the offset after the last record seen
		end     map[int32]int64         // nil until want records are there
	)
	for {
		if end == nil && len(records) >= want {
			if end, err = endOffsets(ctx, kadm.NewClient(client), topic); err != nil {
				return records, err
			}
		}
		if end != nil && reached(next, end) {
			return records, nil
		}
		fetches := client.PollFetches(ctx)
		if err := ctx.Err(); err != nil {
			return records, fmt.Errorf("%w (end offsets %v, read up to %v)", err, end, next)
		}
		if err := fetches.Err(); err != nil {
			return records, err
		}
		fetches.EachRecord(func(r *kgo.Record) {
			next[r.Partition] = r.Offset + 1
			if !r.Attrs.IsControl() {
				records = append(records, r)
			}
		})
	}
}

// endOffsets returns where each partition ends that has any records. A broker that has just started has no leaders for
// a while and is asked again.
func endOffsets(ctx context.Context, admin *kadm.Client, topic string) (map[int32]int64, error) {
	var start, listed kadm.ListedOffsets
	for {
		var err, ended error
		if start, err = admin.ListStartOffsets(ctx, topic); err == nil {
			listed, ended = admin.ListEndOffsets(ctx, topic)
			err = cmp.Or(ended, start.Error(), listed.Error())
		}
		if err == nil {
			break
		}
		if loop.Sleep(ctx, 50*time.Millisecond) != nil {
			return nil, fmt.Errorf("list offsets: %w", err)
		}
	}
	end := make(map[int32]int64)
	for p, o := range listed[topic] {
		if o.Offset > start[topic][p].Offset {
			end[p] = o.Offset
		}
	}
	return end, nil
}

func reached(next, end map[int32]int64) bool {
	for p, offset := range end {
		if next[p] < offset {
			return false
		}
	}
	return true
}

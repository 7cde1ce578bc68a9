package kafka

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/postrider/postrider/internal/dlq"
	"github.com/postrider/postrider/internal/testenv/kafkatest"
	"github.com/postrider/postrider/message"
)

// patience bounds what a test waits for; it passes long before.
const patience = 3 * time.Minute

func within(t *testing.T, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

// newSource is a member of the group that the topic's name names.
func newSource(t *testing.T, b *kafkatest.Broker, change func(*Config), topics ...string) *Source {
	t.Helper()
	cfg := Config{Brokers: b.Addrs, Topics: topics, Group: topics[0]}
	if change != nil {
		change(&cfg)
	}
	s, err := NewSource(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// produce writes records to where they say.
func produce(t *testing.T, b *kafkatest.Broker, records ...dlq.Record) {
	t.Helper()
	client := b.Client(t, kgo.RecordPartitioner(kgo.ManualPartitioner()))
	out := make([]*kgo.Record, len(records))
	for i, r := range records {
		out[i] = toKgo(r)
	}
	if err := client.ProduceSync(within(t, patience), out...).FirstErr(); err != nil {
		t.Fatal(err)
	}
}

func toKgo(r dlq.Record) *kgo.Record {
	k := &kgo.Record{Topic: r.Topic, Partition: r.Partition, Key: r.Key, Value: r.Value, Timestamp: r.Timestamp}
	for _, h := range r.Headers {
		k.Headers = append(k.Headers, kgo.RecordHeader{Key: h.Name, Value: h.Value})
	}
	return k
}

// numbered returns n records with values 0 to n-1.
func numbered(topic string, partition int32, n int) []dlq.Record {
	records := make([]dlq.Record, n)
	for i := range records {
		records[i] = dlq.Record{Topic: topic, Partition: partition, Value: fmt.Append(nil, i),
			Headers: []message.Header{{Name: "n", Value: fmt.Append(nil, i)}}}
	}
	return records
}

// read polls and commits until it has n records, and returns them with the errors met on the way.
func read(t *testing.T, s *Source, n int) (records []dlq.Record, errs []error) {
	t.Helper()
	ctx := within(t, patience)
	for len(records) < n {
		got, err := s.Poll(ctx)
		if ctx.Err() != nil {
			t.Fatalf("read %d records of %d, errors %v", len(records), n, errs)
		}
		if err != nil {
			errs = append(errs, err)
		}
		if len(got) == 0 {
			continue
		}
		records = append(records, got...)
		if err := s.Commit(ctx, got); err != nil {
			t.Fatalf("commit: %v", err)
		}
	}
	return records, errs
}

// nothing checks that no record comes within a while.
func nothing(t *testing.T, s *Source) {
	t.Helper()
	ctx := within(t, 700*time.Millisecond)
	for {
		got, _ := s.Poll(ctx)
		if len(got) > 0 {
			t.Fatalf("read %d records that should not be there, the first at %s/%d/%d", len(got), got[0].Topic, got[0].Partition, got[0].Offset)
		}
		if ctx.Err() != nil {
			return
		}
	}
}

func offsets(records []dlq.Record) []int64 {
	var all []int64
	for _, r := range records {
		all = append(all, r.Offset)
	}
	return all
}

func wantOffsets(t *testing.T, records []dlq.Record, first, last int64) {
	t.Helper()
	var want []int64
	for o := first; o <= last; o++ {
		want = append(want, o)
	}
	if got := offsets(records); !slices.Equal(got, want) {
		t.Errorf("offsets %v, want %d to %d", got, first, last)
	}
}

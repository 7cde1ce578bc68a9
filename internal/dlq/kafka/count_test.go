package kafka

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/postrider/postrider/internal/testenv/kafkatest"
)

// TestCountRecords: the markers of transactions are no records, and neither is what was aborted.
func TestCountRecords(t *testing.T) {
	t.Parallel()
	kafkatest.Each(t, func(t *testing.T, b *kafkatest.Broker) {
		topic := b.Topic(t, 1, nil)
		writer := b.Client(t, kgo.TransactionalID(topic))
		ctx := within(t, patience)
		transact := func(records int, commit kgo.TransactionEndTry) {
			t.Helper()
			if err := writer.BeginTransaction(); err != nil {
				t.Fatal(err)
			}
			for range records {
				if err := writer.ProduceSync(ctx, &kgo.Record{Topic: topic, Value: []byte("v")}).FirstErr(); err != nil {
					t.Fatal(err)
				}
			}
			if err := writer.EndTransaction(ctx, commit); err != nil {
				t.Fatal(err)
			}
		}
		transact(2, kgo.TryCommit) // 0 and 1, its marker is 2
		transact(3, kgo.TryAbort)  // 3 to 5, its marker is 6
		transact(1, kgo.TryCommit) // 7, its marker is 8
		client := b.Client(t)
		for _, c := range []struct{ from, until, limit, want int64 }{
			{0, 9, 100, 3}, {0, 2, 100, 2}, {2, 3, 100, 0}, {2, 7, 100, 0}, {1, 9, 100, 2}, {8, 9, 100, 0}, {0, 9, 1, 1}, {9, 9, 100, 0}, {9, 12, 100, 0},
		} {
			if n, err := CountRecords(ctx, client, topic, 0, c.from, c.until, c.limit); err != nil || n != c.want {
				t.Errorf("from %d until %d, at most %d: %d, %v; want %d", c.from, c.until, c.limit, n, err, c.want)
			}
		}
		if _, err := CountRecords(ctx, client, topic, 7, 0, 1, 1); err == nil {
			t.Error("a partition that is not there was counted")
		}
	})
}

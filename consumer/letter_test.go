package consumer

import (
	"slices"
	"testing"
	"time"

	"github.com/postrider/postrider/dlq"
	"github.com/postrider/postrider/dlq/dialect"
)

// TestLettersHaveOneID: whichever dialects a dead letter is written in, and however often, a collector takes it for one.
func TestLettersHaveOneID(t *testing.T) {
	t.Parallel()
	r := &route{source: "orders", policy: Policy{DeadLetterTopic: "orders.dlq"}}
	began := time.UnixMilli(1_700_000_000_123)
	for hop, at := range map[string]Origin{"": {}, " from orders.billing.retry/1/7": {Topic: "orders.billing.retry", Partition: 1, Offset: 7}} {
		for _, writers := range [][]dialect.Writer{{dialect.Postrider}, {dialect.Spring}, {dialect.Connect}, {dialect.Spring, dialect.Connect},
			{dialect.Connect, dialect.Postrider}, dialect.Writers()} {
			m := &Message{Topic: "orders", Partition: 3, Offset: 42, Timestamp: began, Value: []byte("v")}
			if at.Topic != "" {
				m = &Message{Topic: at.Topic, Partition: at.Partition, Offset: at.Offset, Timestamp: began.Add(time.Hour), Value: []byte("v"),
					past: &past{failed: 1, origin: Origin{Topic: "orders", Partition: 3, Offset: 42, Timestamp: began}}}
			}
			m.failed(began.Add(2 * time.Hour))
			rec, err := deadLetter(m, r, "billing", failure{code: "X"}, writers)
			if err != nil {
				t.Fatal(err)
			}
			if own := slices.Contains(writers, dialect.Connect) && !slices.Contains(writers, dialect.Postrider); own == rec.Timestamp.IsZero() {
				t.Errorf("%v: the timestamp is %v", writers, rec.Timestamp)
			}
			for offset := range int64(2) {
				in := dlq.Record{Topic: rec.Topic, Offset: offset, Timestamp: rec.Timestamp, Value: rec.Value, Headers: rec.Headers}
				if in.Timestamp.IsZero() {
					in.Timestamp = time.UnixMilli(1_800_000_000_000 + offset)
				}
				if l := dlq.Decode(in); l.ID != "record:orders/3/42@1700000000123#billing"+hop {
					t.Errorf("%v: %s, in %s", writers, l.ID, l.Dialect)
				}
			}
		}
	}
}

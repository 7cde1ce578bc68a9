package consumer

import (
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/postrider/postrider/internal/dlq"
	"github.com/postrider/postrider/message"
	"github.com/postrider/postrider/message/dialect"
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
			rec, err := deadLetter(m, r, "billing", failure{code: "X"}, writers, whole)
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

// TestRetryRecordsHaveTexts: a handler's error may have any bytes; the headers in a retry topic are text, and bounded.
func TestRetryRecordsHaveTexts(t *testing.T) {
	t.Parallel()
	for _, said := range []string{"no\xffthing \x00", strings.Repeat("ä", 400), strings.Repeat("a", maxRetryMessage-1) + "ä", "plain"} {
		m := &Message{Topic: "orders", Value: []byte("v")}
		m.failed(time.Now())
		rec := retryRecord(m, "orders.g.retry.1s", "g", failure{code: said, message: said}, time.Now())
		for name, limit := range map[string]int{message.HeaderErrorCode: dialect.MaxNameBytes, message.HeaderErrorMessage: maxRetryMessage} {
			got := header(rec.Headers, name)
			if got == "" || len(got) > limit || !utf8.ValidString(got) || strings.ContainsRune(got, 0) || !strings.HasPrefix(got, said[:2]) {
				t.Errorf("%s of %q: %q", name, said, got)
			}
		}
	}
}

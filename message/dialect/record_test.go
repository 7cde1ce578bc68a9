package dialect

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestFailedRecordProperty(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		r := FailedRecord{
			Topic:     rapid.StringMatching(`[a-zA-Z0-9._-]{2,60}[a-z]`).Draw(t, "topic"),
			Partition: rapid.Int32Min(0).Draw(t, "partition"), Offset: rapid.Int64Min(0).Draw(t, "offset"),
			Group: rapid.String().Draw(t, "group"), // may have every character that separates
		}
		if ms := rapid.Int64Range(-1, 1<<50).Draw(t, "timestamp"); ms >= 0 {
			r.Timestamp = time.UnixMilli(ms)
		}
		got, ok := ParseFailedRecord(r.String())
		if !ok || got != r {
			t.Fatalf("%q is read as %+v, %v; want %+v", r, got, ok, r)
		}
	})
}

func TestNoFailedRecord(t *testing.T) {
	t.Parallel()
	for _, s := range []string{"", "orders", "orders/1", "orders/1/2/3", "/1/2", "a b/1/2", "orders/-1/2", "orders/1/-2", "orders/x/2", "orders/1/2@",
		"orders/1/2@x", "orders/1/2#", "orders/4294967296/2", "event:6ba7b810-9dad-11d1-80b4-00c04fd430c8"} {
		if r, ok := ParseFailedRecord(s); ok {
			t.Errorf("%q is read as %+v", s, r)
		}
	}
}

package check

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/postrider/postrider/cmd/internal/debezium"
)

// Expected is the record that Postrider would send for a row.
type Expected struct {
	Topic      string
	Key, Value []byte // nil is null
	Headers    []kgo.RecordHeader
	// Partition and Timestamp are nil where they are left to the key and to the clock.
	Partition *int32
	Timestamp *time.Time
}

// Part is a part of a record in which the two differ.
type Part struct {
	// Part is topic, key, value, header NAME, headers (their number, order or names), partition or timestamp.
	Part string `json:"part"`
	// At is the first byte that differs, from 0; left out where the part is not compared by bytes.
	At *int `json:"at,omitempty"`
	// Theirs and Ours are the part in the connector's record and in ours, around the first byte that differs. Bytes that are no
	// UTF-8 are in hex.
	Theirs string `json:"theirs"`
	Ours   string `json:"ours"`
}

// tracing are headers that tracing adds, with a span of its own on each side.
var tracing = map[string]bool{"traceparent": true, "tracestate": true, "baggage": true, "b3": true, "uber-trace-id": true}

// compared are the headers that are compared, in their order.
func compared(headers []kgo.RecordHeader) []kgo.RecordHeader {
	var kept []kgo.RecordHeader
	for _, h := range headers {
		if !tracing[h.Key] && !bytes.HasPrefix([]byte(h.Key), []byte(debezium.ContextHeader)) {
			kept = append(kept, h)
		}
	}
	return kept
}

// compare returns the parts in which a record is not as expected.
func compare(theirs *kgo.Record, ours Expected) []Part {
	var parts []Part
	text := func(part, a, b string) {
		if a != b {
			parts = append(parts, Part{Part: part, Theirs: a, Ours: b})
		}
	}
	exact := func(part string, a, b []byte) {
		if bytes.Equal(a, b) && (a == nil) == (b == nil) {
			return
		}
		at := firstDifference(a, b)
		parts = append(parts, Part{Part: part, At: &at, Theirs: around(a, at), Ours: around(b, at)})
	}
	text("topic", theirs.Topic, ours.Topic)
	exact("key", theirs.Key, ours.Key)
	exact("value", theirs.Value, ours.Value)
	a, b := compared(theirs.Headers), compared(ours.Headers)
	if sameNames(a, b) {
		for i := range a {
			exact("header "+a[i].Key, a[i].Value, b[i].Value)
		}
	} else {
		text("headers", headerNames(a), headerNames(b))
	}
	if ours.Partition != nil {
		text("partition", strconv.Itoa(int(theirs.Partition)), strconv.Itoa(int(*ours.Partition)))
	}
	if ours.Timestamp != nil {
		text("timestamp", stamp(theirs.Timestamp), stamp(*ours.Timestamp))
	}
	return parts
}

func sameNames(a, b []kgo.RecordHeader) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i].Key != b[i].Key {
			return false
		}
	}
	return true
}

func headerNames(headers []kgo.RecordHeader) string {
	text := ""
	for _, h := range headers {
		text += fmt.Sprintf("%q ", h.Key)
	}
	return text
}

func stamp(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }

// firstDifference is the index of the first byte that differs; the shorter length where one begins the other.
func firstDifference(a, b []byte) int {
	n := min(len(a), len(b))
	for i := range n {
		if a[i] != b[i] {
			return i
		}
	}
	return n
}

const (
	before = 24
	behind = 40
)

// around shows a part around a byte, null as null.
func around(b []byte, at int) string {
	if b == nil {
		return "null"
	}
	from, to := max(0, at-before), min(len(b), at+behind)
	if !utf8.Valid(b) {
		return elided(from, hex.EncodeToString(b[from:to]), len(b)-to)
	}
	for from > 0 && !utf8.RuneStart(b[from]) {
		from--
	}
	for to < len(b) && !utf8.RuneStart(b[to]) {
		to++
	}
	return elided(from, string(b[from:to]), len(b)-to)
}

func elided(before int, text string, behind int) string {
	if before > 0 {
		text = "…" + text
	}
	if behind > 0 {
		text += "…"
	}
	return text
}

// bytesText is a number of bytes for people.
func bytesText(n int64) string {
	switch {
	case n >= 10<<30:
		return fmt.Sprintf("%d GiB", n>>30)
	case n >= 10<<20:
		return fmt.Sprintf("%d MiB", n>>20)
	case n >= 10<<10:
		return fmt.Sprintf("%d KiB", n>>10)
	}
	return fmt.Sprintf("%d bytes", n)
}

package dlq

import (
	"strings"
	"testing"
	"time"

	"github.com/postrider/postrider/message"
)

func customNames() CustomHeaders {
	return CustomHeaders{Topic: []string{"x-topic", "origin"}, Partition: []string{"x-partition"}, Offset: []string{"x-offset"}, Timestamp: []string{"x-time"},
		Group: []string{"x-group"}, Attempts: []string{"x-attempts"}, Code: []string{"x-code"}, Error: []string{"x-error"}, Stack: []string{"x-stack"}}
}

// TestCustomHeaders: what a program of the user's own writes is read by the names that the settings give, and these
// headers are not the message's.
func TestCustomHeaders(t *testing.T) {
	t.Parallel()
	decode := customNames().Decoder(Whose{})
	r := Record{Topic: "failed", Partition: 1, Offset: 2, Key: []byte("k"), Value: []byte("v"), Headers: []message.Header{
		header("own", "3"), header("x-topic", "orders"), header("x-partition", "4"), header("x-offset", "17"), header("x-time", "1700000000123"), header("x-group", "billing"),
		header("x-attempts", "3"), header("x-code", "CardError"), header("x-error", "no such card"), header("x-stack", "CardError: no such card\n    at charge (pay.js:1:2)")}}
	l := decode(r)
	if l.Dialect != DialectCustom || l.OriginTopic != "orders" || *l.OriginPartition != 4 || *l.OriginOffset != 17 || l.CreatedAt.UnixMilli() != 1700000000123 ||
		l.ConsumerGroup != "billing" || *l.Attempts != 3 || l.ErrorCode != "CardError" || l.ErrorMessage != "no such card" || l.ErrorStack == "" ||
		l.Subject.ID != "orders/4/17@1700000000123#billing" || l.Reason != MaxRetriesExceeded || len(l.Headers) != 1 || l.Headers[0].Name != "own" {
		t.Errorf("%+v", l)
	}
	if l := Decode(r); l.Dialect != DialectUnknown {
		t.Errorf("without the settings it is of %s", l.Dialect)
	}
	for name, test := range map[string]struct {
		headers []message.Header
		want    func(Letter) bool
	}{
		"the second name": {[]message.Header{header("origin", "bills")}, func(l Letter) bool {
			return l.Dialect == DialectCustom && l.OriginTopic == "bills" && l.OriginOffset == nil
		}},
		"the error alone": {[]message.Header{header("x-error", "boom")}, func(l Letter) bool {
			return l.Dialect == DialectCustom && l.ErrorMessage == "boom" && l.OriginTopic == ""
		}},
		"neither":              {[]message.Header{header("x-group", "billing")}, func(l Letter) bool { return l.Dialect == DialectUnknown }},
		"bad numbers":          {[]message.Header{header("x-topic", "orders"), header("x-offset", "\x00\x00\x00\x07"), header("x-time", "soon")}, func(l Letter) bool { return l.OriginOffset == nil && l.CreatedAt.IsZero() }},
		"a time as text":       {[]message.Header{header("x-topic", "orders"), header("x-time", "2026-01-02T03:04:05Z")}, func(l Letter) bool { return l.CreatedAt.Equal(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)) }},
		"another dialect":      {[]message.Header{header("dead-letter-topic", "orders")}, func(l Letter) bool { return l.Dialect == DialectSmallRye }},
		"over a dialect":       {[]message.Header{header("x-original-topic", "a"), header("x-topic", "orders")}, func(l Letter) bool { return l.Dialect == DialectCustom && l.OriginTopic == "orders" }},
		"a hop":                {[]message.Header{header("x-topic", "orders"), header(message.HeaderHops, "2")}, func(l Letter) bool { return l.Hops == 2 }},
		"a broken one of ours": {[]message.Header{header(message.HeaderLetterVersion, "1"), header("x-topic", "orders")}, func(l Letter) bool { return l.ErrorCode == CodeBrokenHeaders }},
	} {
		if l := decode(Record{Topic: "failed", Headers: test.headers}); !test.want(l) {
			t.Errorf("%s: %+v", name, l)
		}
	}
}

func TestCustomHeadersCheck(t *testing.T) {
	t.Parallel()
	for want, c := range map[string]CustomHeaders{
		"":                    customNames(),
		"is Postrider's own":  {Topic: []string{message.HeaderHops}},
		"name it once":        {Topic: []string{"a"}, Offset: []string{"a"}},
		"name one of them":    {Offset: []string{"a"}},
		"a name of 0 bytes":   {Topic: []string{""}},
		"a name of 256 bytes": {Topic: []string{strings.Repeat("a", 256)}},
	} {
		if err := c.Check(); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", want, err)
		}
	}
	if err := (&CustomHeaders{}).Check(); err != nil {
		t.Errorf("none: %v", err)
	}
}

// TestCustomHeadersCostNothingPerRecord: what the names say is worked out once.
func TestCustomHeadersCostNothingPerRecord(t *testing.T) {
	r := Record{Topic: "failed", Headers: []message.Header{header("own", "3")}}
	decode := customNames().Decoder(Whose{})
	without := testing.AllocsPerRun(100, func() { Decode(r) })
	if with := testing.AllocsPerRun(100, func() { decode(r) }); with > without {
		t.Errorf("a record that has none of the named headers costs %v allocations, and %v without the settings", with, without)
	}
}

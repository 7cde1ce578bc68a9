package dialect

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/postrider/postrider/message"
)

func failure() Failure {
	return Failure{
		Topic: "orders", Partition: 3, Offset: 42, Timestamp: time.UnixMilli(1_700_000_000_123).UTC(), TimestampType: "CreateTime",
		LastTopic: "orders.billing.retry.10s", LastPartition: 1, LastOffset: 7,
		Group: "billing", Attempts: 5,
		FirstFailedAt: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), LastFailedAt: time.Date(2026, 1, 1, 0, 0, 10, 500, time.UTC),
		ErrorClass: "record", ErrorCode: "NO_SUCH_ACCOUNT", ErrorMessage: "account 17 is not there", Stack: "main.go:1",
		RetryTopic: "orders.billing.retry.1s",
		Headers: []message.Header{{Name: message.HeaderEventID, Value: []byte("0198c0de-1111-7222-8333-444455556666")},
			{Name: "ce_type", Value: []byte("order.placed")}, {Name: "empty", Value: []byte{}}, {Name: "null"}},
	}
}

// written is a header as a person reads it: name, and value as Go would write it.
func written(hs []message.Header) string {
	var b strings.Builder
	for _, h := range hs {
		if h.Value == nil {
			fmt.Fprintf(&b, "%s null\n", h.Name)
		} else {
			fmt.Fprintf(&b, "%s %q\n", h.Name, h.Value)
		}
	}
	return b.String()
}

const own = `postrider-event-id "0198c0de-1111-7222-8333-444455556666"
ce_type "order.placed"
empty ""
null null
`

// golden are the bytes of each dialect.
var golden = map[Writer]string{
	Postrider: `postrider-letter-version "1"
postrider-consumer-group "billing"
postrider-origin-topic "orders"
postrider-origin-partition "3"
postrider-origin-offset "42"
postrider-origin-timestamp "2023-11-14T22:13:20.123Z"
postrider-origin-timestamp-type "CreateTime"
postrider-last-topic "orders.billing.retry.10s"
postrider-last-partition "1"
postrider-last-offset "7"
postrider-attempts "5"
postrider-first-failed-at "2026-01-01T00:00:00Z"
postrider-last-failed-at "2026-01-01T00:00:10.0000005Z"
postrider-error-class "record"
postrider-error-code "NO_SUCH_ACCOUNT"
postrider-error-message "account 17 is not there"
postrider-error-stack "main.go:1"
postrider-retry-topic "orders.billing.retry.1s"
`,
	Spring: `kafka_dlt-original-topic "orders"
kafka_dlt-original-partition "\x00\x00\x00\x03"
kafka_dlt-original-offset "\x00\x00\x00\x00\x00\x00\x00*"
kafka_dlt-original-timestamp "\x00\x00\x01\x8b\xcf\xe5h{"
kafka_dlt-original-timestamp-type "CreateTime"
kafka_dlt-original-consumer-group "billing"
kafka_dlt-original-topic "orders.billing.retry.10s"
kafka_dlt-original-partition "\x00\x00\x00\x01"
kafka_dlt-original-offset "\x00\x00\x00\x00\x00\x00\x00\a"
kafka_dlt-exception-fqcn "NO_SUCH_ACCOUNT"
kafka_dlt-exception-cause-fqcn "NO_SUCH_ACCOUNT"
kafka_dlt-exception-message "account 17 is not there"
kafka_dlt-exception-stacktrace "main.go:1"
kafka_deliveryAttempt "\x00\x00\x00\x05"
`,
	Connect: `__connect.errors.topic "orders"
__connect.errors.partition "3"
__connect.errors.offset "42"
__connect.errors.topic "orders.billing.retry.10s"
__connect.errors.partition "1"
__connect.errors.offset "7"
__connect.errors.connector.name "billing"
__connect.errors.stage "TASK_PUT"
__connect.errors.exception.class.name "NO_SUCH_ACCOUNT"
__connect.errors.exception.message "account 17 is not there"
__connect.errors.exception.stacktrace "main.go:1"
`,
}

func TestEncode(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name    string
		writers []Writer
		want    string
	}{
		{"by default", nil, own + golden[Postrider] + golden[Spring]},
		{"ours", []Writer{Postrider}, own + golden[Postrider]},
		{"spring", []Writer{Spring}, own + golden[Spring]},
		{"connect", []Writer{Connect}, own + golden[Connect]},
		{"named twice", []Writer{Connect, Spring, Connect}, own + golden[Connect] + golden[Spring]},
	} {
		hs, err := Encode(failure(), test.writers...)
		if got := written(hs); err != nil || got != test.want {
			t.Errorf("%s: %v\n%s\nwant\n%s", test.name, err, got, test.want)
		}
	}
}

func TestEncodeLeavesOutWhatIsNotKnown(t *testing.T) {
	t.Parallel()
	hs, err := Encode(Failure{Topic: "orders", Group: "g", Timestamp: time.UnixMilli(-1)}, Writers()...)
	const want = `postrider-letter-version "1"
postrider-consumer-group "g"
postrider-origin-topic "orders"
postrider-origin-partition "0"
postrider-origin-offset "0"
kafka_dlt-original-topic "orders"
kafka_dlt-original-partition "\x00\x00\x00\x00"
kafka_dlt-original-offset "\x00\x00\x00\x00\x00\x00\x00\x00"
kafka_dlt-original-consumer-group "g"
__connect.errors.topic "orders"
__connect.errors.partition "0"
__connect.errors.offset "0"
__connect.errors.connector.name "g"
__connect.errors.stage "TASK_PUT"
__connect.errors.exception.message null
`
	if got := written(hs); err != nil || got != want {
		t.Errorf("%v\n%s", err, got)
	}
}

func TestEncodeRefuses(t *testing.T) {
	t.Parallel()
	for says, change := range map[string]func(*Failure) []Writer{
		`dialect "rabbit" is not known`:        func(*Failure) []Writer { return []Writer{Spring, "rabbit"} },
		`origin: invalid outbox event`:         func(f *Failure) []Writer { f.Topic = "a b"; return nil },
		`last topic: `:                         func(f *Failure) []Writer { f.LastTopic = "a b"; return nil },
		`retry topic: `:                        func(f *Failure) []Writer { f.RetryTopic = ".."; return nil },
		`partition -1, offset 42`:              func(f *Failure) []Writer { f.Partition = -1; return nil },
		`partition 3, offset -2`:               func(f *Failure) []Writer { f.Offset = -2; return nil },
		`last read from partition 1, offset -`: func(f *Failure) []Writer { f.LastOffset = -9; return nil },
		`no consumer group is named`:           func(f *Failure) []Writer { f.Group = ""; return nil },
		`at most 249 bytes`:                    func(f *Failure) []Writer { f.Group = strings.Repeat("g", 250); return nil },
		`of UTF-8 without NUL`:                 func(f *Failure) []Writer { f.Group = "g\x00"; return nil },
		`-1 attempts`:                          func(f *Failure) []Writer { f.Attempts = -1; return nil },
		`timestamp type "now"`:                 func(f *Failure) []Writer { f.TimestampType = "now"; return nil },
	} {
		f := failure()
		writers := change(&f)
		if _, err := Encode(f, writers...); !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), says) {
			t.Errorf("want %q, got %v", says, err)
		}
	}
}

// TestSecondFailure: a record that came back with an older set keeps the first origin, whichever dialect says it.
func TestSecondFailure(t *testing.T) {
	t.Parallel()
	for _, w := range Writers() {
		letter, err := Encode(failure(), w)
		if err != nil {
			t.Fatal(err)
		}
		again := Failure{Topic: "orders-dlt", Partition: 9, Offset: 900, Timestamp: time.UnixMilli(1_800_000_000_000).UTC(), TimestampType: "LogAppendTime",
			Group: "billing", ErrorCode: "AGAIN", FirstFailedAt: time.Date(2026, 5, 5, 0, 0, 0, 0, time.UTC), Headers: letter}
		hs, err := Encode(again, Postrider, w)
		if err != nil {
			t.Fatal(err)
		}
		got := written(hs)
		wants := []string{`postrider-origin-topic "orders"`, `postrider-origin-partition "3"`, `postrider-origin-offset "42"`,
			`postrider-last-topic "orders-dlt"`, `postrider-last-partition "9"`, `postrider-last-offset "900"`, `postrider-error-code "AGAIN"`}
		switch w {
		case Postrider:
			wants = append(wants, `first-failed-at "2026-01-01T00:00:00Z"`, `timestamp "2023-11-14T22:13:20.123Z"`, `timestamp-type "CreateTime"`)
		case Spring:
			wants = append(wants, `first-failed-at "2026-05-05T00:00:00Z"`, `timestamp "2023-11-14T22:13:20.123Z"`, `original-offset "\x00\x00\x00\x00\x00\x00\x00*"`)
		case Connect:
			wants = append(wants, `timestamp "2027-01-15T08:00:00Z"`) // Connect hands the timestamp on
		}
		for _, want := range wants {
			if strings.Count(got, want+"\n") != 1 {
				t.Errorf("%s: not once %s in\n%s", w, want, got)
			}
		}
		if strings.Contains(got, "NO_SUCH_ACCOUNT") {
			t.Errorf("%s: the first error is still there:\n%s", w, got)
		}
	}
}

// TestOriginOfAnotherGroup: a set that a service copied from a record it read is no origin of a record it wrote.
func TestOriginOfAnotherGroup(t *testing.T) {
	t.Parallel()
	for _, w := range Writers() {
		letter, err := Encode(failure(), w)
		if err != nil {
			t.Fatal(err)
		}
		f := Failure{Topic: "invoices", Partition: 9, Offset: 900, Group: "mail", Headers: letter}
		got, err := Encode(f, w)
		if err != nil {
			t.Fatal(err)
		}
		f.Headers = Strip(f.Headers)
		for _, h := range letter {
			if w.Owns(h.Name) {
				f.Headers = slices.DeleteFunc(f.Headers, func(own message.Header) bool { return own.Name == h.Name })
			}
		}
		want, err := Encode(f, w)
		if err != nil || written(got) != written(want) {
			t.Errorf("%s: %v\n%s\nwant\n%s", w, err, written(got), written(want))
		}
	}
}

// TestRetryableTopicIsAnOrigin: what @RetryableTopic wrote counts as Spring's, and goes.
func TestRetryableTopicIsAnOrigin(t *testing.T) {
	t.Parallel()
	f := Failure{Topic: "orders-retry-1000", Partition: 0, Offset: 5, Group: "g", Headers: []message.Header{
		{Name: "kafka_dlt-original-consumer-group", Value: []byte("g")}, {Name: "kafka_original-topic", Value: []byte("orders")}, {Name: "kafka_original-partition", Value: []byte{0, 0, 0, 2}},
		{Name: "kafka_original-offset", Value: []byte{0, 0, 0, 0, 0, 0, 0, 8}}, {Name: "retry_topic-attempts", Value: []byte{0, 0, 0, 2}},
		{Name: "kafka_exception-message", Value: []byte("x")}, {Name: "kafka_replyTopic", Value: []byte("mine")}}}
	hs, err := Encode(f, Spring)
	const want = `kafka_replyTopic "mine"
kafka_dlt-original-topic "orders"
kafka_dlt-original-partition "\x00\x00\x00\x02"
kafka_dlt-original-offset "\x00\x00\x00\x00\x00\x00\x00\b"
kafka_dlt-original-consumer-group "g"
kafka_dlt-original-topic "orders-retry-1000"
kafka_dlt-original-partition "\x00\x00\x00\x00"
kafka_dlt-original-offset "\x00\x00\x00\x00\x00\x00\x00\x05"
`
	if got := written(hs); err != nil || got != want {
		t.Errorf("%v\n%s", err, got)
	}
}

func TestStrip(t *testing.T) {
	t.Parallel()
	hs := []message.Header{{Name: "a"}, {Name: "PostRider-Attempts"}, {Name: message.HeaderEventID}, {Name: message.HeaderRetryTopic}, {Name: message.HeaderHops},
		{Name: "ce_id"}, {Name: "traceparent"}, {Name: "replay_of"}, {Name: "replay_id"}, {Name: "kafka_dlt-original-topic"}, {Name: "a"}}
	before := fmt.Sprint(hs)
	var names []string
	for _, h := range Strip(hs) {
		names = append(names, h.Name)
	}
	if want := []string{"a", "postrider-event-id", "postrider-hops", "ce_id", "traceparent", "replay_of", "replay_id", "kafka_dlt-original-topic", "a"}; !reflect.DeepEqual(names, want) {
		t.Errorf("%v", names)
	}
	if fmt.Sprint(hs) != before {
		t.Error("the caller's headers were changed")
	}
}

// anyFailure draws failures that can be written.
var anyFailure = rapid.Custom(func(t *rapid.T) Failure {
	topic := rapid.StringMatching(`[a-zA-Z0-9._-]{3,249}`)
	instant := rapid.Custom(func(t *rapid.T) time.Time { return time.UnixMilli(rapid.Int64Range(-1, 1<<53).Draw(t, "ms")).UTC() })
	f := Failure{
		Topic: topic.Draw(t, "topic"), Partition: rapid.Int32Range(0, 1<<31-1).Draw(t, "partition"), Offset: rapid.Int64Range(0, 1<<63-1).Draw(t, "offset"),
		Timestamp: instant.Draw(t, "timestamp"), TimestampType: rapid.SampledFrom([]string{"", "CreateTime", "LogAppendTime", "NoTimestampType"}).Draw(t, "type"),
		Group: rapid.StringMatching(`[a-zäß€/ #]{1,80}`).Draw(t, "group"), Attempts: rapid.Int32Range(0, 1<<31-1).Draw(t, "attempts"),
		FirstFailedAt: instant.Draw(t, "first failure"), LastFailedAt: instant.Draw(t, "last failure"),
		ErrorClass: rapid.String().Draw(t, "class"), ErrorCode: rapid.String().Draw(t, "code"),
		ErrorMessage: string(rapid.SliceOfN(rapid.Byte(), 0, 6000).Draw(t, "message")), Stack: strings.Repeat(rapid.String().Draw(t, "stack"), rapid.IntRange(0, 3000).Draw(t, "frames")),
	}
	if rapid.Bool().Draw(t, "retried") {
		f.LastTopic, f.LastPartition, f.LastOffset = topic.Draw(t, "last topic"), rapid.Int32Range(0, 99).Draw(t, "last partition"), rapid.Int64Range(0, 99).Draw(t, "last offset")
		f.RetryTopic = topic.Draw(t, "retry topic")
	}
	f.Headers = rapid.SliceOfN(rapid.Custom(func(t *rapid.T) message.Header {
		return message.Header{Name: rapid.SampledFrom([]string{"a", "b", "ce_id", "traceparent", message.HeaderEventID, "postrider-old", "kafka_dlt-x", "__connect.errors.y"}).Draw(t, "name"),
			Value: rapid.SampledFrom([][]byte{nil, {}, {0}, []byte("v")}).Draw(t, "value")}
	}), 0, 6).Draw(t, "headers")
	return f
})

// TestEncodeProperty: the own headers are kept in order, the added ones are bounded, and a letter that fails once more
// in the same way gets the same headers.
func TestEncodeProperty(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		f := anyFailure.Draw(t, "failure")
		writers := rapid.SliceOfN(rapid.SampledFrom(Writers()), 1, 3).Draw(t, "writers")
		hs, err := Encode(f, writers...)
		if err != nil {
			t.Fatal(err)
		}
		checkEncoded(t, f, hs, writers)
	})
}

// hopped are the headers that are there for the first hop and for the last.
var hopped = map[string]bool{springPrefix + "topic": true, springPrefix + "partition": true, springPrefix + "offset": true,
	connectPrefix + "topic": true, connectPrefix + "partition": true, connectPrefix + "offset": true}

func checkEncoded(t interface{ Fatalf(string, ...any) }, f Failure, hs []message.Header, writers []Writer) {
	bookkeeping := func(name string) bool {
		for _, w := range append(writers, Postrider) {
			if w.Owns(name) {
				return true
			}
		}
		return false
	}
	var want, got []message.Header
	for _, h := range f.Headers {
		if !bookkeeping(h.Name) {
			want = append(want, h)
		}
	}
	size, seen := 0, map[string]int{}
	for _, h := range hs {
		if !bookkeeping(h.Name) {
			got = append(got, h)
			continue
		}
		if size += len(h.Name) + len(h.Value); seen[h.Name] > 0 && (f.LastTopic == "" || seen[h.Name] > 1 || !hopped[h.Name]) {
			t.Fatalf("%s is there again", h.Name)
		}
		seen[h.Name]++
	}
	if written(got) != written(want) {
		t.Fatalf("own headers became\n%s, not\n%s", written(got), written(want))
	}
	if size > MaxBytes {
		t.Fatalf("%d bytes of bookkeeping", size)
	}
	f.Headers = hs
	again, err := Encode(f, writers...)
	if err != nil || written(again) != written(hs) {
		t.Fatalf("the second failure: %v\n%s\nafter\n%s", err, written(again), written(hs))
	}
}

// FuzzEncode: whatever an older set on the record says, Encode neither fails for it nor piles up.
func FuzzEncode(f *testing.F) {
	for _, w := range Writers() {
		hs, err := Encode(failure(), w)
		if err != nil {
			f.Fatal(err)
		}
		for i := 0; i+2 < len(hs); i++ {
			f.Add(hs[i].Name, hs[i].Value, hs[i+1].Name, hs[i+1].Value, hs[i+2].Name, hs[i+2].Value, "message", byte(i))
		}
	}
	f.Fuzz(func(t *testing.T, n1 string, v1 []byte, n2 string, v2 []byte, n3 string, v3 []byte, text string, which byte) {
		one := failure()
		one.ErrorMessage, one.Stack, one.ErrorCode = text, text, text
		if which&8 != 0 {
			one.LastTopic = ""
		}
		one.Headers = []message.Header{{Name: n1, Value: v1}, {Name: n2, Value: v2}, {Name: n3, Value: v3}}
		writers := Writers()[which%3:]
		hs, err := Encode(one, writers...)
		if err != nil {
			t.Fatalf("%v", err)
		}
		size := 0
		for _, h := range hs {
			size += len(h.Name) + len(h.Value)
		}
		if own := len(n1) + len(v1) + len(n2) + len(v2) + len(n3) + len(v3); size > own+MaxBytes {
			t.Fatalf("%d bytes, %d of them the record's own", size, own)
		}
		once, err := Encode(withHeaders(one, hs), writers...)
		if err != nil {
			t.Fatalf("%v", err)
		}
		twice, err := Encode(withHeaders(one, once), writers...)
		if err != nil || written(once) != written(twice) {
			t.Fatalf("%v\n%s\nbecame\n%s", err, written(once), written(twice))
		}
	})
}

func withHeaders(f Failure, hs []message.Header) Failure { f.Headers = hs; return f }

package dlq

import (
	"cmp"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"pgregory.net/rapid"

	"github.com/postrider/postrider/message"
	"github.com/postrider/postrider/message/dialect"
)

func aFailure() dialect.Failure {
	return dialect.Failure{
		Topic: "orders", Partition: 3, Offset: 42, Timestamp: time.UnixMilli(failedAt), TimestampType: "CreateTime",
		Group: "billing", Attempts: 5, FirstFailedAt: letterTime.Add(-time.Minute), LastFailedAt: letterTime,
		ErrorClass: "record", ErrorCode: "NO_ACCOUNT", ErrorMessage: "account 17 is not there", Stack: "main.go:1", RetryTopic: "orders.billing.retry.1s",
		Headers: []message.Header{header("trace", "t"), header(message.HeaderEventID, anEvent), {Name: "null"}},
	}
}

// written is the letter of a consumer in a dead-letter topic.
func written(t interface{ Fatal(...any) }, f dialect.Failure, writers ...dialect.Writer) Record {
	hs, err := dialect.Encode(f, writers...)
	if err != nil {
		t.Fatal(err)
	}
	return Record{Topic: "orders.dlq", Partition: 1, Offset: 7, Timestamp: letterTime, Key: []byte("k"), Value: []byte(`{"a":1}`), Headers: hs}
}

func TestConsumersLetters(t *testing.T) {
	t.Parallel()
	got := Decode(written(t, aFailure()))
	partition, offset, attempts, size := int32(3), int64(42), int32(5), int64(7)
	want := Letter{Source: MainSource,
		ID: "record:orders/3/42@1700000000123#billing", Dialect: DialectPostrider,
		DLQTopic: "orders.dlq", DLQPartition: 1, DLQOffset: 7, DLQRecordAt: letterTime,
		OriginTopic: "orders", OriginPartition: &partition, OriginOffset: &offset, ConsumerGroup: "billing", EventID: uuid.MustParse(anEvent),
		Key: []byte("k"), KeyKind: Inline, Payload: []byte(`{"a":1}`), PayloadKind: Inline, PayloadBytes: &size,
		Headers: []message.Header{header("trace", "t"), {Name: "null"}}, ErrorClass: "record", ErrorCode: "NO_ACCOUNT",
		ErrorMessage: "account 17 is not there", ErrorStack: "main.go:1", Attempts: &attempts, FirstFailedAt: letterTime.Add(-time.Minute), LastFailedAt: letterTime,
		CreatedAt: time.UnixMilli(failedAt).UTC(), RetryTopic: "orders.billing.retry.1s",
		Subject: Subject{SubjectRecord, "orders/3/42@1700000000123#billing"}, Reason: MaxRetriesExceeded, OriginalState: "failed",
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("Decode:\n got %+v\nwant %+v", got, want)
	}
	checkStorable(t, got)
}

// TestConsumersLettersAreTheSameInEveryDialect: which of the sets a collector reads changes neither the subject nor the
// id of a letter. So a change of the written dialects opens no investigation twice.
func TestConsumersLettersAreTheSameInEveryDialect(t *testing.T) {
	t.Parallel()
	retried := aFailure()
	retried.LastTopic, retried.LastPartition, retried.LastOffset = "orders.billing.retry.10s", 1, 99
	for _, f := range []dialect.Failure{aFailure(), retried} {
		sameInEveryDialect(t, f)
	}
}

func sameInEveryDialect(t *testing.T, f dialect.Failure) {
	t.Helper()
	ours := Decode(written(t, f))
	spring := Decode(written(t, f, dialect.Spring))
	if spring.Dialect != DialectSpring || spring.ID != ours.ID || spring.Subject != ours.Subject || spring.LastHop != ours.LastHop {
		t.Errorf("spring: %s %s %v", spring.Dialect, spring.ID, spring.Subject)
	}
	r := written(t, f, dialect.Connect)
	r.Timestamp = time.UnixMilli(failedAt) // which Connect keeps
	if connect := Decode(r); connect.Dialect != DialectConnect || connect.ID != ours.ID || connect.Subject != ours.Subject || connect.LastHop != ours.LastHop {
		t.Errorf("connect: %s %s %v", connect.Dialect, connect.ID, connect.Subject)
	}
}

// TestEncodedIsDecodedProperty: what a consumer says of a failure comes back from our set, and as far as the others
// have a place for it, from each of them alone.
func TestEncodedIsDecodedProperty(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringMatching(`[a-zA-Zäß€ .:]{0,60}`)
		topic := rapid.StringMatching(`[a-z][a-z0-9._-]{0,40}`)
		f := dialect.Failure{
			Topic: topic.Draw(t, "topic"), Partition: rapid.Int32Range(0, 1<<31-1).Draw(t, "partition"), Offset: rapid.Int64Range(0, 1<<63-1).Draw(t, "offset"),
			Timestamp: time.UnixMilli(rapid.Int64Range(1, 1<<47).Draw(t, "at")).UTC(), Group: rapid.StringMatching(`[a-zä.]{1,40}`).Draw(t, "group"),
			Attempts: rapid.Int32Range(1, 1000).Draw(t, "attempts"), FirstFailedAt: letterTime, LastFailedAt: letterTime.Add(time.Duration(rapid.Int64Range(0, 1e15).Draw(t, "took"))),
			ErrorClass: text.Draw(t, "class"), ErrorCode: text.Draw(t, "code"), ErrorMessage: text.Draw(t, "message"), Stack: text.Draw(t, "stack"),
			Headers: []message.Header{header("own", text.Draw(t, "own")), {Name: "null"}, {Name: "empty", Value: []byte{}}},
		}
		if rapid.Bool().Draw(t, "retried") {
			f.LastTopic, f.LastPartition, f.LastOffset, f.RetryTopic = topic.Draw(t, "last"), 1, 2, topic.Draw(t, "retry")
		}
		for _, w := range []dialect.Writer{dialect.Postrider, dialect.Spring, dialect.Connect} {
			r := written(t, f, w)
			r.Key, r.Value = rapid.SampledFrom([][]byte{nil, {}, []byte("k")}).Draw(t, "key"), rapid.SampledFrom([][]byte{nil, {}, []byte("v")}).Draw(t, "value")
			if w == dialect.Connect {
				r.Timestamp = f.Timestamp
			}
			l := Decode(r)
			if l.OriginTopic != f.Topic || *l.OriginPartition != f.Partition || *l.OriginOffset != f.Offset || !l.CreatedAt.Equal(f.Timestamp) || l.ConsumerGroup != f.Group {
				t.Fatalf("%s: origin %s/%d/%d at %v, group %s", w, l.OriginTopic, *l.OriginPartition, *l.OriginOffset, l.CreatedAt, l.ConsumerGroup)
			}
			if l.ErrorMessage != f.ErrorMessage || l.ErrorStack != f.Stack || w != dialect.Postrider && l.ErrorCode != cmp.Or(f.ErrorCode, f.ErrorClass) {
				t.Fatalf("%s: error %q %q %q", w, l.ErrorCode, l.ErrorMessage, l.ErrorStack)
			}
			if !reflect.DeepEqual(l.Headers, f.Headers) || !reflect.DeepEqual(l.Key, r.Key) || !reflect.DeepEqual(l.Payload, r.Value) {
				t.Fatalf("%s: headers %v, key %q, payload %q", w, l.Headers, l.Key, l.Payload)
			}
			if w == dialect.Connect {
				continue // has no attempts
			}
			if *l.Attempts != f.Attempts {
				t.Fatalf("%s: %d attempts", w, *l.Attempts)
			}
			if w == dialect.Postrider && (l.ErrorClass != f.ErrorClass || l.ErrorCode != f.ErrorCode || l.RetryTopic != f.RetryTopic ||
				!l.FirstFailedAt.Equal(f.FirstFailedAt) || !l.LastFailedAt.Equal(f.LastFailedAt) || (l.LastHop == "") != (f.LastTopic == "")) {
				t.Fatalf("ours: %+v", l)
			}
		}
	})
}

func TestConsumersLettersHops(t *testing.T) {
	t.Parallel()
	first := Decode(written(t, aFailure()))
	f := aFailure()
	f.LastTopic, f.LastPartition, f.LastOffset = "orders.billing.retry.10s", 1, 99
	retried := Decode(written(t, f))
	if retried.LastHop != "orders.billing.retry.10s/1/99" || retried.Subject != first.Subject || retried.ID == first.ID {
		t.Errorf("retried: %q %v %s", retried.LastHop, retried.Subject, retried.ID)
	}
	copied := written(t, f)
	copied.Offset, copied.Timestamp = 900, letterTime.Add(time.Hour)
	if Decode(copied).ID != retried.ID {
		t.Error("a letter that was written twice is two")
	}
	// Sent again by hand with its headers, it fails at another place: another letter about the same record.
	again := aFailure()
	again.Offset, again.Timestamp, again.Headers = 77, letterTime, written(t, aFailure()).Headers
	if l := Decode(written(t, again)); l.Subject != first.Subject || l.ID == first.ID || l.LastHop != "orders/3/77" {
		t.Errorf("put back: %v %s %q", l.Subject, l.ID, l.LastHop)
	}
	f = aFailure()
	f.Timestamp = time.Time{}
	if l := Decode(written(t, f)); l.ID != "record:orders.dlq/1/7@"+"1772600767890" || l.Subject.ID != "orders/3/42#billing" {
		t.Errorf("without a timestamp: %s %v", l.ID, l.Subject)
	}
}

func TestConsumersLettersLeniently(t *testing.T) {
	t.Parallel()
	own := func(hs ...message.Header) Record {
		f := aFailure()
		f.Headers = hs
		return written(t, f)
	}
	nothing := func(r Record, key, value bool) Record {
		if key {
			r.Key = nil
		}
		if value {
			r.Value = nil
		}
		return r
	}
	for name, test := range map[string]struct {
		record Record
		check  func(Letter) bool
	}{
		"an event id that is none":   {own(header(message.HeaderEventID, "x")), func(l Letter) bool { return l.EventID == uuid.Nil }},
		"two event ids":              {own(header(message.HeaderEventID, anEvent), header(message.HeaderEventID, anEvent)), func(l Letter) bool { return l.EventID.String() == anEvent }},
		"a task's letter":            {own(header("ce_type", TaskLetterType)), func(l Letter) bool { return l.Subject.Type == SubjectRecord }},
		"a retry topic that is none": {with(own(), message.HeaderRetryTopic, "a b"), func(l Letter) bool { return l.RetryTopic == "" }},
		"tombstone":                  {nothing(own(), false, true), func(l Letter) bool { return l.PayloadKind == Tombstone && l.KeyKind == Inline }},
		"payload left out": {nothing(with(with(own(), message.HeaderPayload, message.PayloadReference), message.HeaderPayloadBytes, "5000000"), false, true),
			func(l Letter) bool { return l.PayloadKind == Reference && *l.PayloadBytes == 5000000 }},
		"all left out": {nothing(with(with(own(), message.HeaderPayload, message.PayloadReference), message.HeaderKey, message.KeyReference), true, true),
			func(l Letter) bool { return l.PayloadKind == Reference && l.KeyKind == Reference }},
		"permanent":            {with(own(), message.HeaderErrorClass, "permanent"), func(l Letter) bool { return l.Reason == Undeliverable }},
		"a class of their own": {with(own(), message.HeaderErrorClass, "weird"), func(l Letter) bool { return l.Reason == MaxRetriesExceeded }},
		"tried once":           {with(with(own(), message.HeaderErrorClass, "-"), message.HeaderAttempts, "1"), func(l Letter) bool { return l.Reason == Unclassified }},
		"long stack":           {with(own(), message.HeaderErrorStack, strings.Repeat("at x\n", 9000)), func(l Letter) bool { return len(l.ErrorStack) == maxStackBytes }},
	} {
		l := Decode(test.record)
		checkStorable(t, l)
		if l.Dialect != DialectPostrider || !test.check(l) {
			t.Errorf("%s: %+v", name, l)
		}
		if slices.ContainsFunc(l.Headers, func(h message.Header) bool { return message.Reserved(h.Name) && h.Name != message.HeaderEventID }) {
			t.Errorf("%s: headers %v", name, l.Headers)
		}
	}
}

func TestBrokenConsumersLetters(t *testing.T) {
	t.Parallel()
	for says, r := range map[string]Record{
		"version that is not known":                  with(written(t, aFailure()), message.HeaderLetterVersion, "2"),
		"postrider-consumer-group is missing":        with(written(t, aFailure()), message.HeaderConsumerGroup, ""),
		"postrider-consumer-group is not the name":   with(written(t, aFailure()), message.HeaderConsumerGroup, "a\x00"),
		"postrider-origin-topic is not a topic name": with(written(t, aFailure()), message.HeaderOriginTopic, "a b"),
		"postrider-origin-partition is missing":      with(written(t, aFailure()), message.HeaderOriginPartition, "-"),
		"postrider-origin-offset is not a number":    with(written(t, aFailure()), message.HeaderOriginOffset, "-4"),
		"postrider-last-topic is not a topic name":   with(written(t, aFailure()), message.HeaderLastTopic, "a b"),
		"postrider-last-partition is missing":        with(written(t, aFailure()), message.HeaderLastTopic, "t"),
	} {
		l := Decode(r)
		checkStorable(t, l)
		if l.Dialect != DialectUnknown || l.ErrorCode != CodeBrokenHeaders || !strings.Contains(l.ErrorMessage, says) || !reflect.DeepEqual(l.Headers, r.Headers) {
			t.Errorf("%s: %s %q", says, l.Dialect, l.ErrorMessage)
		}
	}
}

// FuzzConsumersLetters feeds Decode with a consumer's letter that has arbitrary values in some headers.
func FuzzConsumersLetters(f *testing.F) {
	f.Add(message.HeaderOriginOffset, []byte("-1"), message.HeaderLastTopic, []byte("t"), byte(0))
	f.Add(message.HeaderConsumerGroup, []byte("\xff"), message.HeaderOriginTimestamp, []byte("9999999999999999"), byte(1))
	f.Fuzz(func(t *testing.T, n1 string, v1 []byte, n2 string, v2 []byte, nulls byte) {
		r := with(with(written(t, aFailure()), n1, string(v1)), n2, string(v2))
		if nulls&1 != 0 {
			r.Key, r.Value = nil, nil
		}
		l := Decode(r)
		checkStorable(t, l)
		checkStorable(t, Unstorable(l, errRefused))
	})
}

// TestRetryTopicIsReadInOnePlace: the header of our library counts in letters of every dialect whose group is known, in large
// or small letters, and only if it can be written. A redrive, a plan and a replay have it from the letter.
func TestRetryTopicIsReadInOnePlace(t *testing.T) {
	t.Parallel()
	spring := []message.Header{header("kafka_dlt-original-topic", "orders"), header("kafka_dlt-original-consumer-group", "billing")}
	for want, hs := range map[string][]message.Header{
		"orders.retry":  append(spring[:2:2], header(message.HeaderRetryTopic, "orders.retry")),
		"orders.retry2": append(spring[:2:2], header("Postrider-Retry-Topic", "orders.retry2")),
		"orders.retry3": append(spring[:2:2], header(message.HeaderRetryTopic, "no topic"), header(message.HeaderRetryTopic, "orders.retry3")),
		"":              append(spring[:1:1], header(message.HeaderRetryTopic, "of no group")),
	} {
		if l := Decode(Record{Topic: "orders-dlt", Headers: hs}); l.RetryTopic != want {
			t.Errorf("%q: %q, want %q", hs, l.RetryTopic, want)
		}
	}
}

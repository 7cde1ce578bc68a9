package dlq

import (
	"bytes"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/postrider/postrider/message"
)

const (
	anEvent = "0198c0de-1111-7222-8333-444455556666"
	aTask   = "0198c0de-9999-7222-8333-444455556666"
)

var letterTime = time.Date(2026, 3, 4, 5, 6, 7, 890_000_000, time.UTC)

func header(name, value string) message.Header {
	return message.Header{Name: name, Value: []byte(value)}
}

// ourRecord is a dead letter as the relay writes it.
func ourRecord() Record {
	return Record{
		Topic: "postrider.dlq", Partition: 3, Offset: 42, Timestamp: letterTime,
		Key: []byte("customer-7"), Value: []byte(`{"n":1}`),
		Headers: []message.Header{
			header("trace", "abc"), header("trace", "def"), {Name: "gone"},
			header(message.HeaderLetterVersion, "1"),
			header(message.HeaderEventID, anEvent),
			header(message.HeaderEpisode, "2"),
			header(message.HeaderOutboxID, "991"),
			header(message.HeaderOriginTopic, "orders"),
			header(message.HeaderAttempts, "5"),
			header(message.HeaderFirstFailedAt, "2026-03-04T05:00:00.5Z"),
			header(message.HeaderLastFailedAt, "2026-03-04T05:06:00Z"),
			header(message.HeaderErrorClass, "record"),
			header(message.HeaderErrorCode, "INVALID_RECORD"),
			header(message.HeaderErrorMessage, "the broker refused it"),
			header(message.HeaderCreatedAt, "2026-03-04T04:00:00Z"),
			header(message.HeaderPayload, message.PayloadInline),
			header(message.HeaderPayloadBytes, "7"),
			header(message.HeaderTaskUUID, aTask),
		},
	}
}

// with returns the record with a header of ours set anew, or without it when value is "-".
func with(r Record, name, value string) Record {
	r.Headers = slices.DeleteFunc(slices.Clone(r.Headers), func(h message.Header) bool { return h.Name == name })
	if value != "-" {
		r.Headers = append(r.Headers, header(name, value))
	}
	return r
}

func TestDecodeOurs(t *testing.T) {
	t.Parallel()
	got := Decode(ourRecord())
	episode, outboxID, attempts, size := int32(2), int64(991), int32(5), int64(7)
	want := Letter{Source: MainSource,
		ID: "event:" + anEvent + ":2", Dialect: DialectPostrider,
		DLQTopic: "postrider.dlq", DLQPartition: 3, DLQOffset: 42, DLQRecordAt: letterTime,
		OriginTopic: "orders", EventID: uuid.MustParse(anEvent), Episode: &episode, OutboxID: &outboxID,
		Key: []byte("customer-7"), KeyKind: Inline,
		Payload: []byte(`{"n":1}`), PayloadKind: Inline, PayloadBytes: &size,
		Headers:    []message.Header{header("trace", "abc"), header("trace", "def"), {Name: "gone"}},
		ErrorClass: "record", ErrorCode: "INVALID_RECORD", ErrorMessage: "the broker refused it",
		Attempts:      &attempts,
		FirstFailedAt: time.Date(2026, 3, 4, 5, 0, 0, 500_000_000, time.UTC),
		LastFailedAt:  time.Date(2026, 3, 4, 5, 6, 0, 0, time.UTC),
		CreatedAt:     time.Date(2026, 3, 4, 4, 0, 0, 0, time.UTC),
		TaskUUID:      uuid.MustParse(aTask),
		Subject:       Subject{SubjectEvent, anEvent}, Reason: MaxRetriesExceeded, OriginalState: "failed",
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("Decode:\n got %+v\nwant %+v", got, want)
	}
}

func TestDecodeOursVariants(t *testing.T) {
	t.Parallel()
	value := func(r Record, v []byte) Record { r.Value = v; return r }
	key := func(r Record, k []byte) Record { r.Key = k; return r }
	withoutSize := with(ourRecord(), message.HeaderPayloadBytes, "-")
	tombstone := value(with(withoutSize, message.HeaderPayload, message.PayloadTombstone), nil)
	reference := value(with(ourRecord(), message.HeaderPayload, message.PayloadReference), nil)
	for name, test := range map[string]struct {
		record Record
		check  func(Letter) bool
	}{
		"permanent class":        {with(ourRecord(), message.HeaderErrorClass, "permanent"), func(l Letter) bool { return l.Reason == Undeliverable }},
		"an outage for too long": {with(ourRecord(), message.HeaderErrorClass, "infrastructure"), func(l Letter) bool { return l.Reason == StalenessTimeout && l.ErrorClass == "infrastructure" }},
		"missing for too long":   {with(ourRecord(), message.HeaderErrorClass, "route"), func(l Letter) bool { return l.Reason == StalenessTimeout }},
		"skipped by hand": {with(with(ourRecord(), message.HeaderErrorClass, "permanent"), message.HeaderErrorCode, "SKIPPED"),
			func(l Letter) bool { return l.Reason == ManualDLQ }},
		"a broker's code of that name": {with(with(ourRecord(), message.HeaderErrorClass, "record"), message.HeaderErrorCode, "SKIPPED"),
			func(l Letter) bool { return l.Reason == MaxRetriesExceeded }},
		"another class":          {with(ourRecord(), message.HeaderErrorClass, "bad luck"), func(l Letter) bool { return l.Reason == Unclassified && l.ErrorClass == "bad luck" }},
		"a category":             {with(ourRecord(), message.HeaderErrorCategory, "validation"), func(l Letter) bool { return l.Category() == message.Validation }},
		"a word that is none":    {with(ourRecord(), message.HeaderErrorCategory, "serious"), func(l Letter) bool { return l.Category() == message.Transient }},
		"no class":               {with(ourRecord(), message.HeaderErrorClass, "-"), func(l Letter) bool { return l.Reason == Unclassified }},
		"null key":               {key(ourRecord(), nil), func(l Letter) bool { return l.Key == nil && l.KeyKind == Tombstone }},
		"empty key":              {key(ourRecord(), []byte{}), func(l Letter) bool { return l.Key != nil && len(l.Key) == 0 && l.KeyKind == Inline }},
		"referenced key":         {key(with(ourRecord(), message.HeaderKey, message.KeyReference), nil), func(l Letter) bool { return l.Key == nil && l.KeyKind == Reference }},
		"empty payload":          {value(withoutSize, []byte{}), func(l Letter) bool { return l.Payload != nil && l.PayloadKind == Inline && *l.PayloadBytes == 0 }},
		"size not said":          {withoutSize, func(l Letter) bool { return *l.PayloadBytes == 7 }},
		"tombstone":              {tombstone, func(l Letter) bool { return l.Payload == nil && l.PayloadKind == Tombstone && l.PayloadBytes == nil }},
		"reference":              {reference, func(l Letter) bool { return l.Payload == nil && l.PayloadKind == Reference && *l.PayloadBytes == 7 }},
		"reference, empty value": {value(reference, []byte{}), func(l Letter) bool { return l.Payload == nil && l.PayloadKind == Reference }},
		"no outbox id":           {with(ourRecord(), message.HeaderOutboxID, "-"), func(l Letter) bool { return l.OutboxID == nil }},
		"no attempts":            {with(ourRecord(), message.HeaderAttempts, "-"), func(l Letter) bool { return l.Attempts == nil }},
		"no task":                {with(ourRecord(), message.HeaderTaskUUID, "-"), func(l Letter) bool { return l.TaskUUID == uuid.Nil }},
		"zero time":              {with(ourRecord(), message.HeaderFirstFailedAt, "0001-01-01T00:00:00Z"), func(l Letter) bool { return l.FirstFailedAt.IsZero() }},
		"bad time":               {with(ourRecord(), message.HeaderLastFailedAt, "yesterday"), func(l Letter) bool { return l.LastFailedAt.IsZero() && l.OccurredAt().Equal(letterTime) }},
		"time in milliseconds":   {with(ourRecord(), message.HeaderLastFailedAt, "1767225600000"), func(l Letter) bool { return l.LastFailedAt.Year() == 2026 }},
		"time of another age":    {with(ourRecord(), message.HeaderLastFailedAt, "999999999999999999"), func(l Letter) bool { return l.LastFailedAt.IsZero() }},
		"long message":           {with(ourRecord(), message.HeaderErrorMessage, strings.Repeat("ä", 8<<10)), func(l Letter) bool { return len(l.ErrorMessage) == 8<<10 && strings.HasSuffix(l.ErrorMessage, "ä") }},
		"message with NUL":       {with(ourRecord(), message.HeaderErrorMessage, "a\x00b\xff"), func(l Letter) bool { return l.ErrorMessage == "a\uFFFDb\uFFFD" }},
		"uuid in capitals":       {with(ourRecord(), message.HeaderEventID, strings.ToUpper(anEvent)), func(l Letter) bool { return l.ID == "event:"+anEvent+":2" && l.Subject.ID == anEvent }},
		"the same header twice":  {Record{Headers: append(ourRecord().Headers, header(message.HeaderEpisode, "2")), Value: []byte("1234567")}, func(l Letter) bool { return *l.Episode == 2 && l.DLQRecordAt.IsZero() }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := Decode(test.record)
			if l.Dialect != DialectPostrider || !test.check(l) {
				t.Errorf("got %+v", l)
			}
		})
	}
}

func TestDecodeBroken(t *testing.T) {
	t.Parallel()
	value := func(r Record, v []byte) Record { r.Value = v; return r }
	for name, test := range map[string]struct {
		record Record
		says   string
	}{
		"other version":              {with(ourRecord(), message.HeaderLetterVersion, "2"), `version that is not known: "2"`},
		"no event id":                {with(ourRecord(), message.HeaderEventID, "-"), "postrider-event-id is missing"},
		"event id is no uuid":        {with(ourRecord(), message.HeaderEventID, "17"), "postrider-event-id is not a uuid"},
		"event id is zero":           {with(ourRecord(), message.HeaderEventID, uuid.Nil.String()), "postrider-event-id is not a uuid"},
		"no episode":                 {with(ourRecord(), message.HeaderEpisode, "-"), "postrider-episode is missing"},
		"episode too large":          {with(ourRecord(), message.HeaderEpisode, "2147483648"), "postrider-episode is not a number"},
		"negative episode":           {with(ourRecord(), message.HeaderEpisode, "-1"), "postrider-episode is not a number"},
		"bad outbox id":              {with(ourRecord(), message.HeaderOutboxID, "x"), "postrider-outbox-id is not a number"},
		"bad attempts":               {with(ourRecord(), message.HeaderAttempts, "many"), "postrider-attempts is not a number"},
		"bad task":                   {with(ourRecord(), message.HeaderTaskUUID, "t"), "postrider-task-uuid is not a uuid"},
		"no origin":                  {with(ourRecord(), message.HeaderOriginTopic, "-"), "postrider-origin-topic is missing"},
		"bad origin":                 {with(ourRecord(), message.HeaderOriginTopic, "a b"), "postrider-origin-topic is not a topic name"},
		"no payload kind":            {with(ourRecord(), message.HeaderPayload, "-"), "postrider-payload is missing"},
		"other payload kind":         {with(ourRecord(), message.HeaderPayload, "zip"), "does not fit the record's value"},
		"inline without value":       {value(ourRecord(), nil), "does not fit the record's value"},
		"wrong size":                 {value(ourRecord(), []byte("12")), "postrider-payload-bytes is 7, the value has 2 bytes"},
		"tombstone with value":       {with(ourRecord(), message.HeaderPayload, message.PayloadTombstone), "does not fit the record's value"},
		"reference with value":       {with(ourRecord(), message.HeaderPayload, message.PayloadReference), "does not fit the record's value"},
		"reference to nowhere":       {value(with(with(ourRecord(), message.HeaderPayload, message.PayloadReference), message.HeaderOutboxID, "-"), nil), "refers to it"},
		"key reference with key":     {with(ourRecord(), message.HeaderKey, message.KeyReference), "does not fit the record's key"},
		"a header twice, in discord": {Record{Headers: append(ourRecord().Headers, header(message.HeaderEpisode, "9")), Value: []byte("1234567")}, "is there twice"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := Decode(test.record)
			if l.Dialect != DialectUnknown || l.Reason != Unclassified || l.Subject.Type != SubjectRecord || l.EventID != uuid.Nil {
				t.Errorf("not degraded: %+v", l)
			}
			if l.ErrorCode != CodeBrokenHeaders || !strings.Contains(l.ErrorMessage, test.says) {
				t.Errorf("error %q %q does not say %q", l.ErrorCode, l.ErrorMessage, test.says)
			}
			if !reflect.DeepEqual(l.Headers, test.record.Headers) || !bytes.Equal(l.Key, test.record.Key) || !bytes.Equal(l.Payload, test.record.Value) {
				t.Errorf("something was lost: %+v", l)
			}
		})
	}
}

func TestDecodeUnknown(t *testing.T) {
	t.Parallel()
	r := Record{Topic: "orders-dlt", Partition: 1, Offset: 7, Timestamp: time.UnixMilli(1700000000123), Value: []byte{},
		Headers: []message.Header{header(message.HeaderEventID, anEvent), header("x-their-own", "orders")}}
	l := Decode(r)
	size := int64(0)
	want := Letter{Source: MainSource,
		ID: "record:orders-dlt/1/7@1700000000123", Dialect: DialectUnknown,
		DLQTopic: "orders-dlt", DLQPartition: 1, DLQOffset: 7, DLQRecordAt: time.UnixMilli(1700000000123).UTC(),
		KeyKind: Tombstone, Payload: []byte{}, PayloadKind: Inline, PayloadBytes: &size, Headers: r.Headers,
		EventID: uuid.MustParse(anEvent), Subject: Subject{SubjectRecord, "orders-dlt/1/7@1700000000123"}, Reason: Unclassified, OriginalState: "unknown",
	}
	if !reflect.DeepEqual(l, want) {
		t.Errorf("Decode:\n got %+v\nwant %+v", l, want)
	}
	if !l.DeadLetteredAt().Equal(r.Timestamp) || !l.OccurredAt().Equal(r.Timestamp) {
		t.Errorf("times %v and %v, want the record's", l.DeadLetteredAt(), l.OccurredAt())
	}

	again := r
	again.Timestamp = r.Timestamp.Add(time.Millisecond)
	if Decode(again).ID == l.ID {
		t.Error("the same place in a recreated topic has the same letter id")
	}

	r.Timestamp, r.Value = time.UnixMilli(-1), nil // as Kafka writes a record without a timestamp
	l = Decode(r)
	if l.ID != "record:orders-dlt/1/7" || !l.DLQRecordAt.IsZero() || l.PayloadKind != Tombstone || l.PayloadBytes != nil {
		t.Errorf("without timestamp and value: %+v", l)
	}
	if !l.DeadLetteredAt().IsZero() {
		t.Error("a time out of nowhere")
	}
}

func TestDecodeTimestampOutOfRange(t *testing.T) {
	t.Parallel()
	l := Decode(Record{Topic: "t", Timestamp: time.UnixMilli(1 << 62)})
	if !l.DLQRecordAt.IsZero() || l.ID != "record:t/0/0@4611686018427387904" {
		t.Errorf("got %s at %v", l.ID, l.DLQRecordAt)
	}
}

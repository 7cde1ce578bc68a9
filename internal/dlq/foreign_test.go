package dlq

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"flag"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/postrider/postrider/message"
)

var update = flag.Bool("update-dialects", false, "write the golden files of the dialects anew")

func be32(n int32) []byte { return binary.BigEndian.AppendUint32(nil, uint32(n)) }
func be64(n int64) []byte { return binary.BigEndian.AppendUint64(nil, uint64(n)) }
func raw(name string, v []byte) message.Header {
	return message.Header{Name: name, Value: v}
}

// failedAt is when the messages below were first written, in milliseconds.
const failedAt = 1_700_000_000_123

// foreignRecords are letters as their sources write them, with a header of the message's own.
var foreignRecords = map[string]Record{
	"spring": {Topic: "orders-dlt", Partition: 3, Offset: 9, Key: []byte("k"), Value: []byte(`{"a":1}`), Headers: []message.Header{
		header("trace", "t"), header("kafka_dlt-original-topic", "orders"), raw("kafka_dlt-original-partition", be32(3)),
		raw("kafka_dlt-original-offset", be64(42)), raw("kafka_dlt-original-timestamp", be64(failedAt)),
		header("kafka_dlt-original-timestamp-type", "CreateTime"), header("kafka_dlt-original-consumer-group", "billing"),
		header("kafka_dlt-exception-fqcn", "org.springframework.kafka.listener.ListenerExecutionFailedException"),
		header("kafka_dlt-exception-cause-fqcn", "java.lang.IllegalStateException"),
		header("kafka_dlt-exception-message", "Listener failed; no such account"), header("kafka_dlt-exception-stacktrace", "at a\nat b"),
		raw("kafka_deliveryAttempt", be32(10)), raw("springDeserializerExceptionValue", []byte{0xac, 0xed, 0, 5})}},
	"spring-twice": {Topic: "orders-dlt-dlt", Partition: 0, Offset: 1, Value: []byte("v"), Headers: []message.Header{
		header("kafka_dlt-original-topic", "orders"), raw("kafka_dlt-original-partition", be32(3)), raw("kafka_dlt-original-offset", be64(42)),
		header("kafka_dlt-original-consumer-group", "billing"), header("kafka_dlt-original-topic", "orders-dlt"),
		raw("kafka_dlt-original-partition", be32(1)), raw("kafka_dlt-original-offset", be64(7)),
		header("kafka_dlt-original-consumer-group", "repair"), header("kafka_dlt-exception-fqcn", "x.Y"), header("kafka_dlt-exception-message", "again")}},
	"spring-digits": {Topic: "orders-dlt", Offset: 1, Value: []byte("v"), Headers: []message.Header{ // eight bytes that look like text
		header("kafka_dlt-original-topic", "orders"), raw("kafka_dlt-original-partition", []byte("0001")), raw("kafka_dlt-original-offset", []byte("00000042"))}},
	"spring-key": {Topic: "orders-dlt", Offset: 1, Key: []byte{0xff}, Headers: []message.Header{
		header("kafka_dlt-original-topic", "orders"), raw("kafka_dlt-original-partition", be32(0)), raw("kafka_dlt-original-offset", be64(0)),
		header("kafka_dlt-key-exception-fqcn", "x.DeserializationException"), header("kafka_dlt-key-exception-message", "bad key"), header("kafka_dlt-key-exception-stacktrace", "at k")}},
	"spring-retry": {Topic: "orders-dlt", Partition: 1, Offset: 5, Value: []byte("v"), Headers: []message.Header{
		header("kafka_original-topic", "orders"), raw("kafka_original-partition", be32(1)), raw("kafka_original-offset", be64(17)),
		raw("kafka_original-timestamp", be64(failedAt)), header("kafka_original-timestamp-type", "CreateTime"),
		header("kafka_dlt-original-consumer-group", "billing"), header("kafka_exception-fqcn", "a.B"), header("kafka_exception-cause-fqcn", "c.D"),
		header("kafka_exception-message", "boom"), header("kafka_exception-stacktrace", "at x"), raw("retry_topic-attempts", be32(4)),
		raw("retry_topic-original-timestamp", []byte{0x01, 0x8b, 0xcf, 0xe5, 0x68, 0x7b}), raw("retry_topic-backoff-timestamp", []byte{0x7f})}},
	"spring-retry-old": {Topic: "orders-dlt", Offset: 5, Value: []byte("v"), Headers: []message.Header{
		header("kafka_original-topic", "orders"), raw("kafka_original-partition", be32(1)), raw("kafka_original-offset", be64(17)),
		raw("retry_topic-attempts", []byte{4}), raw("retry_topic-original-timestamp", []byte{0x01, 0x8b, 0xcf, 0xe5, 0x68, 0x7b})}},
	"connect": {Topic: "sink-dlq", Offset: 2, Timestamp: time.UnixMilli(failedAt), Key: []byte("k"), Value: []byte("not avro"), Headers: []message.Header{
		header("__connect.errors.topic", "orders"), header("__connect.errors.partition", "2"), header("__connect.errors.offset", "99"),
		header("__connect.errors.connector.name", "jdbc-sink"), header("__connect.errors.task.id", "0"), header("__connect.errors.stage", "VALUE_CONVERTER"),
		header("__connect.errors.class.name", "io.confluent.connect.avro.AvroConverter"),
		header("__connect.errors.exception.class.name", "org.apache.kafka.connect.errors.DataException"),
		raw("__connect.errors.exception.message", nil), header("__connect.errors.exception.stacktrace", "at y"), header("own", "x")}},
	"connect-without-origin": {Topic: "sink-dlq", Offset: 2, Timestamp: time.UnixMilli(failedAt), Value: []byte("v"), Headers: []message.Header{
		header("__connect.errors.connector.name", "jdbc-sink"), header("__connect.errors.exception.class.name", "x.Y"), header("__connect.errors.exception.message", "no record")}},
	"streams": {Topic: "app-dlq", Offset: 3, Headers: []message.Header{
		header("__streams.errors.exception", "org.apache.kafka.streams.errors.StreamsException"), raw("__streams.errors.message", nil),
		header("__streams.errors.stacktrace", "at z"), header("__streams.errors.topic", "orders"), header("__streams.errors.partition", "0"), header("__streams.errors.offset", "7")}},
	"share-group": {Topic: "share-dlq", Offset: 4, Headers: []message.Header{
		header("__dlq.errors.topic", "orders"), header("__dlq.errors.partition", "5"), header("__dlq.errors.offset", "1234"),
		header("__dlq.errors.group", "shippers"), header("__dlq.errors.delivery.count", "5"), header("__dlq.errors.message", "Offset delivery count exceeded the threshold.")}},
	"share-group-copied": {Topic: "share-dlq", Offset: 4, Key: []byte("k"), Value: []byte("v"), Headers: []message.Header{
		header("__dlq.errors.topic", "orders"), header("__dlq.errors.partition", "5"), header("__dlq.errors.offset", "1234"),
		header("__dlq.errors.group", "shippers"), header("__dlq.errors.message", "Offset rejected by client.")}},
	"cloud-stream": {Topic: "error.orders.billing", Offset: 1, Value: []byte("v"), Headers: []message.Header{
		header("x-original-topic", "orders"), raw("x-original-partition", be32(1)), raw("x-original-offset", be64(8)),
		raw("x-original-timestamp", be64(failedAt)), header("x-exception-fqcn", "a.B"), header("x-exception-message", "boom"), header("x-exception-stacktrace", "at s")}},
	"cloud-stream-text": {Topic: "error.orders.billing", Offset: 1, Value: []byte("v"), Headers: []message.Header{
		header("x-original-topic", "orders"), header("x-original-partition", "1"), header("x-original-offset", "8")}},
	"smallrye": {Topic: "dead-letter-topic-orders", Offset: 1, Value: []byte("v"), Headers: []message.Header{
		header("dead-letter-exception-class-name", "java.lang.RuntimeException"), header("dead-letter-reason", "no stock"),
		header("dead-letter-cause-class-name", "java.io.IOException"), header("dead-letter-cause", "closed"),
		header("dead-letter-topic", "orders"), header("dead-letter-partition", "0"), header("dead-letter-offset", "55")}},
	// Two retry topics, as the failure strategy delayed-retry-topic writes them: the newest hop first.
	"smallrye-retry": {Topic: "orders_retry_5000", Offset: 1, Value: []byte("v"), Headers: []message.Header{
		header("delayed-retry-exception-class-name", "java.lang.RuntimeException"), header("delayed-retry-reason", "still no stock"),
		header("delayed-retry-topic", "orders_retry_1000"), header("delayed-retry-partition", "1"), header("delayed-retry-offset", "7"),
		header("delayed-retry-count", "2"), header("delayed-retry-original-timestamp", "1700000000123"),
		header("delayed-retry-exception-class-name", "java.lang.RuntimeException"), header("delayed-retry-reason", "no stock"),
		header("delayed-retry-topic", "orders"), header("delayed-retry-partition", "0"), header("delayed-retry-offset", "55"),
		header("delayed-retry-count", "1"), header("delayed-retry-original-timestamp", "1700000000123"), header("own", "x")}},
	"smallrye-retried": {Topic: "dead-letter-topic-orders", Offset: 1, Value: []byte("v"), Headers: []message.Header{
		header("dead-letter-exception-class-name", "java.io.IOException"), header("dead-letter-reason", "gave up"),
		header("dead-letter-topic", "orders_retry_1000"), header("dead-letter-partition", "1"), header("dead-letter-offset", "7"),
		header("delayed-retry-exception-class-name", "java.lang.RuntimeException"), header("delayed-retry-reason", "no stock"),
		header("delayed-retry-topic", "orders"), header("delayed-retry-partition", "0"), header("delayed-retry-offset", "55"),
		header("delayed-retry-count", "1"), header("delayed-retry-original-timestamp", "1700000000123"), header("own", "x")}},
	"wolverine": {Topic: "wolverine-dead-letter-queue", Offset: 1, Value: []byte("v"), Headers: []message.Header{
		header("exception-type", "System.TimeoutException"), header("exception-message", "late"), header("exception-stack", "at w... (truncated)"),
		header("failed-at", "1700000000999"), header("original-destination", "kafka://topic/orders"), header("original-partition", "2"),
		header("original-offset", "3"), header("attempts", "3"), header("wolverine-kafka-retry-first-failed", "1700000000500")}},
	"karafka": {Topic: "orders-dead", Offset: 1, Value: []byte("v"), Headers: []message.Header{
		header("source_topic", "orders"), header("source_partition", "0"), header("source_offset", "12"), header("source_consumer_group", "app"), header("source_attempts", "4")}},
	"karafka-old": {Topic: "orders-dead", Offset: 1, Value: []byte("v"), Headers: []message.Header{
		header("original_topic", "orders"), header("original_partition", "0"), header("original_offset", "12"), header("original_consumer_group", "app"), header("original_attempts", "4")}},
	"nonsense": {Topic: "orders-dlt", Offset: 1, Timestamp: time.UnixMilli(failedAt), Value: []byte("v"), Headers: []message.Header{
		header("kafka_dlt-original-topic", "not a topic"), raw("kafka_dlt-original-partition", []byte{1, 2, 3}), raw("kafka_dlt-original-offset", be64(-1)),
		raw("kafka_dlt-exception-message", []byte("\xff\x00")), raw("kafka_deliveryAttempt", be32(-5))}},
}

// golden is the part of a letter that its golden file keeps.
type golden struct {
	Letter struct {
		ID, Dialect, OriginTopic, ConsumerGroup, ErrorClass, ErrorCode, ErrorMessage, ErrorStack, LastHop string
		OriginPartition                                                                                   *int32
		OriginOffset                                                                                      *int64
		Attempts                                                                                          *int32
		CreatedAt, FirstFailedAt, LastFailedAt                                                            string
		KeyKind, PayloadKind                                                                              BytesKind
		Subject                                                                                           Subject
		Reason                                                                                            Reason
		Headers                                                                                           json.RawMessage
	}
	Snapshot json.RawMessage
}

func goldenOf(l Letter) []byte {
	var g golden
	g.Letter.ID, g.Letter.Dialect, g.Letter.OriginTopic, g.Letter.ConsumerGroup = l.ID, string(l.Dialect), l.OriginTopic, l.ConsumerGroup
	g.Letter.ErrorClass, g.Letter.ErrorCode, g.Letter.ErrorMessage, g.Letter.ErrorStack, g.Letter.LastHop = l.ErrorClass, l.ErrorCode, l.ErrorMessage, l.ErrorStack, l.LastHop
	g.Letter.OriginPartition, g.Letter.OriginOffset, g.Letter.Attempts = l.OriginPartition, l.OriginOffset, l.Attempts
	g.Letter.CreatedAt, g.Letter.FirstFailedAt, g.Letter.LastFailedAt = timeText(l.CreatedAt), timeText(l.FirstFailedAt), timeText(l.LastFailedAt)
	g.Letter.KeyKind, g.Letter.PayloadKind, g.Letter.Subject, g.Letter.Reason = l.KeyKind, l.PayloadKind, l.Subject, l.Reason
	g.Letter.Headers = message.MarshalHeaders(l.Headers)
	g.Snapshot = Snapshot(l)
	out, err := json.MarshalIndent(g, "", "  ")
	if err != nil {
		panic(err)
	}
	return append(out, '\n')
}

// TestDialects compares each letter, and each record that is no letter, with its golden file, which a person has read.
func TestDialects(t *testing.T) {
	t.Parallel()
	records := maps.Clone(foreignRecords)
	records["ours"], records["ours-consumer"] = ourRecord(), written(t, aFailure())
	records["unknown"] = Record{Topic: "dead", Partition: 2, Offset: 4, Timestamp: time.UnixMilli(failedAt), Key: []byte{}, Value: []byte{0xff, 0},
		Headers: []message.Header{header("own", "x"), {Name: "null"}}}
	for name, r := range records {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := Decode(r)
			checkStorable(t, l)
			file := filepath.Join("testdata", "dialects", name+".json")
			got := goldenOf(l)
			if *update {
				if err := os.WriteFile(file, got, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil || !bytes.Equal(got, want) {
				t.Errorf("%v\n%s", err, got)
			}
		})
	}
}

// TestAnEventStaysAnEvent: an event of an outbox that another program gives up keeps its id.
func TestAnEventStaysAnEvent(t *testing.T) {
	t.Parallel()
	for name, r := range foreignRecords {
		r.Headers = append(slices.Clone(r.Headers), header(message.HeaderEventID, anEvent))
		l := Decode(r)
		if want := l.Dialect != DialectUnknown; want != (l.EventID.String() == anEvent) {
			t.Errorf("%s: the event is %s", name, l.EventID)
		}
	}
}

func TestDialectsAreTheirOwn(t *testing.T) {
	t.Parallel()
	for name, r := range foreignRecords {
		l := Decode(r)
		for _, h := range l.Headers {
			if h.Name != "trace" && h.Name != "own" {
				t.Errorf("%s: header %s is taken for the message's", name, h.Name)
			}
		}
		if string(l.Key) != string(r.Key) || string(l.Payload) != string(r.Value) || (l.Payload == nil) != (r.Value == nil) {
			t.Errorf("%s: key and payload are %q and %q", name, l.Key, l.Payload)
		}
	}
}

// TestACopyOfALetterIsKnown: a letter that its writer wrote twice has the same id, one of another group another.
func TestACopyOfALetterIsKnown(t *testing.T) {
	t.Parallel()
	r := foreignRecords["spring"]
	first := Decode(r)
	r.Offset, r.Timestamp = 500, time.UnixMilli(failedAt+5000)
	if again := Decode(r); again.ID != first.ID || again.Subject != first.Subject {
		t.Errorf("%s became %s", first.ID, again.ID)
	}
	r.Headers = append([]message.Header(nil), r.Headers...)
	for i, h := range r.Headers {
		if h.Name == "kafka_dlt-original-consumer-group" {
			r.Headers[i].Value = []byte("shipping")
		}
	}
	if other := Decode(r); other.ID == first.ID || other.Subject == first.Subject {
		t.Errorf("another group's letter is %s", other.ID)
	}
}

func TestNumbersOfDialects(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		read numbering
		in   string
		want int64
		ok   bool
	}{
		"decimal":              {decimal, "42", 42, true},
		"decimal, binary":      {decimal, "\x00\x00\x00\x2a", 0, false},
		"decimal, empty":       {decimal, "", 0, false},
		"four bytes":           {fixed, "\x00\x00\x00\x2a", 42, true},
		"eight bytes":          {fixed, "\x00\x00\x00\x00\x00\x00\x00\x2a", 42, true},
		"eight digits, binary": {fixed, "00000042", 0x3030303030303432, true},
		"three bytes":          {fixed, "\x00\x00\x2a", 0, false},
		"negative":             {fixed, "\xff\xff\xff\xff", -1, true},
		"any length":           {bigEndian, "\x01\x00\x00", 65536, true},
		"nine bytes":           {bigEndian, "123456789", 0, false},
		"either, text":         {either, "8", 8, true},
		"either, bytes":        {either, "\x00\x00\x00\x08", 8, true},
		"either, neither":      {either, "eight", 0, false},
	} {
		if n, ok := c.read([]byte(c.in)); n != c.want || ok != c.ok {
			t.Errorf("%s: %d, %v", name, n, ok)
		}
	}
}

func TestLongStacksAreCut(t *testing.T) {
	t.Parallel()
	r := Record{Topic: "d", Value: []byte("v"), Headers: []message.Header{header("kafka_dlt-original-topic", "t"), header("kafka_dlt-exception-stacktrace", strings.Repeat("at x\n", 10000))}}
	if l := Decode(r); len(l.ErrorStack) != maxStackBytes {
		t.Errorf("%d bytes", len(l.ErrorStack))
	}
}

// FuzzForeign feeds Decode with a known header and three others of any content: whatever comes out can be stored.
func FuzzForeign(f *testing.F) {
	for _, r := range foreignRecords {
		for i := range r.Headers {
			h := r.Headers
			f.Add(h[0].Name, h[0].Value, h[i].Name, h[i].Value, h[len(h)-1].Name, h[len(h)-1].Value, byte(i))
		}
	}
	f.Fuzz(func(t *testing.T, n1 string, v1 []byte, n2 string, v2 []byte, n3 string, v3 []byte, which byte) {
		d := foreignDialects[int(which)%len(foreignDialects)]
		l := Decode(Record{Topic: "d", Offset: 1, Value: []byte("v"), Headers: []message.Header{
			raw(d.known[0], v3), raw(n1, v1), raw(n2, v2), raw(n3, v3), raw(d.known[0], v1), raw(n1, v3)}})
		checkStorable(t, l)
		checkStorable(t, Unstorable(l, errRefused))
		if !json.Valid(Snapshot(l)) {
			t.Errorf("snapshot of %+v", l)
		}
	})
}

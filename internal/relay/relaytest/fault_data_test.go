package relaytest

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/postrider/postrider/internal/relay"
	"github.com/postrider/postrider/internal/relay/kafka"
	"github.com/postrider/postrider/internal/relay/postgres"
	"github.com/postrider/postrider/internal/testenv/kafkatest"
	"github.com/postrider/postrider/internal/testenv/pgtest"
	"github.com/postrider/postrider/message"
)

// TestFault29AnyBytes: keys and payloads arrive as they were written, whatever they are: none and empty
// stay apart, and so do tombstones and JSON's null.
func TestFault29AnyBytes(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	topic, dlq := r.broker.Topic(t, 3, nil), r.broker.Topic(t, 1, nil)
	values := map[string][]byte{
		"none": nil, "empty": {}, "an object": []byte("{}"), "null": []byte("null"), "NUL": {0}, "NUL within": []byte("a\x00b"),
		"not UTF-8": {0xff, 0xfe, 0xc3, 0x28}, "half a character": []byte("ü")[:1], "lines": []byte("a\r\nb\n"), "all bytes": allBytes(),
		"10 kB": bytes.Repeat([]byte("x\x00"), 5_000),
	}
	type pair struct{ key, value string }
	want := map[pair]int{}
	for kn, key := range values {
		for vn, value := range values {
			if kn == "10 kB" && vn == "10 kB" {
				continue // together they are over the limit of this rig
			}
			want[pair{show(key), show(value)}]++
			r.exec(`insert into postrider.outbox_event (topic, key, payload) values ($1, $2, $3)`, topic, key, value)
		}
	}
	r.start(dlq)
	r.until(drained)
	for _, rec := range r.broker.ReadAll(t, topic, len(values)*len(values)-1) {
		want[pair{show(rec.Key), show(rec.Value)}]--
	}
	for p, n := range want {
		if n != 0 {
			t.Errorf("key %.40s, payload %.40s: %d are missing", p.key, p.value, n)
		}
	}
}

// TestFault29GivenUpBytes: an event that is given up keeps its bytes in its dead letter, and when it is sent again: a tombstone
// stays one.
func TestFault29GivenUpBytes(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	topic, dlq := r.broker.Topic(t, 1, nil), r.broker.Topic(t, 1, nil)
	store := postgres.NewStore(r.pool, postgres.StoreOptions{})
	values := [][]byte{nil, {}, []byte("null"), {0}}
	for n, value := range values {
		r.exec(`insert into postrider.outbox_event (topic, key, payload, headers) values ($1, $2, $3, '{"bad": 7}')`, topic, fmt.Append(nil, n), value)
	}
	r.startWith(dlq, options{topic: func(s *relay.TopicSettings) { s.AfterLastAttempt = relay.PolicyHaltKey }})
	r.until(`(select count(*) from postrider.v_outbox_event where state = 'dead_lettered') = 4`)
	for _, rec := range r.broker.ReadAll(t, dlq, len(values)) {
		n, err := strconv.Atoi(string(rec.Key))
		if err != nil || show(rec.Value) != show(values[n]) || (header(rec, message.HeaderPayload) == message.PayloadTombstone) != (values[n] == nil) {
			t.Errorf("the dead letter of key %s has %s, said to be %s", rec.Key, show(rec.Value), header(rec, message.HeaderPayload))
		}
	}
	r.exec(`update postrider.outbox_exception set headers = '{}'`)
	for id := range values {
		if err := pgx.BeginFunc(t.Context(), r.pool, func(tx pgx.Tx) error { return store.Redrive(t.Context(), tx, int64(id+1)) }); err != nil {
			t.Fatal(err)
		}
	}
	r.until(`not exists (select from postrider.outbox_hold)`)
	for _, rec := range r.broker.ReadAll(t, topic, len(values)) {
		if n, err := strconv.Atoi(string(rec.Key)); err != nil || show(rec.Value) != show(values[n]) {
			t.Errorf("key %s arrived with %s", rec.Key, show(rec.Value))
		}
	}
}

// show tells none from empty.
func show(b []byte) string {
	if b == nil {
		return "none"
	}
	return fmt.Sprintf("%q", b)
}

func allBytes() []byte {
	all := make([]byte, 256)
	for i := range all {
		all[i] = byte(i)
	}
	return all
}

// TestFault29LargePayloads: 1 MB and 10 MB arrive where the limits allow them, among small ones of their key.
func TestFault29LargePayloads(t *testing.T) {
	t.Parallel()
	const limit = 12 << 20
	r := newRigOn(t, pgtest.New(t).URL, kafkatest.Kfake(t, kfake.BrokerConfigs(map[string]string{"message.max.bytes": fmt.Sprint(limit)})))
	topic, dlq := r.broker.Topic(t, 2, map[string]string{"max.message.bytes": fmt.Sprint(limit)}), r.broker.Topic(t, 1, nil)
	var want []string
	for n, size := range []int{10, 1 << 20, 10, 10 << 20, 10, 10 << 20, 1 << 20, 10} {
		payload := bytes.Repeat([]byte{byte('a' + n)}, size)
		want = append(want, digest(payload))
		r.exec(`insert into postrider.outbox_event (topic, key, payload) values ($1, 'k', $2)`, topic, payload)
	}
	r.startWith(dlq, options{kafka: func(c *kafka.Config) { c.MaxMessageBytes = limit }})
	r.until(drained)
	var got []string
	for _, rec := range r.broker.As(kgo.FetchMaxBytes(4*limit), kgo.FetchMaxPartitionBytes(2*limit)).ReadAll(t, topic, len(want)) {
		got = append(got, digest(rec.Value))
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("what arrived is\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// TestFault29HugePayload: a payload over the limit is refused when it is written; the error names the constraint. If the
// limit was raised to 256 MiB, an event of that size becomes a dead letter that refers to the row, which keeps the payload.
// No other event is held up.
func TestFault29HugePayload(t *testing.T) {
	t.Parallel()
	const huge = 256 << 20
	r := newRig(t)
	topic, dlq := r.broker.Topic(t, 1, nil), r.broker.Topic(t, 1, nil)
	const publish = `select postrider.outbox_publish_bytes($1, 'k'::text, convert_to(repeat('x', $2), 'UTF8'))`
	refused := func(sql string, size int, parts ...string) {
		t.Helper()
		_, err := r.pool.Exec(t.Context(), sql, topic, size)
		for _, part := range parts {
			if err == nil || !strings.Contains(err.Error(), part) {
				t.Errorf("%d bytes: %v, want %s", size, err, part)
			}
		}
	}
	refused(publish, 17<<20, "outbox_event_payload_size")
	refused(`insert into postrider.outbox_event (topic, key, payload) values ($1, 'k', convert_to(repeat('x', $2), 'UTF8'))`, 17<<20, "outbox_event_payload_size")
	r.exec(`select postrider.outbox_set_max_payload_bytes($1)`, huge)
	for _, size := range []int{1, huge, 2} {
		r.exec(publish, topic, size)
	}
	r.startWith(dlq, options{url: r.pool.Config().ConnString(), engine: func(c *relay.Config) { c.PublishTimeout = 5 * time.Second }})
	r.until(drained)
	for i, rec := range r.broker.ReadAll(t, topic, 2) {
		if len(rec.Value) != i+1 {
			t.Errorf("record %d has %d bytes", i, len(rec.Value))
		}
	}
	letters := r.broker.ReadAll(t, dlq, 1)
	if len(letters) != 1 || len(letters[0].Value) != 0 {
		t.Fatalf("%d letters", len(letters))
	}
	for _, want := range []kgo.RecordHeader{
		{Key: message.HeaderPayload, Value: []byte(message.PayloadReference)}, {Key: message.HeaderPayloadBytes, Value: []byte("268435456")},
		{Key: message.HeaderErrorCode, Value: []byte("MESSAGE_TOO_LARGE")},
	} {
		if !slices.ContainsFunc(letters[0].Headers, func(h kgo.RecordHeader) bool { return h.Key == want.Key && bytes.Equal(h.Value, want.Value) }) {
			t.Errorf("the letter does not say %s: %s", want.Key, want.Value)
		}
	}
	r.until(`(select payload_bytes = $1 and state = 'dead_lettered' from postrider.v_outbox_event where id = (select min(id) + 1 from postrider.outbox_event))`, huge)
}

func digest(b []byte) string { return fmt.Sprintf("%d %x", len(b), sha256.Sum256(b)) }

// TestFault31Headers: whatever a writer puts into headers, past the functions that would refuse it, the
// record has the relay's own header once, with the relay's value. An event that cannot be sent as it is becomes
// a dead letter, and a writer cannot forge the headers of that either.
func TestFault31Headers(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	topic, dlq := r.broker.Topic(t, 1, nil), r.broker.Topic(t, 1, nil)
	many := make([][2]string, 10_000)
	for i := range many {
		many[i] = [2]string{"h", ""}
	}
	tenThousand, err := json.Marshal(many)
	if err != nil {
		t.Fatal(err)
	}
	cases := map[string]struct {
		headers string
		given   bool // up
		want    []kgo.RecordHeader
	}{
		"none":            {`{}`, false, nil},
		"lines":           {`{"a": "c\r\nd"}`, false, []kgo.RecordHeader{{Key: "a", Value: []byte("c\r\nd")}}},
		"the same twice":  {`[["a", "1"], ["a", "2"]]`, false, []kgo.RecordHeader{{Key: "a", Value: []byte("1")}, {Key: "a", Value: []byte("2")}}},
		"null and empty":  {`[["a", null], ["b", ""]]`, false, []kgo.RecordHeader{{Key: "a"}, {Key: "b", Value: []byte{}}}},
		"bytes":           {`{"a": {"base64": "AP8="}}`, false, []kgo.RecordHeader{{Key: "a", Value: []byte{0, 255}}}},
		"other systems'":  {`{"ce_id": "1", "__TypeId__": "x"}`, false, []kgo.RecordHeader{{Key: "ce_id", Value: []byte("1")}, {Key: "__TypeId__", Value: []byte("x")}}},
		"our name":        {`{"postrider-event-id": "00000000-0000-0000-0000-000000000000"}`, true, nil},
		"our name, twice": {`[["postrider-event-id", "a"], ["postrider-event-id", "b"]]`, true, nil},
		"our prefix":      {`{"postrider-payload": "reference", "postrider-attempts": "0"}`, true, nil},
		"a number":        {`{"a": 1}`, true, nil},
		"nested":          {`{"a": {"b": {"c": "d"}}}`, true, nil},
		"not base64":      {`{"a": {"base64": "%%%"}}`, true, nil},
		"ten thousand":    {string(tenThousand), true, nil}, // over the rig's limit, or they would go
	}
	for name, c := range cases {
		r.exec(`insert into postrider.outbox_event (topic, key, payload, headers) values ($1, $2::bytea, $2::bytea, $3::jsonb)`, topic, []byte(name), c.headers)
	}
	for _, name := range []string{`{"a\r\nb": "c"}`, `[["a\u001fb", "c"]]`} { // a bridge to HTTP would be made to send others
		if _, err := r.pool.Exec(t.Context(), `insert into postrider.outbox_event (topic, payload, headers) values ($1, '', $2::jsonb)`, topic, name); err == nil || !strings.Contains(err.Error(), "outbox_event_headers_names") {
			t.Errorf("headers %s: %v", name, err)
		}
	}
	r.start(dlq)
	r.until(drained)
	records := map[bool][]*kgo.Record{false: r.broker.ReadAll(t, topic, 0), true: r.broker.ReadAll(t, dlq, 0)}
	for name, c := range cases {
		found := 0
		for _, rec := range records[c.given] {
			if keyOf(r, rec) != name {
				continue
			}
			found++
			wantOwn(t, r, name, rec)
			var rest []kgo.RecordHeader
			for _, h := range rec.Headers {
				if !message.Reserved(h.Key) {
					rest = append(rest, h)
				}
			}
			if !c.given && fmt.Sprintf("%q", rest) != fmt.Sprintf("%q", c.want) {
				t.Errorf("%s: the headers are %q, want %q", name, rest, c.want)
			}
		}
		if found != 1 {
			t.Errorf("%s: found in %d records", name, found)
		}
	}
	if n := len(records[false]) + len(records[true]); n != len(cases) {
		t.Errorf("%d records of %d events", n, len(cases))
	}
}

// keyOf is the key of the row that a record says it comes from; a bare dead letter has none of its own.
func keyOf(r *rig, rec *kgo.Record) string {
	for _, h := range rec.Headers {
		if h.Key == message.HeaderEventID {
			var key []byte
			if err := r.pool.QueryRow(r.Context(), `select key from postrider.outbox_event where event_id::text = $1`, string(h.Value)).Scan(&key); err == nil {
				return string(key)
			}
		}
	}
	return ""
}

// wantOwn checks that each of our headers is there at most once, and the event id as the row has it.
func wantOwn(t *testing.T, r *rig, name string, rec *kgo.Record) {
	t.Helper()
	seen := map[string]string{}
	for _, h := range rec.Headers {
		if !message.Reserved(h.Key) {
			continue
		}
		if _, twice := seen[h.Key]; twice {
			t.Errorf("%s: %s is there twice", name, h.Key)
		}
		seen[h.Key] = string(h.Value)
	}
	var id string
	if err := r.pool.QueryRow(t.Context(), `select event_id::text from postrider.outbox_event where key = $1`, []byte(name)).Scan(&id); err != nil || seen[message.HeaderEventID] != id {
		t.Errorf("%s: the record says it is event %s, the row %s, %v", name, seen[message.HeaderEventID], id, err)
	}
}

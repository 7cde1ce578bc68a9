package relaytest

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/postrider/postrider/internal/relay"
	"github.com/postrider/postrider/internal/testenv/kafkatest"
	"github.com/postrider/postrider/internal/testenv/pgtest"
	debezium "github.com/postrider/postrider/internal/wire"
	"github.com/postrider/postrider/message"
)

// TestWireOfTheEventRouter: rows as the forwarding trigger writes them become the records of Debezium's event router: key,
// value, headers, partition and timestamp. One that cannot be sent becomes a dead letter that is found by the id which the
// trigger kept, and the others of its batch arrive.
func TestWireOfTheEventRouter(t *testing.T) {
	t.Parallel()
	b := kafkatest.Kfake(t)
	w := &debezium.Rule{Key: debezium.JSON, Value: debezium.JSON, Expand: true, Tombstones: true}
	if err := w.Validate(); err != nil {
		t.Fatal(err)
	}
	r := newRigOn(t, pgtest.New(t).URL, b)
	topic, dlq := b.Topic(t, 4, nil), b.Topic(t, 1, nil)
	at := time.UnixMilli(1614834367891)
	const write = `insert into postrider.outbox_event (event_id, topic, key, payload, headers, partition, timestamp)
			values ($1, $2, $3, $4, jsonb_build_array(jsonb_build_array('id', $1::uuid::text), jsonb_build_array('tenant', null)), $5, $6)`
	ids := make([]uuid.UUID, 5)
	for i := range ids {
		ids[i] = uuid.New()
	}
	r.exec(write, ids[0], topic, []byte("o-1"), []byte(`{"a": 2.50, "b": null}`), 3, at)
	r.exec(write, ids[1], topic, []byte("o-1"), []byte(`{"big": 12345678901234567890}`), 3, at)
	r.exec(write, ids[2], topic, []byte("o-2"), []byte(`{}`), 9, at) // of four
	r.exec(write, ids[3], topic, []byte("o-3"), nil, 0, at)
	r.exec(write, ids[4], topic, []byte("o-3"), []byte(`{"a": "é"}`), 0, at)
	r.startWith(dlq, options{topic: func(s *relay.TopicSettings) { s.Wire = w }})
	r.until(`(select count(*) = 4 from postrider.v_outbox_event where state = 'published') and (select count(*) = 1 from postrider.v_outbox_event where state = 'dead_lettered')`)
	var got []string
	for _, rec := range b.ReadAll(t, topic, 4) {
		if !rec.Timestamp.Equal(at) {
			t.Errorf("%s has the timestamp %v", rec.Value, rec.Timestamp)
		}
		value := "null"
		if rec.Value != nil {
			value = string(rec.Value)
		}
		id := slices.IndexFunc(ids, func(id uuid.UUID) bool { return id.String() == string(rec.Headers[0].Value) })
		got = append(got, fmt.Sprintf("%d: %s %s on %d, %d headers, %s of %d, %s null %v", id, rec.Key, value, rec.Partition, len(rec.Headers), rec.Headers[0].Key, id, rec.Headers[1].Key, rec.Headers[1].Value == nil))
	}
	slices.Sort(got)
	want := []string{
		`0: "o-1" {"a":2.5} on 3, 2 headers, id of 0, tenant null true`,
		`1: "o-1" {"big": 12345678901234567890} on 3, 2 headers, id of 1, tenant null true`,
		`3: "o-3" null on 0, 2 headers, id of 3, tenant null true`,
		`4: "o-3" {"a":"é"} on 0, 2 headers, id of 4, tenant null true`,
	}
	if !slices.Equal(got, want) {
		t.Errorf("arrived\n%q, want\n%q", got, want)
	}
	letter := b.ReadAll(t, dlq, 1)[0]
	headers := map[string]string{}
	for _, h := range letter.Headers {
		headers[h.Key] = string(h.Value)
	}
	if headers[message.HeaderEventID] != ids[2].String() || headers[message.HeaderErrorCode] != "NO_SUCH_PARTITION" || headers[message.HeaderWire] != message.WireDebezium ||
		headers[message.HeaderPartition] != "9" || headers["id"] != ids[2].String() || string(letter.Key) != "o-2" || string(letter.Value) != "{}" {
		t.Errorf("the letter is %q with key %q and headers %v", letter.Value, letter.Key, headers)
	}
	if id := pgtest.Value[int64](r, r.pool, `select postrider.outbox_find_event($1)`, ids[2]); id != 3 {
		t.Errorf("the event of the letter is found as %d", id)
	}
}

package relay

import (
	"slices"
	"strings"
	"testing"

	"github.com/postrider/postrider/internal/wire"
)

// wireOf is a rule with keys and values in JSON.
func wireOf(t *testing.T) *wire.Rule {
	t.Helper()
	w := &wire.Rule{Key: wire.JSON, Value: wire.JSON, Expand: true}
	if err := w.Validate(); err != nil {
		t.Fatal(err)
	}
	return w
}

// TestWire: where a topic has a wire, the record has the bytes of the event router and no header of ours; its dead letter
// has the event as it was written, and its id.
func TestWire(t *testing.T) {
	t.Parallel()
	e := with(keyed(7, "o-1"), func(e *Event) {
		e.Payload, e.Headers = []byte(`{"a": 2.50, "b": null}`), []byte(`[["id", "the id"], ["tenant", null], ["wire-tracing", "traceparent=00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"]]`)
		e.Partition = new(int32(2))
	})
	x := newEncoder("shop", 1)
	m, o := x.message(&e, wireOf(t))
	if o != nil {
		t.Fatal(o)
	}
	want := []string{`traceparent="00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"`, `id="the id"`, "tenant=null"}
	if string(m.Key) != `"o-1"` || string(m.Value) != `{"a":2.5}` || *m.Partition != 2 || !slices.Equal(describeHeaders(m.Headers), want) {
		t.Errorf("key %s, value %s, partition %v, headers %q", m.Key, m.Value, m.Partition, describeHeaders(m.Headers))
	}
	if m.ID != (MessageID{Source: "shop", EventID: e.EventID}) {
		t.Errorf("the message is known as %+v", m.ID)
	}
	e.Wired = true
	l := letterAt(&e, "shop", "", "dlq", whole)
	if string(l.Key) != "o-1" || string(l.Value) != string(e.Payload) || !slices.Contains(describeHeaders(l.Headers), `postrider-event-id="`+e.EventID.String()+`"`) ||
		!slices.Contains(describeHeaders(l.Headers), `postrider-wire="debezium"`) {
		t.Errorf("its letter has key %s, value %s and headers %q", l.Key, l.Value, describeHeaders(l.Headers))
	}
}

// TestWireOfARedrive: what Postrider wrote into the row of a redrive is sent beside the headers of the event.
func TestWireOfARedrive(t *testing.T) {
	t.Parallel()
	e := with(keyed(7, "k"), func(e *Event) {
		e.Redriven, e.Headers = true, []byte(`[["id","x"],["replay_id","r"],["postrider-hops","1"]]`)
	})
	m, o := newEncoder("", 1).message(&e, wireOf(t))
	if want := []string{`id="x"`, `replay_id="r"`, `postrider-hops="1"`}; o != nil || !slices.Equal(describeHeaders(m.Headers), want) {
		t.Errorf("headers %q, %v", describeHeaders(m.Headers), o)
	}
}

// TestWireOfAnOrdinaryEvent: a service that writes to the outbox itself need not know of the wire. Consumers find the id where
// they look for it.
func TestWireOfAnOrdinaryEvent(t *testing.T) {
	t.Parallel()
	e := with(keyed(7, "k"), func(e *Event) { e.Headers = []byte(`{"a":"b"}`) })
	m, o := newEncoder("", 1).message(&e, wireOf(t))
	if want := []string{`id="00000000-0000-0000-0000-000000000007"`, `a="b"`}; o != nil || !slices.Equal(describeHeaders(m.Headers), want) {
		t.Errorf("headers %q, %v", describeHeaders(m.Headers), o)
	}
}

// TestWireThatDoesNotFit: an event that is not what the wire needs is given up, and says why.
func TestWireThatDoesNotFit(t *testing.T) {
	t.Parallel()
	number, _ := wire.ParseType("int64")
	w := &wire.Rule{Key: wire.JSON, KeyType: number, Value: wire.String}
	if err := w.Validate(); err != nil {
		t.Fatal(err)
	}
	e := keyed(7, "seven")
	_, o := newEncoder("", 1).message(&e, w)
	if o == nil || o.Class != Permanent || o.Code != CodeInvalidWire || !strings.Contains(o.Message, `the key: "seven" is no int64`) {
		t.Errorf("the outcome is %+v", o)
	}
}

// TestWireDecidesThePartition: a hold of a partition is about the keys as they are sent.
func TestWireDecidesThePartition(t *testing.T) {
	t.Parallel()
	r, err := New(Config{Store: &fakeStore{}, Publisher: &fakePublisher{}, TopicSettings: func(topic string) TopicSettings {
		if topic == "wired" {
			return TopicSettings{Wire: wireOf(t)}
		}
		return TopicSettings{}
	}})
	if err != nil {
		t.Fatal(err)
	}
	for topic, want := range map[string]int32{"t": 3, "wired": 5} { // with its quotes
		e := with(keyed(1, "abc"), func(e *Event) { e.Topic = topic })
		if got := r.partitionOf(&e, 100); got != want {
			t.Errorf("%s: partition %d, want %d", topic, got, want)
		}
	}
}

package relay

import (
	"encoding/hex"
	"fmt"
	"slices"

	"github.com/google/uuid"

	"github.com/postrider/postrider/internal/wire"
	"github.com/postrider/postrider/message"
)

// Codes of failures that the relay itself finds; the others are the broker's names.
const (
	// CodeInvalidHeaders: the stored headers are not what the header contract allows.
	CodeInvalidHeaders = "INVALID_HEADERS"
	// CodeInvalidTopic: the stored topic is not a Kafka topic name.
	CodeInvalidTopic = "INVALID_TOPIC"
	// CodeReservedTopic: a service wrote to a topic that is Postrider's own.
	CodeReservedTopic = "RESERVED_TOPIC"
	// CodeTopicNotAllowed: the settings of the source do not allow its events to go to this topic.
	CodeTopicNotAllowed = "TOPIC_NOT_ALLOWED"
	// CodeInvalidWire: the event is not what the wire of its topic needs.
	CodeInvalidWire = "INVALID_WIRE"
	// CodeWithheld: it was not sent, because an earlier one did not go.
	CodeWithheld = "WITHHELD"
	// CodeSkipped: an operator gave the event up.
	CodeSkipped = message.CodeSkipped
	// CodeWorkerKilled: the event was in flight, alone, whenever its worker died.
	CodeWorkerKilled = "WORKER_KILLED"
	// CodeEventDeleted, of class permanent: the event's row was deleted while the event waited.
	CodeEventDeleted = "EVENT_DELETED"
)

// encoder makes the messages of a batch. Each message has headers of its own, its id and where the outbox has a name that
// name; all these headers are cut from two allocations.
type encoder struct {
	topic   string // the last valid one
	name    string // of the source
	source  []byte // the same; nil for none
	ids     []byte
	headers []message.Header
}

func newEncoder(source string, events int) *encoder {
	x := &encoder{name: source, ids: make([]byte, 0, events*idBytes)}
	each := 1
	if source != "" {
		x.source, each = []byte(source), 2
	}
	x.headers = make([]message.Header, 0, each*events)
	return x
}

// idBytes is the length of an event id as text.
const idBytes = 36

// message encodes an event for its own topic, as the wire of the topic says; nil for none. The outcome is nil, or Permanent
// for an event that cannot be encoded.
func (x *encoder) message(e *Event, w *wire.Rule) (Message, *Outcome) {
	m := Message{
		ID:    MessageID{Source: x.name, EventID: e.EventID, Episode: e.Episode},
		Topic: e.Topic, Key: e.Key, Value: e.Payload, Partition: e.Partition, Timestamp: e.Timestamp,
	}
	if e.Topic != x.topic || x.topic == "" {
		if err := message.ValidTopic(e.Topic); err != nil {
			return m, &Outcome{Class: Permanent, Code: CodeInvalidTopic, Message: err.Error()}
		}
		x.topic = e.Topic
	}
	hs, err := message.ParseHeaders(e.Headers)
	if err != nil {
		return m, &Outcome{Class: Permanent, Code: CodeInvalidHeaders, Message: err.Error()}
	}
	identity := e.EventID
	for _, h := range hs {
		if !message.Reserved(h.Name) {
			continue
		}
		if !e.keepsHeader(h.Name) {
			return m, &Outcome{Class: Permanent, Code: CodeInvalidHeaders,
				Message: fmt.Sprintf("header %q: names beginning with %s are the relay's own", h.Name, message.HeaderPrefix)}
		}
		if h.Name == message.HeaderRedriveOf {
			if first := message.RedriveEventID(string(h.Value)); first != uuid.Nil {
				identity = first
			}
		}
	}
	if w != nil {
		rec, err := w.Record(e.Key, e.Payload, hs)
		if err != nil {
			return m, &Outcome{Class: Permanent, Code: CodeInvalidWire, Message: err.Error()}
		}
		m.Key, m.Value, m.Headers = rec.Key, rec.Value, rec.Headers
		if !slices.ContainsFunc(m.Headers, func(h message.Header) bool { return h.Name == wire.HeaderID }) {
			m.Headers = slices.Insert(m.Headers, 0, message.Header{Name: wire.HeaderID, Value: x.id(identity)})
		}
		return m, nil
	}
	begin := len(x.headers)
	x.headers = append(x.headers, message.Header{Name: message.HeaderEventID, Value: x.id(identity)})
	if x.source != nil {
		x.headers = append(x.headers, message.Header{Name: message.HeaderSource, Value: x.source})
	}
	own := x.headers[begin:len(x.headers):len(x.headers)]
	if len(hs) > 0 {
		own = append(hs, own...)
	}
	m.Headers = own
	return m, nil
}

// id returns an event id as text, in the usual form of a UUID.
func (x *encoder) id(id uuid.UUID) []byte {
	begin := len(x.ids)
	for i, part := range [][]byte{id[0:4], id[4:6], id[6:8], id[8:10], id[10:16]} {
		if i > 0 {
			x.ids = append(x.ids, '-')
		}
		x.ids = hex.AppendEncode(x.ids, part)
	}
	return x.ids[begin:len(x.ids):len(x.ids)]
}

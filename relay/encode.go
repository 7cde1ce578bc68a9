package relay

import (
	"fmt"

	"github.com/postrider/postrider/relay/outbox"
)

// Codes of failures that the relay itself finds; the others are the broker's names.
const (
	// CodeInvalidHeaders: the stored headers are not what the header contract allows.
	CodeInvalidHeaders = "INVALID_HEADERS"
	// CodeInvalidTopic: the stored topic is not a Kafka topic name.
	CodeInvalidTopic = "INVALID_TOPIC"
	// CodeWorkerKilled: the event was in flight, alone, whenever its worker died.
	CodeWorkerKilled = "WORKER_KILLED"
)

// message encodes an event for its own topic. The outcome is nil, or Permanent for an event that
// cannot be encoded.
func message(e *outbox.Event) (Message, *Outcome) {
	m := Message{
		ID:    MessageID{EventID: e.EventID, Episode: e.Episode},
		Topic: e.Topic, Key: e.Key, Value: e.Payload,
	}
	if err := outbox.ValidTopic(e.Topic); err != nil {
		return m, &Outcome{Class: Permanent, Code: CodeInvalidTopic, Message: err.Error()}
	}
	hs, err := outbox.ParseHeaders(e.Headers)
	if err != nil {
		return m, &Outcome{Class: Permanent, Code: CodeInvalidHeaders, Message: err.Error()}
	}
	for _, h := range hs {
		if outbox.Reserved(h.Name) {
			return m, &Outcome{Class: Permanent, Code: CodeInvalidHeaders,
				Message: fmt.Sprintf("header %q: names beginning with %s are the relay's own", h.Name, outbox.HeaderPrefix)}
		}
	}
	m.Headers = append(hs, outbox.Header{Name: outbox.HeaderEventID, Value: []byte(e.EventID.String())})
	return m, nil
}

package consumer

import (
	"bytes"
	"slices"
	"strings"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/postrider/postrider/internal/tracecontext"
	"github.com/postrider/postrider/message"
)

// Message is one record. Its bytes are the record's own and may be kept, but not changed.
type Message struct {
	// Topic, Partition and Offset are where the message was read; at a later attempt that may be a retry topic.
	Topic     string
	Partition int32
	Offset    int64
	// Key is nil where there is none; Value is nil for a tombstone. An empty slice is not nil.
	Key, Value []byte
	// Headers are all of the record's, in order.
	Headers []message.Header
	// Timestamp is the record's, in milliseconds; before 1970 where it has none.
	Timestamp time.Time
	// LogAppendTime says that the broker set the timestamp, not the producer.
	LogAppendTime bool

	past *past // nil if it never failed
	// traced is the span of its newest attempt; nil where none are made.
	traced *trace.SpanContext
}

// Names of headers that are not the outbox's and that redriven messages have.
const (
	headerReplayOf = "replay_of"
	headerReplayID = "replay_id"
)

// Origin is where a message was first read.
type Origin struct {
	Topic     string
	Partition int32
	Offset    int64
	// Timestamp is the record's at that place.
	Timestamp     time.Time
	LogAppendTime bool
}

// past holds the earlier attempts of a message.
type past struct {
	failed                  int // attempts that failed
	firstFailed, lastFailed time.Time
	due                     time.Time // zero: at once
	origin                  Origin
}

// Attempt is 1 when the message is tried for the first time.
func (m *Message) Attempt() int {
	if m.past == nil {
		return 1
	}
	return m.past.failed + 1
}

// FirstFailedAt is when the message failed first; zero when it never did.
func (m *Message) FirstFailedAt() time.Time {
	if m.past == nil {
		return time.Time{}
	}
	return m.past.firstFailed
}

// Origin is where the message was first read, before any retry topic, and before it was redriven or replayed to one.
func (m *Message) Origin() Origin {
	if m.past != nil && m.past.origin.Topic != "" {
		return m.past.origin
	}
	return Origin{Topic: m.Topic, Partition: m.Partition, Offset: m.Offset, Timestamp: m.Timestamp, LogAppendTime: m.LogAppendTime}
}

// Header returns the first value of a header, and whether it is there.
func (m *Message) Header(name string) ([]byte, bool) {
	for i := range m.Headers {
		if m.Headers[i].Name == name {
			return m.Headers[i].Value, true
		}
	}
	return nil, false
}

// EventID is the outbox event's uuid, the same for every copy and for every redrive; empty for a message that did not come
// from an outbox.
func (m *Message) EventID() string { return m.text(message.HeaderEventID) }

// ReplayID names the redrive that sent the message again; empty for a message that was not redriven. Copies of one redrive
// have the same replay id.
func (m *Message) ReplayID() string { return m.text(headerReplayID) }

// ReplayOf names the dead letter whose message was redriven; empty for a message that was not redriven.
func (m *Message) ReplayOf() string { return m.text(headerReplayOf) }

// TraceID is the trace of the header traceparent (W3C trace context), empty where there is none
// that can be read.
func (m *Message) TraceID() string { return tracecontext.ID(m.Headers) }

func (m *Message) text(name string) string {
	v, _ := m.Header(name)
	return string(v)
}

// size is how many bytes it counts against the limit.
func (m *Message) size() int64 {
	n := len(m.Key) + len(m.Value)
	for i := range m.Headers {
		n += len(m.Headers[i].Name) + len(m.Headers[i].Value)
	}
	return int64(n)
}

// clone is a message that shares no memory with its fetch.
func (m *Message) clone() *Message {
	c := *m
	c.Key, c.Value = bytes.Clone(m.Key), bytes.Clone(m.Value)
	c.Headers = slices.Clone(m.Headers)
	for i, h := range c.Headers {
		c.Headers[i] = message.Header{Name: strings.Clone(h.Name), Value: bytes.Clone(h.Value)}
	}
	return &c
}

// failed takes note of a failed attempt.
func (m *Message) failed(at time.Time) {
	if m.past == nil {
		m.past = &past{origin: m.Origin(), firstFailed: at}
	}
	if m.past.firstFailed.IsZero() {
		m.past.firstFailed = at
	}
	m.past.failed++
	m.past.lastFailed = at
}

package relay

import (
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/postrider/postrider/message"
)

// maxErrorBytes caps the error message in a dead letter's header, maxBareErrorBytes that of a bare one:
// a bare letter has to fit, because there is nothing less to send.
const (
	maxErrorBytes     = 4 << 10
	maxBareErrorBytes = 256
	// maxBareHeaderBytes caps the headers that cannot be read in a bare letter; see message.HeaderInvalidHeaders.
	maxBareHeaderBytes = 256
)

// fit is how much of an event its dead letter carries.
type fit int

const (
	// whole: key, payload and headers, byte for byte.
	whole fit = iota
	// withoutPayload: the payload is referred to.
	withoutPayload
	// bare: key, payload and headers are referred to.
	bare
)

// letter encodes the dead letter of an exhausted event, as whole as fits.
func letter(e *Event, source, desk, topic string, fits fit, check func(*Message, int) *Outcome) (Message, fit) {
	for ; ; fits++ {
		m := letterAt(e, source, desk, topic, fits)
		if fits == bare || check(&m, 0) == nil {
			return m, fits
		}
	}
}

func letterAt(e *Event, source, desk, topic string, fits fit) Message {
	m := Message{ID: MessageID{Source: source, EventID: e.EventID, Episode: e.Episode, Letter: true}, Topic: topic}
	hs, err := message.ReadableHeaders(e.Headers)
	invalid := err != nil
	if fits < bare {
		m.Key = e.Key
	}
	for _, h := range hs {
		switch {
		case e.keepsHeader(h.Name):
			if h.Name != message.HeaderHops { // which is added below
				m.Headers = append(m.Headers, h)
			}
		case message.Reserved(h.Name):
			invalid = true
		case fits < bare:
			m.Headers = append(m.Headers, h)
		}
	}
	payload := message.PayloadInline
	switch {
	case e.Payload == nil:
		payload = message.PayloadTombstone
	case fits >= withoutPayload:
		payload = message.PayloadReference
	default:
		m.Value = e.Payload
	}
	errorBytes, headerBytes := maxErrorBytes, message.MaxInvalidHeaders
	if fits == bare {
		errorBytes, headerBytes = maxBareErrorBytes, maxBareHeaderBytes
	}
	add := func(name, value string) {
		m.Headers = append(m.Headers, message.Header{Name: name, Value: []byte(value)})
	}
	add(message.HeaderLetterVersion, "1")
	add(message.HeaderEventID, e.EventID.String())
	add(message.HeaderEpisode, strconv.Itoa(e.Episode))
	add(message.HeaderOutboxID, strconv.FormatInt(e.ID, 10))
	add(message.HeaderOriginTopic, e.Topic)
	add(message.HeaderAttempts, strconv.Itoa(e.Attempts))
	add(message.HeaderFirstFailedAt, stamp(e.FirstErrorAt))
	add(message.HeaderLastFailedAt, stamp(e.LastErrorAt))
	add(message.HeaderErrorClass, e.LastErrorClass)
	add(message.HeaderErrorCode, e.LastErrorCode)
	add(message.HeaderErrorMessage, capped(e.LastError, errorBytes))
	add(message.HeaderCreatedAt, stamp(e.CreatedAt))
	add(message.HeaderPayload, payload)
	if e.Payload != nil {
		add(message.HeaderPayloadBytes, strconv.Itoa(len(e.Payload)))
	}
	if fits == bare {
		add(message.HeaderKey, message.KeyReference)
	}
	if invalid {
		add(message.HeaderInvalidHeaders, capped(string(e.Headers), headerBytes))
	}
	if hops := message.Hops(hs); hops > 0 {
		add(message.HeaderHops, strconv.Itoa(hops))
	}
	if source != "" {
		add(message.HeaderSource, source)
	}
	if desk != "" {
		add(message.HeaderDesk, desk)
	}
	if e.Wired {
		add(message.HeaderWire, message.WireDebezium)
	}
	if e.Partition != nil {
		add(message.HeaderPartition, strconv.Itoa(int(*e.Partition)))
	}
	if !e.Timestamp.IsZero() {
		add(message.HeaderTimestamp, stamp(e.Timestamp))
	}
	if e.TaskUUID != uuid.Nil {
		add(message.HeaderTaskUUID, e.TaskUUID.String())
	}
	return m
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }

// capped cuts s to at most n bytes without splitting a character.
func capped(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n], "")
}

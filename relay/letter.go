package relay

import (
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/postrider/postrider/relay/outbox"
)

// maxErrorBytes caps the error message in a dead letter's header, maxBareErrorBytes that of a bare one:
// a bare letter has to fit, because there is nothing less to send.
const (
	maxErrorBytes     = 4 << 10
	maxBareErrorBytes = 256
	// maxBareHeaderBytes caps the headers that cannot be read in a bare letter; see outbox.HeaderInvalidHeaders.
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
func letter(e *outbox.Event, topic string, fits fit, check func(*Message, int) *Outcome) (Message, fit) {
	for ; ; fits++ {
		m := letterAt(e, topic, fits)
		if fits == bare || check(&m, 0) == nil {
			return m, fits
		}
	}
}

func letterAt(e *outbox.Event, topic string, fits fit) Message {
	m := Message{ID: MessageID{EventID: e.EventID, Episode: e.Episode, Letter: true}, Topic: topic}
	hs, err := outbox.ReadableHeaders(e.Headers)
	invalid := err != nil
	if fits < bare {
		m.Key = e.Key
	}
	for _, h := range hs {
		switch {
		case outbox.Reserved(h.Name):
			invalid = invalid || h.Name != outbox.HeaderHops // which is added below
		case fits < bare:
			m.Headers = append(m.Headers, h)
		}
	}
	payload := outbox.PayloadInline
	switch {
	case e.Payload == nil:
		payload = outbox.PayloadTombstone
	case fits >= withoutPayload:
		payload = outbox.PayloadReference
	default:
		m.Value = e.Payload
	}
	errorBytes, headerBytes := maxErrorBytes, outbox.MaxInvalidHeaders
	if fits == bare {
		errorBytes, headerBytes = maxBareErrorBytes, maxBareHeaderBytes
	}
	add := func(name, value string) {
		m.Headers = append(m.Headers, outbox.Header{Name: name, Value: []byte(value)})
	}
	add(outbox.HeaderLetterVersion, "1")
	add(outbox.HeaderEventID, e.EventID.String())
	add(outbox.HeaderEpisode, strconv.Itoa(e.Episode))
	add(outbox.HeaderOutboxID, strconv.FormatInt(e.ID, 10))
	add(outbox.HeaderOriginTopic, e.Topic)
	add(outbox.HeaderAttempts, strconv.Itoa(e.Attempts))
	add(outbox.HeaderFirstFailedAt, stamp(e.FirstErrorAt))
	add(outbox.HeaderLastFailedAt, stamp(e.LastErrorAt))
	add(outbox.HeaderErrorClass, e.LastErrorClass)
	add(outbox.HeaderErrorCode, e.LastErrorCode)
	add(outbox.HeaderErrorMessage, capped(e.LastError, errorBytes))
	add(outbox.HeaderCreatedAt, stamp(e.CreatedAt))
	add(outbox.HeaderPayload, payload)
	if e.Payload != nil {
		add(outbox.HeaderPayloadBytes, strconv.Itoa(len(e.Payload)))
	}
	if fits == bare {
		add(outbox.HeaderKey, outbox.KeyReference)
	}
	if invalid {
		add(outbox.HeaderInvalidHeaders, capped(string(e.Headers), headerBytes))
	}
	if hops := outbox.Hops(hs); hops > 0 {
		add(outbox.HeaderHops, strconv.Itoa(hops))
	}
	if e.TaskUUID != uuid.Nil {
		add(outbox.HeaderTaskUUID, e.TaskUUID.String())
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

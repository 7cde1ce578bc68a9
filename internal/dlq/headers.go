package dlq

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/google/uuid"

	"github.com/postrider/postrider/message"
)

// ours reports whether the headers claim to be a letter of ours.
func ours(hs []message.Header) bool {
	for _, h := range hs {
		if h.Name == message.HeaderLetterVersion {
			return true
		}
	}
	return false
}

// headers are the headers of a letter of ours: ours by name, theirs in order, and the first thing that
// is wrong with ours.
type headers struct {
	ours   map[string][]byte
	theirs []message.Header
	err    error
}

func readHeaders(hs []message.Header) *headers {
	h := &headers{ours: make(map[string][]byte, len(hs))}
	for _, one := range hs {
		if !message.Reserved(one.Name) {
			h.theirs = append(h.theirs, one)
			continue
		}
		// Two values of one name: it cannot be told which of them the relay wrote.
		if before, twice := h.ours[one.Name]; twice && !bytes.Equal(before, one.Value) {
			h.fail(one.Name, "is there twice with different values")
		}
		h.ours[one.Name] = one.Value
	}
	return h
}

// fail keeps the first fault.
func (h *headers) fail(name, what string) {
	if h.err == nil {
		h.err = fmt.Errorf("header %s %s", name, what)
	}
}

func (h *headers) text(name string) string { return string(h.ours[name]) }

// version checks that the set is one that is known.
func (h *headers) version() {
	if v := h.text(message.HeaderLetterVersion); v != letterVersion {
		h.fail(message.HeaderLetterVersion, "has a version that is not known: "+strconv.Quote(v))
	}
}

// failure sets what went wrong.
func (h *headers) failure(l *Letter) {
	l.ErrorClass = storableText(h.text(message.HeaderErrorClass), maxNameBytes)
	l.ErrorCode = storableText(h.text(message.HeaderErrorCode), maxNameBytes)
	if c := message.Category(h.text(message.HeaderErrorCategory)); slices.Contains(message.Categories(), c) {
		l.ErrorCategory = c
	}
	l.ErrorMessage = storableText(h.text(message.HeaderErrorMessage), maxMessageBytes)
}

// firstSentAs returns the headers that say what the message was first sent as: they stay with it, although they are ours.
func (h *headers) firstSentAs() (stay []message.Header) {
	for _, name := range []string{message.HeaderRedriveOf, message.HeaderRedriveFor} {
		if value, there := h.ours[name]; there {
			stay = append(stay, message.Header{Name: name, Value: value})
		}
	}
	return stay
}

// value returns the header, and whether there is anything to parse in it.
func (h *headers) value(name string, required bool) (string, bool) {
	s := h.text(name)
	if s == "" && required {
		h.fail(name, "is missing")
	}
	return s, s != ""
}

func (h *headers) uuid(name string, required bool) uuid.UUID {
	s, there := h.value(name, required)
	if !there {
		return uuid.Nil
	}
	id, err := uuid.Parse(s)
	if err != nil || id == uuid.Nil {
		h.fail(name, "is not a uuid")
	}
	return id
}

func (h *headers) int32(name string, required bool) *int32 {
	n := h.number(name, required, 32)
	if n == nil {
		return nil
	}
	short := int32(*n)
	return &short
}

func (h *headers) int64(name string, required bool) *int64 { return h.number(name, required, 64) }

func (h *headers) number(name string, required bool, bits int) *int64 {
	s, there := h.value(name, required)
	if !there {
		return nil
	}
	n, err := strconv.ParseInt(s, 10, bits)
	if err != nil || n < 0 {
		h.fail(name, fmt.Sprintf("is not a number from 0 to 2^%d-1", bits-1))
		return nil
	}
	return &n
}

// bool reads true or false; anything else is unknown, because a letter without it is still complete.
func (h *headers) bool(name string) *bool {
	switch s := h.text(name); s {
	case "true", "false":
		is := s == "true"
		return &is
	}
	return nil
}

func (h *headers) topic(name string) string {
	s, there := h.value(name, true)
	if there && message.ValidTopic(s) != nil {
		h.fail(name, "is not a topic name")
		return ""
	}
	return s
}

// time reads RFC 3339, or milliseconds since 1970; anything else is no time, as is the zero time.
func (h *headers) time(name string) time.Time {
	s := h.text(name)
	if t, err := time.Parse(time.RFC3339Nano, s); err == nil {
		return storableTime(t)
	}
	if ms, err := strconv.ParseInt(s, 10, 64); err == nil {
		return storableTime(time.UnixMilli(ms))
	}
	return time.Time{}
}

// payload sets what the letter says of its payload, and checks it against what the record has.
func (h *headers) payload(l *Letter) {
	size := h.int64(message.HeaderPayloadBytes, false)
	switch kind, _ := h.value(message.HeaderPayload, true); {
	case kind == message.PayloadInline && l.Payload != nil:
		l.PayloadKind, l.PayloadBytes = kindOf(l.Payload)
		if size != nil && *size != *l.PayloadBytes {
			h.fail(message.HeaderPayloadBytes, fmt.Sprintf("is %d, the value has %d bytes", *size, *l.PayloadBytes))
		}
	case kind == message.PayloadTombstone && l.Payload == nil:
		l.PayloadKind = Tombstone
	case kind == message.PayloadReference && len(l.Payload) == 0:
		l.Payload, l.PayloadKind, l.PayloadBytes = nil, Reference, size
		h.reference(l)
	case kind != "":
		h.fail(message.HeaderPayload, "does not fit the record's value")
	}
}

// key sets what the letter says of its key.
func (h *headers) key(l *Letter) {
	l.KeyKind, _ = kindOf(l.Key)
	switch kind := h.text(message.HeaderKey); {
	case kind == "":
	case kind == message.KeyReference && len(l.Key) == 0:
		l.Key, l.KeyKind = nil, Reference
		h.reference(l)
	default:
		h.fail(message.HeaderKey, "does not fit the record's key")
	}
}

// reference makes sure that the event that a letter refers to can be found.
func (h *headers) reference(l *Letter) {
	if l.OutboxID == nil {
		h.fail(message.HeaderOutboxID, "is missing in a letter that refers to it")
	}
}

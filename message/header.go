package message

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/google/uuid"
)

// The Kafka headers that Postrider writes. All values are UTF-8 text; numbers are decimal, times are
// RFC 3339 with nanoseconds in UTC. The prefix is reserved: writers cannot use it.
const (
	// HeaderPrefix begins every header of ours.
	HeaderPrefix = "postrider-"
	// HeaderEventID is on every published record: the event's uuid, for consumers to recognise copies. A redriven or
	// replayed event keeps it; see RedriveEventID.
	HeaderEventID = "postrider-event-id"
	// HeaderHops is on messages that were redriven or replayed: how often that was. With it a message that becomes a
	// dead letter each time is left alone in the end. A program that writes a dead letter keeps it. It is the one
	// header of ours that every row of the outbox may have, as a decimal number from 0 up.
	HeaderHops = "postrider-hops"
	// HeaderRedriveOf is on messages that were redriven or replayed: what inboxes know the message by since it was first
	// sent. It is "event:<event id>", or "record:<topic>/<partition>/<offset>@<timestamp in milliseconds>" for a record
	// that was no event. However often the message is sent again, it stays the same; so a group that has handled the
	// message leaves the redrive alone. A program that writes a dead letter keeps it.
	HeaderRedriveOf = "postrider-redrive-of"
	// HeaderRedriveFor is beside it: the consumer group that gave the message up. Absent where no group did.
	HeaderRedriveFor = "postrider-redrive-for"

	// HeaderSource is the name of the source, the database whose outbox the event was written into. Absent where a process
	// carries the outbox of database.url alone, and on what that outbox sends.
	HeaderSource = "postrider-source"

	// HeaderDesk is on dead letters of the relay: the identity of the desk that their source obeys. Absent where it obeys none yet.
	HeaderDesk = "postrider-desk"

	// The rest is on dead letters and, as far as they need it, on records in retry topics of a consumer group. A letter
	// of a consumer has HeaderConsumerGroup; one of the relay has HeaderEpisode.

	// HeaderLetterVersion is the version of this header set, "1".
	HeaderLetterVersion = "postrider-letter-version"
	// HeaderEpisode is how many times the event was given up; with the event id it names the letter.
	HeaderEpisode = "postrider-episode"
	// HeaderOutboxID is outbox_event.id.
	HeaderOutboxID = "postrider-outbox-id"
	// HeaderOriginTopic is the topic that the event was bound for, or that the consumer's record came from.
	HeaderOriginTopic = "postrider-origin-topic"
	// HeaderAttempts is the number of failed attempts.
	HeaderAttempts = "postrider-attempts"
	// HeaderFirstFailedAt and HeaderLastFailedAt are the times of the first and last failed attempt.
	HeaderFirstFailedAt = "postrider-first-failed-at"
	HeaderLastFailedAt  = "postrider-last-failed-at"
	// HeaderErrorClass, HeaderErrorCode and HeaderErrorMessage say what went wrong.
	HeaderErrorClass = "postrider-error-class"
	HeaderErrorCode  = "postrider-error-code"
	// HeaderErrorCategory is the Category that a consumer named when it gave the message up; without it CategoryOf tells one
	// from class and code.
	HeaderErrorCategory = "postrider-error-category"
	HeaderErrorMessage  = "postrider-error-message"
	// HeaderPayload is PayloadInline, PayloadTombstone or PayloadReference. A consumer's dead letter has the value of
	// the record, and neither this header nor the next two.
	HeaderPayload = "postrider-payload"
	// HeaderPayloadBytes is the size of the event's payload; absent for a tombstone.
	HeaderPayloadBytes = "postrider-payload-bytes"
	// HeaderKey is KeyReference when the key too was left out because the letter would not fit; the
	// event's own headers are then left out as well. Absent otherwise.
	HeaderKey = "postrider-key"
	// HeaderInvalidHeaders is on the dead letter of an event with headers that ParseHeaders or Reserved do not allow:
	// the row's headers as JSON text, at most MaxInvalidHeaders bytes. The letter also has the headers that can be
	// read.
	HeaderInvalidHeaders = "postrider-invalid-headers"
	// HeaderCreatedAt is when the event was written.
	HeaderCreatedAt = "postrider-created-at"
	// HeaderPartition and HeaderTimestamp are the partition and the timestamp that the event's writer chose for its record;
	// absent where the writer chose none.
	HeaderPartition = "postrider-partition"
	HeaderTimestamp = "postrider-timestamp"
	// HeaderWire is WireDebezium on the dead letter of an event that is sent as Debezium's event router sends its records. The
	// letter has the event as it was written.
	HeaderWire = "postrider-wire"
	// HeaderTaskUUID is the linked task; absent when there is none.
	HeaderTaskUUID = "postrider-task-uuid"

	// HeaderConsumerGroup is the consumer group that failed.
	HeaderConsumerGroup = "postrider-consumer-group"
	// HeaderOriginPartition and HeaderOriginOffset are where in HeaderOriginTopic the group first read the record.
	HeaderOriginPartition = "postrider-origin-partition"
	HeaderOriginOffset    = "postrider-origin-offset"
	// HeaderOriginTimestamp is the timestamp that the record had there, and HeaderOriginTimestampType what it means:
	// CreateTime or LogAppendTime. Absent when it had none.
	HeaderOriginTimestamp     = "postrider-origin-timestamp"
	HeaderOriginTimestampType = "postrider-origin-timestamp-type"
	// HeaderLastTopic, HeaderLastPartition and HeaderLastOffset are where the record was read when it failed last:
	// in a retry topic, mostly. Absent where that is its origin.
	HeaderLastTopic     = "postrider-last-topic"
	HeaderLastPartition = "postrider-last-partition"
	HeaderLastOffset    = "postrider-last-offset"
	// HeaderErrorStack is the stack trace; absent when there is none.
	HeaderErrorStack = "postrider-error-stack"
	// HeaderRetryTopic is the retry topic of the consumer group that failed: a message sent to it is read by that group
	// alone.
	HeaderRetryTopic = "postrider-retry-topic"
)

// WireDebezium is the value of HeaderWire.
const WireDebezium = "debezium"

// Values of HeaderPayload and HeaderKey.
const (
	// PayloadInline: the letter's value is the event's payload.
	PayloadInline = "inline"
	// PayloadTombstone: the event's payload is null, and so is the letter's value.
	PayloadTombstone = "tombstone"
	// PayloadReference: the payload did not fit; it is in outbox_event under HeaderOutboxID.
	PayloadReference = "reference"
	// KeyReference: key and headers did not fit either and are in the same row.
	KeyReference = "reference"
)

// MaxInvalidHeaders is how much HeaderInvalidHeaders has at most, in bytes (8 KiB).
const MaxInvalidHeaders = 8 << 10

// Header is one Kafka header. Names may repeat; a nil value is Kafka's null.
type Header struct {
	Name  string
	Value []byte
}

// ParseHeaders reads the JSON of outbox_event.headers: an object {name: value}, or an array of
// [name, value] pairs where order or repeats matter; a value is a string, {"base64": "…"} or null.
// Names are as ValidHeaderName says, and HeaderHops is a number. The order of the result is the array's, or the order in
// which the object is written. An empty input is no headers. Errors wrap ErrInvalid and name the header.
func ParseHeaders(raw []byte) ([]Header, error) {
	hs, err := ReadableHeaders(raw)
	if err != nil {
		return nil, err
	}
	return hs, nil
}

// ReadableHeaders returns the headers that can be read, and the error of ParseHeaders about the first one that cannot.
// If raw is no JSON, or neither an object nor an array, no header can be read.
func ReadableHeaders(raw []byte) ([]Header, error) {
	raw = bytes.TrimSpace(raw)
	if len(raw) == 0 || string(raw) == "{}" || string(raw) == "[]" {
		return nil, nil
	}
	switch raw[0] {
	case '{':
		return readObject(raw)
	case '[':
		return readPairs(raw)
	}
	return nil, fmt.Errorf("%w: headers must be a JSON object or an array of [name, value] pairs", ErrInvalid)
}

func readObject(raw []byte) ([]Header, error) {
	dec := json.NewDecoder(bytes.NewReader(raw))
	broken := func(err error) ([]Header, error) {
		return nil, fmt.Errorf("%w: headers are not JSON: %v", ErrInvalid, err)
	}
	if _, err := dec.Token(); err != nil {
		return broken(err)
	}
	var hs []Header
	var first error
	for dec.More() {
		tok, err := dec.Token()
		if err != nil {
			return broken(err)
		}
		name, _ := tok.(string) // inside an object the decoder yields only strings here
		var v json.RawMessage
		if err := dec.Decode(&v); err != nil {
			return broken(err)
		}
		h, err := parseHeader(name, v)
		if err == nil {
			hs = append(hs, h)
		} else if first == nil {
			first = err
		}
	}
	if _, err := dec.Token(); err != nil {
		return broken(err)
	}
	return hs, first
}

func readPairs(raw []byte) ([]Header, error) {
	var pairs [][]json.RawMessage
	var first error
	if err := json.Unmarshal(raw, &pairs); err != nil {
		// An element that is no array is left empty, and the others are there; text that is no JSON has no elements.
		first = fmt.Errorf("%w: headers must be an array of [name, value] pairs: %v", ErrInvalid, err)
	}
	hs := make([]Header, 0, len(pairs))
	for i, p := range pairs {
		var name string
		if len(p) != 2 || json.Unmarshal(p[0], &name) != nil || p[0][0] != '"' {
			if first == nil {
				first = fmt.Errorf("%w: headers element %d is not a pair [name, value]", ErrInvalid, i)
			}
			continue
		}
		h, err := parseHeader(name, p[1])
		if err == nil {
			hs = append(hs, h)
		} else if first == nil {
			first = err
		}
	}
	return hs, first
}

// withoutSpace removes the white space that PostgreSQL's decode() passes over; its encode() wraps at 76 characters.
var withoutSpace = strings.NewReplacer(" ", "", "\t", "", "\n", "", "\r", "")

func parseHeader(name string, raw json.RawMessage) (Header, error) {
	if err := ValidHeaderName(name); err != nil {
		return Header{}, err
	}
	h, err := parseValue(name, raw)
	if err != nil || name != HeaderHops {
		return h, err
	}
	if _, number := hops(h); !number {
		return h, fmt.Errorf("%w: header %q is %.40q, not a number from 0 up", ErrInvalid, name, h.Value)
	}
	return h, nil
}

func parseValue(name string, raw json.RawMessage) (Header, error) {
	h := Header{Name: name}
	switch raw[0] {
	case '"':
		var s string
		if err := json.Unmarshal(raw, &s); err != nil {
			return h, fmt.Errorf("%w: header %q: %v", ErrInvalid, name, err)
		}
		h.Value = []byte(s)
		return h, nil
	case 'n':
		return h, nil
	case '{':
		var b struct {
			Base64 *string `json:"base64"`
		}
		dec := json.NewDecoder(bytes.NewReader(raw))
		dec.DisallowUnknownFields()
		if err := dec.Decode(&b); err == nil && b.Base64 != nil {
			v, err := base64.StdEncoding.DecodeString(withoutSpace.Replace(*b.Base64))
			if err != nil {
				return h, fmt.Errorf("%w: header %q is not valid base64: %v", ErrInvalid, name, err)
			}
			h.Value = v
			return h, nil
		}
	}
	return h, fmt.Errorf("%w: header %q must be a string, null, or {\"base64\": \"…\"}", ErrInvalid, name)
}

// MarshalHeaders writes headers as the JSON that outbox_event.headers stores: an array of pairs in
// order, values as strings where they are UTF-8 text without NUL, otherwise as base64.
func MarshalHeaders(hs []Header) []byte {
	pairs := make([][2]any, 0, len(hs))
	for _, h := range hs {
		var v any
		switch {
		case h.Value == nil:
		case utf8.Valid(h.Value) && bytes.IndexByte(h.Value, 0) < 0:
			v = string(h.Value)
		default:
			v = map[string]string{"base64": base64.StdEncoding.EncodeToString(h.Value)}
		}
		// jsonb can hold neither NUL nor broken UTF-8 in a name either.
		pairs = append(pairs, [2]any{strings.ReplaceAll(strings.ToValidUTF8(h.Name, "\uFFFD"), "\x00", "\uFFFD"), v})
	}
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(pairs) // strings, maps of strings and nil cannot fail to encode
	return bytes.TrimSpace(buf.Bytes())
}

// Hops is how often a message was redriven or replayed, as its headers say. The largest number counts, and a value that
// is no number from 0 up counts as none.
func Hops(hs []Header) int {
	most := 0
	for _, h := range hs {
		if h.Name != HeaderHops {
			continue
		}
		if n, number := hops(h); number {
			most = max(most, n)
		}
	}
	return most
}

func hops(h Header) (n int, number bool) {
	u, err := strconv.ParseUint(string(h.Value), 10, 31) // which takes no sign
	return int(u), err == nil
}

// ValidHeaderName returns an error wrapping ErrInvalid for an empty name and for one with control characters: with it a
// writer could inject headers into the requests of a consumer that bridges to HTTP.
func ValidHeaderName(name string) error {
	if name == "" {
		return fmt.Errorf("%w: a header has an empty name", ErrInvalid)
	}
	for i := range len(name) {
		if name[i] < ' ' || name[i] == 0x7f {
			return fmt.Errorf("%w: header %q: its name has a control character", ErrInvalid, name)
		}
	}
	return nil
}

// ValidRedriveOf reports whether a value of HeaderRedriveOf has one of its two forms, and returns the event's id where it
// names an event.
func ValidRedriveOf(value string) (event uuid.UUID, valid bool) {
	if id, is := strings.CutPrefix(value, "event:"); is {
		event, err := uuid.Parse(id)
		return event, err == nil && event.String() == id
	}
	place, is := strings.CutPrefix(value, "record:")
	return uuid.Nil, is && place != "" && len(value) <= maxRedriveOf && utf8.ValidString(value)
}

// redriveSpace is the name space of the event ids of records that were no events.
var redriveSpace = uuid.MustParse("6f0a9c1e-2b57-5d3c-9a41-c8e0d7f3b265")

// RedriveEventID returns the event id that a message is sent again with, for its HeaderRedriveOf: the id of the event that
// was first sent. A record that was no event gets one that is made of its identity, so it is the same in each redrive and
// replay. uuid.Nil for a value that has neither form.
func RedriveEventID(redriveOf string) uuid.UUID {
	event, valid := ValidRedriveOf(redriveOf)
	if valid && event == uuid.Nil {
		return uuid.NewSHA1(redriveSpace, []byte(redriveOf))
	}
	return event
}

// maxRedriveOf is the longest value of HeaderRedriveOf in bytes: a topic has 249 at most, and the numbers follow.
const maxRedriveOf = 512

// Reserved reports whether a header name belongs to Postrider; case does not matter.
func Reserved(name string) bool {
	return len(name) >= len(HeaderPrefix) && strings.EqualFold(name[:len(HeaderPrefix)], HeaderPrefix)
}

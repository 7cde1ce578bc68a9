package dlq

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/postrider/postrider/internal/tracecontext"
	"github.com/postrider/postrider/message"
)

// MaxSnapshotBytes is how much of a key, of a payload and of the headers a snapshot shows, each, in
// bytes (64 KiB). The letter has them whole. For the snapshot of a task see MaxTaskSnapshotBytes.
const MaxSnapshotBytes = 64 << 10

type snapshot struct {
	Source           string          `json:"source,omitempty"` // but main
	EventID          string          `json:"event_id,omitempty"`
	Episode          *int32          `json:"episode,omitempty"`
	OutboxID         *int64          `json:"outbox_id,omitempty"`
	SourceOutboxID   *int64          `json:"source_outbox_id,omitempty"`
	TaskUUID         string          `json:"task_uuid,omitempty"`
	Topic            string          `json:"topic,omitempty"`
	Partition        *int32          `json:"partition,omitempty"`
	Offset           *int64          `json:"offset,omitempty"`
	ConsumerGroup    string          `json:"consumer_group,omitempty"`
	LastHop          string          `json:"last_hop,omitempty"`
	RetryTopic       string          `json:"retry_topic,omitempty"`
	Hops             int             `json:"hops,omitempty"`
	Key              json.RawMessage `json:"key,omitempty"`
	KeyKind          BytesKind       `json:"key_kind,omitempty"`
	KeyTruncated     string          `json:"key_truncated,omitempty"`
	Payload          json.RawMessage `json:"payload,omitempty"`
	PayloadKind      BytesKind       `json:"payload_kind"`
	PayloadEncoding  encoding        `json:"payload_encoding,omitempty"`
	PayloadBytes     *int64          `json:"payload_bytes,omitempty"`
	PayloadTruncated string          `json:"payload_truncated,omitempty"`
	OriginalRecord   OriginalState   `json:"original_record,omitempty"`
	Headers          json.RawMessage `json:"headers,omitempty"`
	HeadersTruncated string          `json:"headers_truncated,omitempty"`
	TraceID          string          `json:"trace_id,omitempty"`
	Attempts         *int32          `json:"attempts,omitempty"`
	CreatedAt        string          `json:"created_at,omitempty"`
	FirstFailedAt    string          `json:"first_failed_at,omitempty"`
	LastFailedAt     string          `json:"last_failed_at,omitempty"`
	Error            *snapshotError  `json:"error,omitempty"`
	DeadLetter       deadLetter      `json:"dead_letter"`
}

type snapshotError struct {
	Class   string `json:"class,omitempty"`
	Code    string `json:"code,omitempty"`
	Message string `json:"message,omitempty"`
	Stack   string `json:"stack,omitempty"`
}

type deadLetter struct {
	LetterID  string `json:"letter_id"`
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	Offset    int64  `json:"offset"`
	At        string `json:"at,omitempty"`
}

// encoding says how a payload is shown.
type encoding string

const (
	asJSON   encoding = "json"
	asText   encoding = "text"
	asBase64 encoding = "base64"
)

// Snapshot returns the subject of a letter as JSON that a jsonb column accepts: what it was and what went
// wrong. A payload is shown as the JSON value that it is, otherwise as text, otherwise as {"base64": …};
// payload_encoding says which, because a JSON payload may look like the others. A payload or key of more
// than MaxSnapshotBytes is cut, and a note says where the whole is. The snapshot of an Unstorable letter
// has sizes only. A task's letter brings its own snapshot.
func Snapshot(l Letter) json.RawMessage { return (*Redactor)(nil).Snapshot(l) }

// Snapshot is the function Snapshot without what the rules hide. A payload that is no JSON, or is cut, cannot be
// searched for what rules name, and is left out where there are any.
func (r *Redactor) Snapshot(l Letter) json.RawMessage {
	if l.TaskSnapshot != nil && !l.Unstorable {
		return r.JSON(l.TaskSnapshot, "context")
	}
	s := snapshot{
		EventID:        idText(l.EventID),
		Episode:        l.Episode,
		OutboxID:       l.OutboxID,
		SourceOutboxID: l.SourceOutboxID,
		TaskUUID:       idText(l.TaskUUID),
		Topic:          l.OriginTopic,
		Partition:      l.OriginPartition,
		Offset:         l.OriginOffset,
		ConsumerGroup:  l.ConsumerGroup,
		LastHop:        l.LastHop,
		RetryTopic:     l.RetryTopic,
		Hops:           l.Hops,
		KeyKind:        l.KeyKind,
		PayloadKind:    l.PayloadKind,
		PayloadBytes:   l.PayloadBytes,
		OriginalRecord: l.OriginalRecord,
		Attempts:       l.Attempts,
		CreatedAt:      timeText(l.CreatedAt),
		FirstFailedAt:  timeText(l.FirstFailedAt),
		LastFailedAt:   timeText(l.LastFailedAt),
		DeadLetter: deadLetter{LetterID: l.ID, Topic: l.DLQTopic, Partition: l.DLQPartition,
			Offset: l.DLQOffset, At: timeText(l.DLQRecordAt)},
	}
	if !isMain(l.Source) {
		s.Source = l.Source
	}
	if l.ErrorClass != "" || l.ErrorCode != "" || l.ErrorMessage != "" || l.ErrorStack != "" {
		s.Error = &snapshotError{l.ErrorClass, l.ErrorCode, l.ErrorMessage, l.ErrorStack}
	}
	s.showKey(&l)
	s.showPayload(&l, r)
	s.showHeaders(&l, r)
	return marshal(s)
}

func (s *snapshot) showKey(l *Letter) {
	switch {
	case l.KeyKind == Reference:
		s.KeyTruncated = "the key is not in the letter, it is in " + elsewhere(l)
	case l.Unstorable:
		s.KeyTruncated = sizeNote("key", len(l.Key), "left out", l)
	default:
		s.Key, _ = show(l.Key, false)
		if len(l.Key) > MaxSnapshotBytes {
			s.KeyTruncated = sizeNote("key", len(l.Key), cutNote, l)
		}
	}
}

func (s *snapshot) showPayload(l *Letter, r *Redactor) {
	switch {
	case l.PayloadKind == Reference:
		s.PayloadTruncated = "the payload is not in the letter, it is in " + elsewhere(l)
	case l.Unstorable:
		s.PayloadTruncated = sizeNote("payload", len(l.Payload), "left out", l)
	default:
		s.Payload, s.PayloadEncoding = show(l.Payload, true)
		if r.hasPaths() && l.Payload != nil {
			if s.PayloadEncoding != asJSON {
				s.Payload, s.PayloadEncoding = nil, ""
				s.PayloadTruncated = sizeNote("payload", len(l.Payload), "left out because redaction could not be applied to it", l)
				return
			}
			s.Payload = r.JSON(s.Payload)
		}
		if len(l.Payload) > MaxSnapshotBytes {
			s.PayloadTruncated = sizeNote("payload", len(l.Payload), cutNote, l)
		}
	}
}

func (s *snapshot) showHeaders(l *Letter, r *Redactor) {
	if l.Unstorable {
		return
	}
	shown := r.Headers(l.Headers)
	s.TraceID = tracecontext.ID(shown)
	hs := message.MarshalHeaders(shown)
	if len(hs) > MaxSnapshotBytes {
		s.HeadersTruncated = fmt.Sprintf("%d headers of %d bytes are left out, they are in dlq_letter.headers of letter %s",
			len(l.Headers), len(hs), l.ID)
		return
	}
	s.Headers = hs
}

var cutNote = fmt.Sprintf("cut to the first %d", MaxSnapshotBytes)

func sizeNote(what string, size int, done string, l *Letter) string {
	return fmt.Sprintf("the %s has %d bytes, %s; the whole is in dlq_letter.%s of letter %s", what, size, done, what, l.ID)
}

// elsewhere names the place of what a letter refers to.
func elsewhere(l *Letter) string {
	if l.OutboxID != nil && !l.Unstorable {
		return fmt.Sprintf("outbox_event under id %d", *l.OutboxID)
	}
	if l.SourceOutboxID != nil && !l.Unstorable {
		return fmt.Sprintf("outbox_event of the source %s under id %d", l.Source, *l.SourceOutboxID)
	}
	if place, points := l.Pointer(); points && l.Dialect != DialectUnknown && !l.Unstorable {
		return fmt.Sprintf("the record of topic %s, partition %d, offset %d, as long as that keeps it", place.Topic, place.Partition, place.Offset)
	}
	return fmt.Sprintf("the record of topic %s, partition %d, offset %d, as long as that keeps it", l.DLQTopic, l.DLQPartition, l.DLQOffset)
}

// show renders bytes as JSON, cut to MaxSnapshotBytes; null for null. Only a payload is shown as the
// JSON value that it is: a key "5" stays text.
func show(b []byte, value bool) (json.RawMessage, encoding) {
	switch {
	case b == nil:
		return json.RawMessage("null"), ""
	case value && len(b) <= MaxSnapshotBytes && storableJSON(b):
		return b, asJSON
	}
	// Of a long one only the first bytes count; the cut may split its last character.
	text := cut(string(b[:min(len(b), MaxSnapshotBytes+utf8.UTFMax)]), MaxSnapshotBytes)
	if utf8.ValidString(text) && !strings.Contains(text, "\x00") {
		return marshal(text), asText
	}
	return marshal(map[string]string{"base64": base64.StdEncoding.EncodeToString(b[:min(len(b), MaxSnapshotBytes)])}), asBase64
}

// marshal encodes values that are known to be encodable: valid raw JSON, strings, numbers.
func marshal(v any) json.RawMessage {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false) // people read it
	_ = enc.Encode(v)
	return bytes.TrimSuffix(buf.Bytes(), []byte("\n"))
}

func idText(id uuid.UUID) string {
	if id == uuid.Nil {
		return ""
	}
	return id.String()
}

func timeText(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339Nano)
}

package api

import (
	"cmp"
	"encoding/json"
	"time"

	"github.com/google/uuid"

	"github.com/postrider/postrider/internal/dlq"
	"github.com/postrider/postrider/message"
)

// Letter is a dead letter. What its message carried is in Key, Payload and Headers, which are null unless they were asked
// for by a person who may see them.
type Letter struct {
	// ID is the permanent identity of the letter.
	ID string `json:"letter_id"`
	// Source is the database that the message comes from, by its name; main is the desk's own.
	Source string `json:"source"`
	// Dialect is who wrote it, known by its headers.
	Dialect dlq.Dialect `json:"dialect"`
	// DLQTopic is the dead-letter topic in which it was read.
	DLQTopic string `json:"dlq_topic"`
	// DLQPartition is the partition in which it was read.
	DLQPartition int32 `json:"dlq_partition"`
	// DLQOffset is the offset at which it was read.
	DLQOffset int64 `json:"dlq_offset"`
	// DLQRecordAt is the timestamp of its record.
	DLQRecordAt *time.Time `json:"dlq_record_at"`
	// OriginTopic is the topic that the message was bound for or came from.
	OriginTopic *string `json:"origin_topic"`
	// OriginPartition is the partition that the message came from; null where it never had one.
	OriginPartition *int32 `json:"origin_partition"`
	// OriginOffset is the offset that the message came from; null where it never had one.
	OriginOffset *int64 `json:"origin_offset"`
	// ConsumerGroup is the consumer group that failed; of a connector, its name.
	ConsumerGroup *string `json:"consumer_group"`
	// EventID is the event of the outbox that the message was.
	EventID *uuid.UUID `json:"event_id"`
	// Episode counts how often the relay has given the event up; only the relay's letters have it.
	Episode *int32 `json:"episode"`
	// OutboxID is the id of the event's row in the desk's own outbox; only the relay's letters of main have it.
	OutboxID *int64 `json:"outbox_id"`
	// SourceOutboxID is the id of the event's row in the outbox of another source; only the relay's letters have it.
	SourceOutboxID *int64 `json:"source_outbox_id"`
	// KeyKind is where the key is: inline; tombstone, Kafka's null; or reference.
	KeyKind dlq.BytesKind `json:"key_kind"`
	// PayloadKind is where the payload is: inline; tombstone, Kafka's null; or reference.
	PayloadKind dlq.BytesKind `json:"payload_kind"`
	// PayloadBytes is the size of the payload, in bytes; null for a tombstone.
	PayloadBytes *int64 `json:"payload_bytes"`
	// RedactedHeaders are pairs of name and value, with the values replaced that a rule of redaction names. Null for a
	// letter that is shown by itself, with Headers.
	RedactedHeaders json.RawMessage `json:"redacted_headers"`
	// ErrorClass is the class of the exception.
	ErrorClass *string `json:"error_class"`
	// ErrorCode is the code of the error.
	ErrorCode *string `json:"error_code"`
	// ErrorMessage is what went wrong.
	ErrorMessage *string `json:"error_message"`
	// ErrorCategory is validation, transient or fatal.
	ErrorCategory *message.Category `json:"error_category"`
	// Attempts is how often the message was tried.
	Attempts *int32 `json:"attempts"`
	// Hops is how often the message was sent again after it had died, as it says itself.
	Hops int `json:"hops"`
	// FirstFailedAt is when its first attempt failed.
	FirstFailedAt *time.Time `json:"first_failed_at"`
	// LastFailedAt is when its last attempt failed.
	LastFailedAt *time.Time `json:"last_failed_at"`
	// RecordedAt is when the collector stored it.
	RecordedAt *time.Time `json:"recorded_at"`
	// Key is the key of the message.
	Key *Bytes `json:"key"`
	// Payload is the payload of the message.
	Payload *Bytes `json:"payload"`
	// Headers are pairs of name and value, as the message has them.
	Headers json.RawMessage `json:"headers"`
}

// NewLetter is a letter as its investigation shows it: with redacted headers, and without the bytes of its message.
func NewLetter(l *dlq.Letter) Letter {
	v := newLetter(l)
	v.RedactedHeaders = message.MarshalHeaders(l.Headers)
	return v
}

// NewRevealedLetter is a letter with the bytes of its message. Investigations.Reveal has returned it, which has written into the
// audit log who looks.
func NewRevealedLetter(l *dlq.Letter) Letter {
	v := newLetter(l)
	v.Key, v.Payload, v.Headers = KeyBytes(l.Key), PayloadBytes(l.Payload), message.MarshalHeaders(l.Headers)
	return v
}

func newLetter(l *dlq.Letter) Letter {
	return Letter{
		ID: l.ID, Source: cmp.Or(l.Source, dlq.MainSource), Dialect: l.Dialect, DLQTopic: l.DLQTopic, DLQPartition: l.DLQPartition, DLQOffset: l.DLQOffset,
		DLQRecordAt: TimeOrNull(l.DLQRecordAt), OriginTopic: OrNull(l.OriginTopic), OriginPartition: l.OriginPartition, OriginOffset: l.OriginOffset,
		ConsumerGroup: OrNull(l.ConsumerGroup), EventID: OrNull(l.EventID), Episode: l.Episode, OutboxID: l.OutboxID, SourceOutboxID: l.SourceOutboxID,
		KeyKind: l.KeyKind, PayloadKind: l.PayloadKind, PayloadBytes: l.PayloadBytes, RedactedHeaders: RawOrNull(nil),
		ErrorClass: OrNull(l.ErrorClass), ErrorCode: OrNull(l.ErrorCode), ErrorCategory: OrNull(l.Category()), ErrorMessage: OrNull(l.ErrorMessage),
		Attempts: l.Attempts, Hops: l.Hops, FirstFailedAt: TimeOrNull(l.FirstFailedAt), LastFailedAt: TimeOrNull(l.LastFailedAt),
		RecordedAt: TimeOrNull(l.RecordedAt), Headers: RawOrNull(nil),
	}
}

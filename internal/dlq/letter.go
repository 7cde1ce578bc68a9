package dlq

import (
	"encoding/json"
	"time"

	"github.com/google/uuid"

	"github.com/postrider/postrider/message"
)

// Dialect is who wrote a dead letter, known by its headers.
type Dialect string

const (
	// DialectPostrider letters have the header set of package message, version 1.
	DialectPostrider Dialect = "postrider"
	// DialectSpring letters were written by Spring Kafka's DeadLetterPublishingRecoverer.
	DialectSpring Dialect = "spring"
	// DialectSpringRetry letters were written by Spring Kafka's @RetryableTopic.
	DialectSpringRetry Dialect = "spring_retry"
	// DialectConnect letters were written by a Kafka Connect sink (KIP-298).
	DialectConnect Dialect = "connect"
	// DialectStreams letters were written by Kafka Streams (KIP-1034).
	DialectStreams Dialect = "streams"
	// DialectShareGroup letters were written by a broker for a share group (KIP-1191).
	DialectShareGroup Dialect = "share_group"
	// DialectCloudStream letters were written by the Kafka binder of Spring Cloud Stream.
	DialectCloudStream Dialect = "cloud_stream"
	// DialectSmallRye letters were written by SmallRye Reactive Messaging (Quarkus).
	DialectSmallRye Dialect = "smallrye"
	// DialectWolverine letters were written by Wolverine.
	DialectWolverine Dialect = "wolverine"
	// DialectKarafka letters were written by Karafka.
	DialectKarafka Dialect = "karafka"
	// DialectCustom letters were written by a program of the user's own, whose headers the settings name.
	DialectCustom Dialect = "custom"
	// DialectUnknown letters have no known headers, or have broken ones.
	DialectUnknown Dialect = "unknown"
)

// BytesKind says where the bytes of a key or payload are.
type BytesKind string

const (
	// Inline: they are in the letter.
	Inline BytesKind = "inline"
	// Tombstone: there are none, the key or value is null.
	Tombstone BytesKind = "tombstone"
	// Reference: they are not in the letter: in outbox_event under OutboxID or SourceOutboxID where one is set; for a letter
	// that points to a record, in that; otherwise in the record of the dead-letter topic itself, as long as that keeps it.
	Reference BytesKind = "reference"
)

// Letter is one dead letter. The first fields are the columns of postrider.dlq_letter, the rest is what
// only the investigation takes up; an empty string, a zero time, uuid.Nil and a nil pointer stand for
// null. What Decode returns can always be stored: text is UTF-8 without NUL, times are in the years 1 to
// 9999, and exact bytes are in Key, Payload and header values only.
type Letter struct {
	// ID is the permanent identity, at most 1024 bytes: "event:<event id>:<episode>",
	// "task:<task uuid>:<number of the stay>:<reason>", with ":<stay_from in Unix milliseconds>" behind it where the clock
	// of the stay was restarted, or
	// "record:<topic>/<partition>/<offset>@<timestamp in Unix milliseconds>#<group>": of the record that a consumer failed at, where the letter says it all, otherwise of the
	// letter itself. A group that is not known is left out. It has " from <LastHop>" behind it,
	// where there was another hop. Of another source than MainSource, "<source>/" stands before event: and task:.
	ID string
	// Source is the database that the message comes from, as its header message.HeaderSource says; see ofSource. Empty
	// counts as MainSource.
	Source string
	// EntryUUID is the investigation it belongs to; set only on letters that were read from the database.
	EntryUUID uuid.UUID
	Dialect   Dialect
	// DLQTopic, DLQPartition, DLQOffset and DLQRecordAt say where and when it was read from.
	DLQTopic     string
	DLQPartition int32
	DLQOffset    int64
	DLQRecordAt  time.Time
	// OriginTopic is the topic that the message was bound for or came from; partition and offset are nil
	// where it never had them.
	OriginTopic     string
	OriginPartition *int32
	OriginOffset    *int64
	// ConsumerGroup is the group that failed, for consumers' letters; of a connector, its name.
	ConsumerGroup string
	// EventID, Episode and OutboxID are set for the relay's letters. EventID alone is set for letters of tasks (the outbox
	// event that was the letter) and of consumers (the outbox event that the record was). OutboxID is a row of the desk's own
	// outbox; of another source, SourceOutboxID is the row in the outbox of that.
	EventID        uuid.UUID
	Episode        *int32
	OutboxID       *int64
	SourceOutboxID *int64
	// HaltsKey says whether the event halted its key when it was given up, as the relay's letter says. Nil for other letters, and
	// where it does not say.
	HaltsKey *bool
	// Key and Payload are exact bytes. nil is Kafka's null, unless PayloadKind or KeyKind say Reference.
	Key, Payload []byte
	PayloadKind  BytesKind
	// PayloadBytes is the size of the whole payload; nil for a tombstone.
	PayloadBytes *int64
	// Headers are the message's own, without ours; all of them where the dialect is unknown. Where the relay could not
	// read some of an event's, the last one is message.HeaderInvalidHeaders; see InvalidHeaders.
	Headers []message.Header
	// Hops is how often the message was sent again after it had died; see message.HeaderHops.
	Hops int
	// RetryTopic is the topic to which the failing group's messages can be sent, for that group alone.
	RetryTopic string
	// OriginalRecord says what became of asking for the record that the letter points to; empty if it was not asked for.
	OriginalRecord OriginalState
	// ErrorClass, ErrorCode and ErrorMessage say what went wrong; the message is at most 8 KiB.
	ErrorClass, ErrorCode, ErrorMessage string
	// ErrorCategory is the category that a consumer named when it gave the message up; empty where none was. See Category.
	ErrorCategory message.Category
	// Attempts is how often it was tried.
	Attempts                    *int32
	FirstFailedAt, LastFailedAt time.Time
	// RecordedAt is when the collector stored it; set only on letters that were read from the database.
	RecordedAt time.Time

	// The following goes into the investigation and its snapshot, not into dlq_letter.

	// Subject is what the investigation is about.
	Subject Subject
	// Reason is why it was dead-lettered.
	Reason Reason
	// OriginalState is the state of the subject when it was dead-lettered.
	OriginalState string
	// KeyKind says where the key is; Tombstone for a null key.
	KeyKind BytesKind
	// CreatedAt is when the event was written.
	CreatedAt time.Time
	// LastHop is where the message was read when it failed last, where that is not its origin: a retry topic, or
	// another dead-letter topic. Empty otherwise.
	LastHop string
	// ErrorStack is the stack trace, at most 16 KiB.
	ErrorStack string
	// Root is the failure behind the others, read from the whole stack trace. It is zero where there is none.
	Root Root
	// TaskUUID is the task that the event belongs to, or that the letter is about, in its source. See OwnTask.
	TaskUUID uuid.UUID
	// Template is namespace and name of the task's template, as namespace/name, for the letter of a task.
	Template string
	// TaskSnapshot is the task as it was, for the letter of a task; nil where it has none that can be stored.
	TaskSnapshot json.RawMessage
	// Metadata is what the investigation's begins with: an object, or nil.
	Metadata json.RawMessage
	// Unstorable marks the reduced form of a letter that the store refused; see Unstorable.
	Unstorable bool
}

// InvalidHeaders returns the headers of an event that could not be sent with them, as its row has them: JSON text, whose
// end may be missing. Headers are the ones that can be read. False for a letter without invalid headers.
func (l *Letter) InvalidHeaders() (text string, invalid bool) {
	if l.Dialect != DialectPostrider {
		return "", false
	}
	for _, h := range l.Headers {
		if h.Name == message.HeaderInvalidHeaders {
			return string(h.Value), true
		}
	}
	return "", false
}

// DeadLetteredAt is when the letter was written to its dead-letter topic, or, where the record does not
// say, when its last attempt failed. A task was dead-lettered when its letter says so. Zero when neither is
// known.
func (l *Letter) DeadLetteredAt() time.Time {
	if !l.DLQRecordAt.IsZero() && (l.Subject.Type != SubjectTask || l.LastFailedAt.IsZero()) {
		return l.DLQRecordAt
	}
	return l.LastFailedAt
}

// OccurredAt is when the last attempt failed, or, where the letter does not say, when it was written.
// Zero when neither is known.
func (l *Letter) OccurredAt() time.Time {
	if !l.LastFailedAt.IsZero() {
		return l.LastFailedAt
	}
	return l.DLQRecordAt
}

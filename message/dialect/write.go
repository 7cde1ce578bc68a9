package dialect

import (
	"encoding/binary"
	"strconv"
	"strings"
	"time"

	"github.com/postrider/postrider/message"
)

const (
	springPrefix  = "kafka_dlt-original-"
	connectPrefix = "__connect.errors."
)

// springPrefixes begin the bookkeeping of DeadLetterPublishingRecoverer and of @RetryableTopic (KafkaHeaders,
// RetryTopicHeaders, SerializationUtils of spring-kafka).
var springPrefixes = []string{"kafka_dlt-", "kafka_original-", "kafka_exception-", "kafka_key-exception-", "retry_topic-",
	"springDeserializerException", "kafka_deliveryAttempt"}

// set is a record's own headers and the headers that are added to them.
type set struct {
	own, added []message.Header
}

// strip takes the bookkeeping of a dialect out of the record's own, which stay untouched in the caller's slice.
func (s *set) strip(w Writer) {
	own := make([]message.Header, 0, len(s.own))
	for _, h := range s.own {
		if !w.Owns(h.Name) {
			own = append(own, h)
		}
	}
	s.own = own
}

func (s *set) bytes(name string, v []byte) {
	s.added = append(s.added, message.Header{Name: name, Value: v})
}

// text adds a text, unless it is empty.
func (s *set) text(name, v string, limit int) {
	if v != "" {
		s.bytes(name, []byte(Capped(v, limit)))
	}
}

// decimal adds a number as text.
func (s *set) decimal(name string, n int64) { s.bytes(name, strconv.AppendInt(nil, n, 10)) }

// time adds a time, unless there is none that the contract can say.
func (s *set) time(name string, t time.Time) {
	if t = t.UTC(); !t.IsZero() && t.Year() >= 1 && t.Year() <= 9999 {
		s.bytes(name, t.AppendFormat(nil, time.RFC3339Nano))
	}
}

func (s *set) postrider(f *Failure) {
	s.text(message.HeaderLetterVersion, "1", MaxNameBytes)
	s.text(message.HeaderConsumerGroup, f.Group, MaxNameBytes)
	s.text(message.HeaderOriginTopic, f.Topic, MaxNameBytes)
	s.decimal(message.HeaderOriginPartition, int64(f.Partition))
	s.decimal(message.HeaderOriginOffset, f.Offset)
	if hasTimestamp(f.Timestamp) {
		s.time(message.HeaderOriginTimestamp, f.Timestamp)
	}
	s.text(message.HeaderOriginTimestampType, f.TimestampType, MaxNameBytes)
	if f.LastTopic != "" {
		s.text(message.HeaderLastTopic, f.LastTopic, MaxNameBytes)
		s.decimal(message.HeaderLastPartition, int64(f.LastPartition))
		s.decimal(message.HeaderLastOffset, f.LastOffset)
	}
	if f.Attempts > 0 {
		s.decimal(message.HeaderAttempts, int64(f.Attempts))
	}
	s.time(message.HeaderFirstFailedAt, f.FirstFailedAt)
	s.time(message.HeaderLastFailedAt, f.LastFailedAt)
	s.text(message.HeaderErrorClass, f.ErrorClass, MaxNameBytes)
	s.text(message.HeaderErrorCode, f.ErrorCode, MaxNameBytes)
	s.text(message.HeaderErrorCategory, string(f.ErrorCategory), MaxNameBytes)
	s.text(message.HeaderErrorMessage, f.ErrorMessage, MaxMessageBytes)
	s.text(message.HeaderErrorStack, f.Stack, MaxStackBytes)
	s.text(message.HeaderRetryTopic, f.RetryTopic, MaxNameBytes)
}

// spring writes the headers of DeadLetterPublishingRecoverer. Spring adds the place of each hop to the earlier ones;
// here they are the first and the last.
func (s *set) spring(f *Failure) {
	s.text(springPrefix+"topic", f.Topic, MaxNameBytes)
	s.bytes(springPrefix+"partition", binary.BigEndian.AppendUint32(nil, uint32(f.Partition)))
	s.bytes(springPrefix+"offset", binary.BigEndian.AppendUint64(nil, uint64(f.Offset)))
	if hasTimestamp(f.Timestamp) {
		s.bytes(springPrefix+"timestamp", binary.BigEndian.AppendUint64(nil, uint64(f.Timestamp.UnixMilli())))
	}
	s.text(springPrefix+"timestamp-type", f.TimestampType, MaxNameBytes)
	s.text(springPrefix+"consumer-group", f.Group, MaxNameBytes)
	if f.LastTopic != "" {
		s.text(springPrefix+"topic", f.LastTopic, MaxNameBytes)
		s.bytes(springPrefix+"partition", binary.BigEndian.AppendUint32(nil, uint32(f.LastPartition)))
		s.bytes(springPrefix+"offset", binary.BigEndian.AppendUint64(nil, uint64(f.LastOffset)))
	}
	s.text("kafka_dlt-exception-fqcn", f.exception(), MaxNameBytes)
	s.text("kafka_dlt-exception-cause-fqcn", f.exception(), MaxNameBytes)
	s.text("kafka_dlt-exception-message", f.ErrorMessage, MaxMessageBytes)
	s.text("kafka_dlt-exception-stacktrace", f.Stack, MaxStackBytes)
	if f.Attempts > 0 {
		s.bytes("kafka_deliveryAttempt", binary.BigEndian.AppendUint32(nil, uint32(f.Attempts)))
	}
}

// connect writes the headers of a sink (DeadLetterQueueReporter), which adds the place of a later hop behind the first.
// The stage is TASK_PUT, in which a sink handles records. A consumer has no task and no executing class, so these two
// headers are left out.
func (s *set) connect(f *Failure) {
	s.text(connectPrefix+"topic", f.Topic, MaxNameBytes)
	s.decimal(connectPrefix+"partition", int64(f.Partition))
	s.decimal(connectPrefix+"offset", f.Offset)
	if f.LastTopic != "" {
		s.text(connectPrefix+"topic", f.LastTopic, MaxNameBytes)
		s.decimal(connectPrefix+"partition", int64(f.LastPartition))
		s.decimal(connectPrefix+"offset", f.LastOffset)
	}
	s.text(connectPrefix+"connector.name", f.Group, MaxNameBytes)
	s.text(connectPrefix+"stage", "TASK_PUT", MaxNameBytes)
	s.text(connectPrefix+"exception.class.name", f.exception(), MaxNameBytes)
	if f.ErrorMessage == "" {
		s.bytes(connectPrefix+"exception.message", nil) // as Connect does for an exception without a message
	}
	s.text(connectPrefix+"exception.message", f.ErrorMessage, MaxMessageBytes)
	s.text(connectPrefix+"exception.stacktrace", f.Stack, MaxStackBytes)
}

// exception is what stands where others have the class of an exception.
func (f *Failure) exception() string {
	if f.ErrorCode != "" {
		return f.ErrorCode
	}
	return f.ErrorClass
}

// hasTimestamp reports whether a record has one: Kafka writes -1 ms where it has none.
func hasTimestamp(t time.Time) bool { return t.UnixMilli() > 0 && t.UTC().Year() <= 9999 }

// Capped returns at most n bytes of a text, valid UTF-8 without NUL, as Encode writes it.
func Capped(s string, n int) string {
	if len(s) > n {
		s = strings.ToValidUTF8(s[:n], "")
	}
	return strings.ReplaceAll(strings.ToValidUTF8(s, "?"), "\x00", "?")
}

package tracecontext

import (
	"strconv"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
)

// Names of attributes, from OpenTelemetry's semantic conventions for messaging and Kafka.
const (
	KeyBatchMessages = attribute.Key("messaging.batch.message_count")
	KeyConsumerGroup = attribute.Key("messaging.consumer.group.name")
	KeyErrorType     = attribute.Key("error.type")

	keyMessageID   = attribute.Key("messaging.message.id")
	keySystem      = attribute.Key("messaging.system")
	keyOperation   = attribute.Key("messaging.operation.type")
	keyDestination = attribute.Key("messaging.destination.name")
	keyPartition   = attribute.Key("messaging.destination.partition.id")
	keyOffset      = attribute.Key("messaging.kafka.offset")
)

// Names of the spans in which messages of dead letters are sent again.
const (
	// SpanRedrive is the span of a request, or of a step of an operation, that redrives: the root of its messages' new
	// traces.
	SpanRedrive = "redrive"
	// SpanReplay is the span of one call of a replay. Its messages go on in their own traces, to which it links.
	SpanReplay = "replay"
)

// Asked reports whether spans of this name are of an action that a person asked for: an action of the outbox, a
// redrive, a replay. There are few, and the person wants to see them.
func Asked(name string) bool {
	switch name {
	case SpanRedrive, SpanReplay, "outbox.processPending", "outbox.processRetries", "outbox.cleanup", "outbox.dlqStats":
		return true
	}
	return false
}

// MaxLinks is how many links a span of a batch gets at most, which is how many OpenTelemetry's SDK keeps.
const MaxLinks = 128

// Sending are the attributes of a span in which something is sent to a topic.
func Sending(topic string) []attribute.KeyValue { return about("send", topic) }

// Processing are the attributes of a span in which messages from a topic are worked on.
func Processing(topic string) []attribute.KeyValue { return about("process", topic) }

func about(operation, topic string) []attribute.KeyValue {
	return []attribute.KeyValue{keySystem.String("kafka"), keyOperation.String(operation), keyDestination.String(topic)}
}

// At are the attributes that say where in its topic a record is.
func At(partition int32, offset int64) []attribute.KeyValue {
	return []attribute.KeyValue{keyPartition.String(strconv.Itoa(int(partition))), keyOffset.Int64(offset)}
}

// MaxText is the longest text from elsewhere that a span gets, in bytes.
const MaxText = 1 << 10

// Text makes a text from elsewhere fit for a span: a text that is not UTF-8 would keep all spans from being exported
// that were to go with it.
func Text(s string) string {
	return strings.ToValidUTF8(s[:min(len(s), MaxText)], "\uFFFD")
}

// MessageID is the attribute that names a message.
func MessageID(id string) attribute.KeyValue { return keyMessageID.String(Text(id)) }

// Fail marks a span as failed: code is one word, text is for people.
func Fail(span trace.Span, code, text string) {
	span.SetAttributes(KeyErrorType.String(Text(code)))
	span.SetStatus(codes.Error, Text(text))
}

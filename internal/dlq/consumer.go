package dlq

import (
	"strconv"
	"strings"

	"github.com/postrider/postrider/message"
	"github.com/postrider/postrider/message/dialect"
)

// consumers reports whether the headers of a letter of ours say that a consumer gave a record up, and not the relay
// an event.
func consumers(hs []message.Header) bool {
	for _, h := range hs {
		if h.Name == message.HeaderConsumerGroup {
			return true
		}
	}
	return false
}

// decodeConsumers reads the letter of a consumer, as package dialect writes it. What names the record and the group
// must be right. The sets of other dialects that were written beside ours say the same, and are left out.
func decodeConsumers(r Record) (Letter, error) {
	l := readFrom(r)
	var hs []message.Header
	for _, one := range r.Headers {
		switch {
		case one.Name == message.HeaderEventID && l.isEvent(one.Value):
		case dialect.Spring.Owns(one.Name), dialect.Connect.Owns(one.Name):
		default:
			hs = append(hs, one)
		}
	}
	h := readHeaders(hs)
	h.version()
	l.Dialect = DialectPostrider
	l.ConsumerGroup, _ = h.value(message.HeaderConsumerGroup, true)
	if storableText(l.ConsumerGroup, maxNameBytes) != l.ConsumerGroup {
		h.fail(message.HeaderConsumerGroup, "is not the name of a group")
	}
	l.OriginTopic = h.topic(message.HeaderOriginTopic)
	l.OriginPartition = h.int32(message.HeaderOriginPartition, true)
	l.OriginOffset = h.int64(message.HeaderOriginOffset, true)
	l.CreatedAt = h.time(message.HeaderOriginTimestamp)
	h.lastHop(&l)
	l.Attempts = h.int32(message.HeaderAttempts, false)
	l.FirstFailedAt = h.time(message.HeaderFirstFailedAt)
	l.LastFailedAt = h.time(message.HeaderLastFailedAt)
	h.failure(&l)
	l.ErrorStack = storableText(h.text(message.HeaderErrorStack), maxStackBytes)
	l.Root = rootOf(l.ErrorCode, l.ErrorMessage, h.text(message.HeaderErrorStack))
	l.RetryTopic = retryTopicOf(r.Headers)
	l.KeyKind, _ = kindOf(r.Key)
	l.PayloadKind, l.PayloadBytes = kindOf(r.Value)
	h.left(&l)
	if h.err != nil {
		return Letter{}, h.err
	}
	l.identifyRecord(r)
	l.OriginalState = "failed"
	if l.Reason = reasonOf(l.ErrorClass, l.ErrorCode); l.Reason == Unclassified && value(l.Attempts) > 1 {
		l.Reason = MaxRetriesExceeded
	}
	l.Headers = append(h.theirs, h.firstSentAs()...)
	return l, nil
}

// retryTopicOf returns the retry topic that the headers of a letter name, in whatever dialect: our library writes that header
// beside the headers of others. Empty where they name none that can be written. No other place reads it: what is stored of a
// letter, and a replay, have it from here.
func retryTopicOf(hs []message.Header) string {
	for _, h := range hs {
		if topic := string(h.Value); strings.EqualFold(h.Name, message.HeaderRetryTopic) && message.ValidTopic(topic) == nil {
			return topic
		}
	}
	return ""
}

// identifyRecord gives the letter its id: the record and the group. If the record came by way of another topic, the id
// has that place, too: a record that was redriven by hand and failed again is not taken for a copy. If the time of the
// record is missing, the id is the letter's own place: otherwise a record of a topic that was deleted and made anew
// would be taken for it, and get lost.
func (l *Letter) identifyRecord(r Record) {
	first := recordID(l.OriginTopic, *l.OriginPartition, *l.OriginOffset, l.CreatedAt, l.ConsumerGroup)
	l.Subject = Subject{Type: SubjectRecord, ID: first}
	switch {
	case l.CreatedAt.IsZero():
		l.ID = unknown(r).ID
	case l.LastHop != "":
		l.ID = storableText("record:"+first+" from "+l.LastHop, maxIDBytes)
	default:
		l.ID = "record:" + first
	}
}

// lastHop sets where the record was read when it failed last.
func (h *headers) lastHop(l *Letter) {
	if h.text(message.HeaderLastTopic) == "" {
		return
	}
	topic, partition, offset := h.topic(message.HeaderLastTopic), h.int32(message.HeaderLastPartition, true), h.int64(message.HeaderLastOffset, true)
	if h.err == nil {
		l.LastHop = topic + "/" + strconv.Itoa(int(*partition)) + "/" + strconv.FormatInt(*offset, 10)
	}
}

// left sets what the consumer left out because the letter would not fit: it is where the record came from.
func (h *headers) left(l *Letter) {
	if h.text(message.HeaderPayload) == message.PayloadReference && l.Payload == nil {
		l.PayloadKind, l.PayloadBytes = Reference, h.int64(message.HeaderPayloadBytes, false)
	}
	if h.text(message.HeaderKey) == message.KeyReference && l.Key == nil {
		l.KeyKind = Reference
	}
}

// value is what p points to, or zero for nil.
func value[T any](p *T) (v T) {
	if p != nil {
		v = *p
	}
	return v
}

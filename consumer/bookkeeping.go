package consumer

import (
	"slices"
	"strconv"
	"time"

	"github.com/postrider/postrider/message"
	"github.com/postrider/postrider/message/dialect"
)

// HeaderRetryDue is when a record of a retry topic may be tried, RFC 3339 in UTC. A record without it, for example a
// redriven one, is tried at once.
const HeaderRetryDue = message.HeaderPrefix + "retry-due"

// readPast takes from the headers of a record of a retry topic what this group wrote there. If the headers are another
// group's, or not complete, the message is new: an attempt too many is better than none. A message that was redriven or
// replayed to this group's retry topic keeps its origin, so that its next dead letter names the same record again, and
// not the one in the retry topic.
func (m *Message) readPast(group string) {
	values := map[string]string{}
	for _, h := range m.Headers {
		if message.Reserved(h.Name) {
			values[h.Name] = string(h.Value)
		}
	}
	failed, err := strconv.ParseInt(values[message.HeaderAttempts], 10, 32)
	due := instant(values[HeaderRetryDue])
	if values[message.HeaderConsumerGroup] != group || err != nil || failed < 0 || failed == 0 && due.IsZero() { // of a delayed message none has failed
		if r, ok := dialect.ParseFailedRecord(m.text(dialect.HeaderReplayOrigin)); ok && (r.Group == group || r.Group == "") {
			m.past = &past{origin: Origin{Topic: r.Topic, Partition: r.Partition, Offset: r.Offset, Timestamp: r.Timestamp}}
		}
		return
	}
	p := &past{failed: int(failed), firstFailed: instant(values[message.HeaderFirstFailedAt]),
		lastFailed: instant(values[message.HeaderLastFailedAt]), due: due}
	partition, perr := strconv.ParseInt(values[message.HeaderOriginPartition], 10, 32)
	offset, oerr := strconv.ParseInt(values[message.HeaderOriginOffset], 10, 64)
	if topic := values[message.HeaderOriginTopic]; perr == nil && oerr == nil && partition >= 0 && offset >= 0 && message.ValidTopic(topic) == nil {
		p.origin = Origin{Topic: topic, Partition: int32(partition), Offset: offset,
			Timestamp: instant(values[message.HeaderOriginTimestamp]), LogAppendTime: values[message.HeaderOriginTimestampType] == logAppendTime}
	}
	m.past = p
}

func instant(s string) time.Time {
	t, err := time.Parse(time.RFC3339Nano, s)
	if err != nil {
		return time.Time{}
	}
	return t
}

const logAppendTime = "LogAppendTime"

func timestampType(o Origin) string {
	if o.LogAppendTime {
		return logAppendTime
	}
	return "CreateTime"
}

// retryRecord is a failed message on its way to a retry topic: its own bytes and headers, and what readPast reads.
func retryRecord(m *Message, topic, group string, f failure, due time.Time) Record {
	hs := dialect.Strip(m.Headers)
	add := func(name, value string) {
		if value != "" {
			hs = append(hs, message.Header{Name: name, Value: []byte(value)})
		}
	}
	o := m.Origin()
	add(message.HeaderConsumerGroup, group)
	add(message.HeaderOriginTopic, o.Topic)
	add(message.HeaderOriginPartition, strconv.Itoa(int(o.Partition)))
	add(message.HeaderOriginOffset, strconv.FormatInt(o.Offset, 10))
	if o.Timestamp.UnixMilli() > 0 {
		add(message.HeaderOriginTimestamp, stamp(o.Timestamp))
		add(message.HeaderOriginTimestampType, timestampType(o))
	}
	add(message.HeaderAttempts, strconv.Itoa(m.past.failed))
	if m.past.failed > 0 {
		add(message.HeaderFirstFailedAt, stamp(m.past.firstFailed))
		add(message.HeaderLastFailedAt, stamp(m.past.lastFailed))
		add(message.HeaderErrorClass, f.letterClass())
		add(message.HeaderErrorCode, dialect.Capped(f.code, dialect.MaxNameBytes))
		add(message.HeaderErrorMessage, dialect.Capped(f.message, maxRetryMessage))
	}
	add(HeaderRetryDue, stamp(due))
	return Record{Topic: topic, Key: m.Key, Value: m.Value, Headers: hs}
}

// maxRetryMessage is the longest error message on a record of a retry topic, in bytes; its dead letter has a longer one.
const maxRetryMessage = 512

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }

// deadLetter is a message that was given up: its own bytes as far as they fit, and headers in every dialect of writers.
func deadLetter(m *Message, r *route, group string, f failure, writers []dialect.Writer, fits fit) (Record, error) {
	o := m.Origin()
	if _, redriven := dialect.ParseFailedRecord(m.text(dialect.HeaderReplayOrigin)); redriven && fits >= withoutValue {
		// A message that was sent again may have been changed by hand: its bytes may differ from its origin.
		o = Origin{Topic: m.Topic, Partition: m.Partition, Offset: m.Offset, Timestamp: m.Timestamp, LogAppendTime: m.LogAppendTime}
	}
	d := dialect.Failure{Topic: o.Topic, Partition: o.Partition, Offset: o.Offset, Timestamp: o.Timestamp, TimestampType: timestampType(o),
		Group: group, Attempts: int32(min(m.past.failed, 1<<31-1)), FirstFailedAt: m.past.firstFailed, LastFailedAt: m.past.lastFailed,
		ErrorClass: f.letterClass(), ErrorCategory: f.category, ErrorCode: f.code, ErrorMessage: f.message, Stack: f.stack, RetryTopic: r.redrive, Headers: m.Headers}
	if o.Topic != m.Topic {
		d.LastTopic, d.LastPartition, d.LastOffset = m.Topic, m.Partition, m.Offset
	}
	if fits == bare { // the event's id and the count of its replays stay
		d.Headers = slices.DeleteFunc(slices.Clone(m.Headers), func(h message.Header) bool {
			return !message.Reserved(h.Name) || dialect.Postrider.Owns(h.Name)
		})
	}
	hs, err := dialect.Encode(d, writers...)
	rec := Record{Topic: r.policy.DeadLetterTopic, Key: m.Key, Value: m.Value, Headers: hs}
	refer := func(name, value string) {
		rec.Headers = append(rec.Headers, message.Header{Name: name, Value: []byte(value)})
	}
	if fits >= withoutValue && m.Value != nil {
		rec.Value = nil
		refer(message.HeaderPayload, message.PayloadReference)
		refer(message.HeaderPayloadBytes, strconv.Itoa(len(m.Value)))
	}
	if fits == bare && m.Key != nil {
		rec.Key = nil
		refer(message.HeaderKey, message.KeyReference)
	}
	if slices.Contains(writers, dialect.Connect) && !slices.Contains(writers, dialect.Postrider) && o.Timestamp.UnixMilli() > 0 {
		rec.Timestamp = o.Timestamp // Connect's readers take it for the origin's, which tells one letter from another
	}
	return rec, err
}

package dlq

import (
	"strconv"
	"time"

	"github.com/postrider/postrider/message"
)

// Error codes of letters that say nothing themselves.
const (
	// CodeBrokenHeaders is the error code of a letter whose header set of ours cannot be read; the error
	// message says why.
	CodeBrokenHeaders = "BROKEN_LETTER_HEADERS"
	// CodeUnstorable is the error code of a letter that the store refused; see Unstorable.
	CodeUnstorable = "UNSTORABLE_LETTER"
)

// letterVersion is the header set that Decode reads.
const letterVersion = "1"

// Decode reads a dead letter: of an event or of a record that a consumer failed at, with the header set of package
// outbox; of a task, with a header ce_type of TaskLetterType; or in the dialect of another tool. It never fails: a
// record whose headers it does not know, or that is a broken one of ours, becomes a letter of DialectUnknown that keeps
// everything. Broken values in another dialect are left out. It believes the record whose it is; a Collector asks its Whose.
func Decode(r Record) Letter { return Whose{}.letter(r, decode(r)) }

func decode(r Record) Letter {
	switch {
	case ours(r.Headers):
		read := decodeOurs
		if consumers(r.Headers) {
			read = decodeConsumers
		}
		l, err := read(r)
		if err != nil {
			return broken(r, CodeBrokenHeaders, "the headers of a postrider letter are broken: ", err)
		}
		if l.Subject.Type == SubjectEvent && aboutTask(l.Headers) {
			unwrapTask(&l)
		}
		return l
	case aboutTask(r.Headers):
		l, err := decodeTask(r)
		if err != nil {
			return broken(r, CodeBrokenTaskLetter, "the dead letter of a task is broken: ", err)
		}
		return l
	}
	if l, ok := decodeForeign(r); ok {
		return l
	}
	l := unknown(r)
	for _, h := range r.Headers { // a home-made dead letter mostly has the message's own
		if h.Name == message.HeaderEventID {
			l.isEvent(h.Value)
		}
	}
	return l
}

// broken is a letter of ours that cannot be read.
func broken(r Record, code, what string, err error) Letter {
	l := unknown(r)
	l.ErrorCode, l.ErrorMessage = code, storableText(what+err.Error(), maxMessageBytes)
	return l
}

// unknown is a letter that is known only by the place where it was read. The timestamp is part of its
// id, because the offsets of a topic that was deleted and recreated repeat.
func unknown(r Record) Letter {
	l := readFrom(r)
	id := storableText(r.Topic, maxNameBytes) + "/" + strconv.Itoa(int(r.Partition)) + "/" + strconv.FormatInt(r.Offset, 10)
	if hasTimestamp(r) {
		id += "@" + strconv.FormatInt(r.Timestamp.UnixMilli(), 10)
	}
	l.ID = "record:" + id
	l.Dialect = DialectUnknown
	l.Subject = Subject{Type: SubjectRecord, ID: id}
	l.Reason = Unclassified
	l.OriginalState = "unknown"
	l.Headers = r.Headers
	l.KeyKind, _ = kindOf(r.Key)
	l.PayloadKind, l.PayloadBytes = kindOf(r.Value)
	return l
}

// readFrom is what every letter takes from its record.
func readFrom(r Record) Letter {
	l := Letter{
		DLQTopic:     storableText(r.Topic, maxNameBytes),
		DLQPartition: r.Partition,
		DLQOffset:    r.Offset,
		Key:          r.Key,
		Payload:      r.Value,
	}
	if hasTimestamp(r) {
		l.DLQRecordAt = storableTime(r.Timestamp)
	}
	return l
}

// hasTimestamp reports whether the record has one: Kafka writes -1 ms where it has none.
func hasTimestamp(r Record) bool { return !r.Timestamp.Before(time.UnixMilli(0)) }

func kindOf(b []byte) (BytesKind, *int64) {
	if b == nil {
		return Tombstone, nil
	}
	n := int64(len(b))
	return Inline, &n
}

// decodeOurs reads a letter with our own header set. Everything that names the letter, its event and its
// payload must be right; times are read leniently, because a letter without one is still complete.
func decodeOurs(r Record) (Letter, error) {
	h := readHeaders(r.Headers)
	h.version()
	l := readFrom(r)
	l.Dialect = DialectPostrider
	l.EventID = h.uuid(message.HeaderEventID, true)
	l.Episode = h.int32(message.HeaderEpisode, true)
	l.OutboxID = h.int64(message.HeaderOutboxID, false)
	l.OriginTopic = h.topic(message.HeaderOriginTopic)
	l.Attempts = h.int32(message.HeaderAttempts, false)
	l.FirstFailedAt = h.time(message.HeaderFirstFailedAt)
	l.LastFailedAt = h.time(message.HeaderLastFailedAt)
	l.CreatedAt = h.time(message.HeaderCreatedAt)
	h.failure(&l)
	l.HaltsKey = h.bool(message.HeaderHaltsKey)
	l.TaskUUID = h.uuid(message.HeaderTaskUUID, false)
	h.payload(&l)
	h.key(&l)
	if h.err != nil {
		return Letter{}, h.err
	}
	l.ID = "event:" + l.EventID.String() + ":" + strconv.Itoa(int(*l.Episode))
	l.Subject = Subject{Type: SubjectEvent, ID: l.EventID.String()}
	l.Reason = reasonOf(l.ErrorClass, l.ErrorCode)
	l.OriginalState = "failed"
	l.Headers = append(h.theirs, h.firstSentAs()...)
	if invalid, unreadable := h.ours[message.HeaderInvalidHeaders]; unreadable {
		text := storableText(string(invalid), message.MaxInvalidHeaders)
		l.Headers = append(l.Headers, message.Header{Name: message.HeaderInvalidHeaders, Value: []byte(text)})
	}
	return l, nil
}

// reasonOf tells the reason of a letter from the class and code of its error. The relay dead-letters a record
// class only once the attempts are spent, a permanent one at once, and one of an outage or of a missing topic
// when that has lasted for longer than the topic's settings allow. While a circuit breaker is open fewer events are given up,
// for the reasons that they have.
func reasonOf(class, code string) Reason {
	switch class {
	case "record":
		return MaxRetriesExceeded
	case "permanent":
		if code == message.CodeSkipped {
			return ManualDLQ
		}
		return Undeliverable
	case "infrastructure", "route":
		return StalenessTimeout
	}
	return Unclassified
}

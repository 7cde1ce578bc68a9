package dialect

import (
	"encoding/binary"
	"strconv"
	"time"

	"github.com/postrider/postrider/message"
)

// origin is where a record was first read, as an older set of headers says.
type origin struct {
	topic         string
	partition     int32
	offset        int64
	timestamp     time.Time
	timestampType string
	group         string
	firstFailedAt time.Time
}

// keepOrigin takes the first origin from the headers, if one of the dialects names it for this group. An origin of
// another group is about another record: a service that copies the headers of the records it reads onto the records it
// writes copies these, too.
func (f *Failure) keepOrigin(writers []Writer) {
	for _, w := range writers {
		o, ok := w.origin(f.Headers)
		if !ok || o.group != f.Group {
			continue
		}
		if !o.firstFailedAt.IsZero() && (f.FirstFailedAt.IsZero() || o.firstFailedAt.Before(f.FirstFailedAt)) {
			f.FirstFailedAt = o.firstFailedAt
		}
		if o.topic == f.Topic && o.partition == f.Partition && o.offset == f.Offset {
			return // the caller has it, with its timestamp
		}
		if f.LastTopic == "" {
			f.LastTopic, f.LastPartition, f.LastOffset = f.Topic, f.Partition, f.Offset
		}
		f.Topic, f.Partition, f.Offset = o.topic, o.partition, o.offset
		if w != Connect { // which keeps the timestamp of the record, and does not say it
			f.Timestamp, f.TimestampType = o.timestamp, o.timestampType
		}
		return
	}
}

// origin reads where a record was first read; not ok unless all of it is there.
func (w Writer) origin(hs []message.Header) (origin, bool) {
	switch w {
	case Postrider:
		o, ok := originOf(hs, decimal, message.HeaderOriginTopic, message.HeaderOriginPartition, message.HeaderOriginOffset)
		o.timestamp, o.timestampType = instant(hs, message.HeaderOriginTimestamp), typeOf(hs, message.HeaderOriginTimestampType)
		o.group, o.firstFailedAt = string(first(hs, message.HeaderConsumerGroup)), instant(hs, message.HeaderFirstFailedAt)
		return o, ok
	case Spring:
		for _, prefix := range []string{springPrefix, "kafka_original-"} { // the second is @RetryableTopic's
			o, ok := originOf(hs, bigEndian, prefix+"topic", prefix+"partition", prefix+"offset")
			if !ok {
				continue
			}
			if ms, there := bigEndian(first(hs, prefix+"timestamp")); there && ms > 0 {
				o.timestamp = time.UnixMilli(ms)
			}
			o.timestampType = typeOf(hs, prefix+"timestamp-type")
			o.group = string(first(hs, springPrefix+"consumer-group")) // the name of @RetryableTopic's, too
			return o, true
		}
	case Connect:
		o, ok := originOf(hs, decimal, connectPrefix+"topic", connectPrefix+"partition", connectPrefix+"offset")
		o.group = string(first(hs, connectPrefix+"connector.name"))
		return o, ok
	}
	return origin{}, false
}

func originOf(hs []message.Header, number func([]byte) (int64, bool), topic, partition, offset string) (origin, bool) {
	o := origin{topic: string(first(hs, topic))}
	p, pok := number(first(hs, partition))
	n, nok := number(first(hs, offset))
	o.partition, o.offset = int32(p), n
	return o, pok && nok && p >= 0 && p <= 1<<31-1 && n >= 0 && message.ValidTopic(o.topic) == nil
}

// first returns the oldest value of a header.
func first(hs []message.Header, name string) []byte {
	for _, h := range hs {
		if h.Name == name {
			return h.Value
		}
	}
	return nil
}

func instant(hs []message.Header, name string) time.Time {
	t, err := time.Parse(time.RFC3339Nano, string(first(hs, name)))
	if err != nil {
		return time.Time{}
	}
	return t
}

func typeOf(hs []message.Header, name string) string {
	if s := string(first(hs, name)); timestampType(s) {
		return s
	}
	return ""
}

func decimal(b []byte) (int64, bool) {
	n, err := strconv.ParseInt(string(b), 10, 64)
	return n, err == nil
}

func bigEndian(b []byte) (int64, bool) {
	switch len(b) {
	case 4:
		return int64(int32(binary.BigEndian.Uint32(b))), true
	case 8:
		return int64(binary.BigEndian.Uint64(b)), true
	}
	return 0, false
}

package dlq

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/postrider/postrider/message"
	"github.com/postrider/postrider/message/dialect"
)

// The dialect of another tool is known by its header names. Numbers come in four encodings, told apart by the name and
// never by the content: eight digits may be eight bytes of a number.

// foreign are the headers of a letter in the dialect of another tool.
type foreign struct {
	values map[string][][]byte
	theirs []message.Header
}

// foreignDialect reads a dialect.
type foreignDialect struct {
	name Dialect
	// known are header names; a letter of the dialect has at least one of them.
	known []string
	// belongs reports whether a header is of the dialect and not of the message.
	belongs func(name string) bool
	// read takes out of the headers what they say.
	read func(f *foreign, l *Letter)
}

func prefixed(prefixes ...string) func(string) bool {
	return func(name string) bool {
		return slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(name, p) })
	}
}

func named(names ...string) func(string) bool {
	return func(name string) bool { return slices.Contains(names, name) }
}

// foreignDialects are tried in this order; a message that passed through several has the headers of each, and the
// one that wrote last is not known, so the more specific ones come first.
var foreignDialects = []foreignDialect{
	{DialectShareGroup, []string{"__dlq.errors.topic"}, prefixed("__dlq.errors."), readShareGroup},
	{DialectConnect, []string{"__connect.errors.connector.name", "__connect.errors.exception.class.name", "__connect.errors.topic"},
		dialect.Connect.Owns, readConnect},
	{DialectStreams, []string{"__streams.errors.exception", "__streams.errors.topic"}, prefixed("__streams.errors."), readStreams},
	{DialectSpring, []string{"kafka_dlt-original-topic"}, dialect.Spring.Owns, readSpring},
	{DialectSpringRetry, []string{"kafka_original-topic"}, dialect.Spring.Owns, readSpringRetry},
	{DialectCloudStream, []string{"x-original-topic"}, prefixed("x-original-", "x-exception-"), readCloudStream},
	{DialectSmallRye, []string{"dead-letter-topic", "dead-letter-reason", "delayed-retry-topic"},
		prefixed("dead-letter-", "delayed-retry-"), readSmallRye},
	{DialectWolverine, []string{"original-destination"}, func(name string) bool {
		return named("exception-type", "exception-message", "exception-stack", "failed-at", "original-destination", "original-partition",
			"original-offset", "attempts")(name) || strings.HasPrefix(name, "wolverine-kafka-retry-")
	}, readWolverine},
	{DialectKarafka, []string{"source_topic"}, named("source_topic", "source_partition", "source_offset", "source_consumer_group",
		"source_attempts", "source_trace_id"), readKarafka},
	{DialectKarafka, []string{"original_topic"}, named("original_topic", "original_partition", "original_offset",
		"original_consumer_group", "original_attempts"), readOldKarafka},
}

// decodeForeign reads a letter of a dialect that is known by its headers.
func decodeForeign(r Record) (Letter, bool) {
	for _, d := range foreignDialects {
		if l, ok := decodeForeignAs(r, d); ok {
			return l, true
		}
	}
	return Letter{}, false
}

// decodeForeignAs reads a letter of this dialect.
func decodeForeignAs(r Record, d foreignDialect) (Letter, bool) {
	if !slices.ContainsFunc(r.Headers, func(h message.Header) bool { return slices.Contains(d.known, h.Name) }) {
		return Letter{}, false
	}
	f := &foreign{values: map[string][][]byte{}}
	l := readFrom(r)
	for _, h := range r.Headers {
		switch {
		case d.belongs(h.Name):
			f.values[h.Name] = append(f.values[h.Name], h.Value)
		case h.Name == message.HeaderEventID && l.isEvent(h.Value): // an event of an outbox stays that when another program gives it up
		default:
			f.theirs = append(f.theirs, h)
		}
	}
	l.Dialect = d.name
	l.OriginalState = "failed"
	l.Reason = Unclassified
	l.KeyKind, _ = kindOf(r.Key)
	l.PayloadKind, l.PayloadBytes = kindOf(r.Value)
	d.read(f, &l)
	l.Headers = f.theirs
	if l.RetryTopic == "" && l.ConsumerGroup != "" { // a topic without a known group belongs to no group
		l.RetryTopic = retryTopicOf(r.Headers)
	}
	if l.Attempts != nil && *l.Attempts > 1 {
		l.Reason = MaxRetriesExceeded
	}
	identify(&l, r)
	return l, true
}

// isEvent sets the id of the event that the message is, if the header's value is one: its producer may have written
// anything. It returns false for another id than an earlier header's.
func (l *Letter) isEvent(value []byte) bool {
	if l.EventID != uuid.Nil {
		return l.EventID.String() == string(value)
	}
	if id, err := uuid.Parse(string(value)); err == nil {
		l.EventID = id
	}
	return true
}

// identify gives a letter its id and its subject, by where the message came from first and by the group that failed. A
// letter that does not say enough is known by the place where it was read.
func identify(l *Letter, r Record) {
	if l.OriginTopic == "" || l.OriginPartition == nil || l.OriginOffset == nil {
		place := unknown(r)
		l.ID, l.Subject = place.ID, place.Subject
		return
	}
	l.identifyRecord(r)
}

// recordID names a record and the group that failed at it. The timestamp tells the record from another one at the same
// place of a deleted topic of that name.
func recordID(topic string, partition int32, offset int64, at time.Time, group string) string {
	id := dialect.FailedRecord{Topic: topic, Partition: partition, Offset: offset, Timestamp: at, Group: group}.String()
	return storableText(id, maxIDBytes-len("record:"))
}

// first returns the first value of a header: where a message passed through several hops, that of the first.
func (f *foreign) first(name string) []byte {
	if vs := f.values[name]; len(vs) > 0 {
		return vs[0]
	}
	return nil
}

// last returns the newest value of a header.
func (f *foreign) last(name string) []byte {
	if vs := f.values[name]; len(vs) > 0 {
		return vs[len(vs)-1]
	}
	return nil
}

func (f *foreign) text(name string, limit int) string {
	return storableText(string(f.last(name)), limit)
}

// numbering is how a dialect writes numbers.
type numbering func([]byte) (int64, bool)

// decimal numbers are text.
func decimal(b []byte) (int64, bool) {
	n, err := strconv.ParseInt(string(b), 10, 64)
	return n, err == nil
}

// bigEndian numbers are one to eight bytes, signed, the most significant first.
func bigEndian(b []byte) (int64, bool) {
	if len(b) == 0 || len(b) > 8 {
		return 0, false
	}
	n := int64(int8(b[0]))
	for _, c := range b[1:] {
		n = n<<8 | int64(c)
	}
	return n, true
}

// fixed numbers are four or eight bytes, the most significant first; old versions wrote one byte.
func fixed(b []byte) (int64, bool) {
	switch len(b) {
	case 1, 4, 8:
		return bigEndian(b)
	}
	return 0, false
}

// either reads a number that is decimal text or else bytes, for dialects that were seen with both.
func either(b []byte) (int64, bool) {
	if n, ok := decimal(b); ok {
		return n, true
	}
	return fixed(b)
}

// origin sets where the message came from first, from three headers.
func (f *foreign) origin(l *Letter, read numbering, topic, partition, offset string) {
	l.OriginTopic = storableText(string(f.first(topic)), maxNameBytes)
	if message.ValidTopic(l.OriginTopic) != nil {
		l.OriginTopic = ""
		return
	}
	if n, ok := read(f.first(partition)); ok && n >= 0 && n <= 1<<31-1 {
		p := int32(n)
		l.OriginPartition = &p
	}
	if n, ok := read(f.first(offset)); ok && n >= 0 {
		l.OriginOffset = &n
	}
	last := storableText(string(f.last(topic)), maxNameBytes)
	p, pok := read(f.last(partition))
	o, ook := read(f.last(offset))
	if len(f.values[topic]) > 1 && pok && ook && message.ValidTopic(last) == nil {
		l.LastHop = last + "/" + strconv.FormatInt(p, 10) + "/" + strconv.FormatInt(o, 10)
	}
}

// attempts sets how often the message was tried.
func (f *foreign) attempts(l *Letter, read numbering, name string) {
	if n, ok := read(f.last(name)); ok && n >= 0 && n <= 1<<31-1 {
		a := int32(n)
		l.Attempts = &a
	}
}

// millis reads a time in milliseconds since 1970.
func (f *foreign) millis(read numbering, name string) time.Time {
	if n, ok := read(f.first(name)); ok && n > 0 {
		return storableTime(time.UnixMilli(n))
	}
	return time.Time{}
}

// failure sets what went wrong: code is the first of the headers codes that is there.
func (f *foreign) failure(l *Letter, message, stack string, codes ...string) {
	for _, name := range codes {
		if l.ErrorCode = f.text(name, maxNameBytes); l.ErrorCode != "" {
			break
		}
	}
	l.ErrorMessage = f.text(message, maxMessageBytes)
	l.ErrorStack = f.text(stack, maxStackBytes)
	l.Root = rootOf(l.ErrorCode, string(f.last(message)), string(f.last(stack)))
}

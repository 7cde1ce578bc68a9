// Package dialect writes the headers of a consumer's dead letter: our own set, the set of Spring Kafka, and the set of
// Kafka Connect, so that tools that know one of them find what they look for. Package dlq reads them all. Nothing here
// is about Kafka's client: a dead letter is the failed record's key and value as they were, null where they were null,
// with the headers from here.
package dialect

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/postrider/postrider/message"
)

// Limits of what Encode writes, in bytes; longer texts are cut between characters.
const (
	// MaxStackBytes is the longest stack trace.
	MaxStackBytes = 8 << 10
	// MaxMessageBytes is the longest error message.
	MaxMessageBytes = 4 << 10
	// MaxNameBytes is the longest topic, group, error class and error code. A longer group is an error, because the group
	// is part of a letter's identity.
	MaxNameBytes = 249
	// MaxBytes bounds all that Encode adds to the record's own headers, names and values, with every writer. A letter
	// that its dead-letter topic finds too large may be written again without a stack.
	MaxBytes = 48 << 10
)

// ErrInvalid is wrapped by every error of Encode.
var ErrInvalid = errors.New("invalid dead letter")

// Failure describes a record that a consumer group gives up. Empty strings, zero times and zero attempts mean that a
// value is not known; it is left out.
type Failure struct {
	// Topic, Partition and Offset are where the record was first read, before any retry. Required.
	Topic     string
	Partition int32
	Offset    int64
	// Timestamp is the record's own at that place, in milliseconds; zero or before 1970 when it has none.
	// TimestampType is Kafka's name of what it means: "CreateTime", "LogAppendTime" or "NoTimestampType".
	Timestamp     time.Time
	TimestampType string
	// LastTopic, LastPartition and LastOffset are where the record was read when it failed last. The topic is empty
	// where that is its origin.
	LastTopic     string
	LastPartition int32
	LastOffset    int64
	// Group is the consumer group that failed. Required.
	Group string
	// Attempts is how often the record was tried.
	Attempts                    int32
	FirstFailedAt, LastFailedAt time.Time
	// ErrorClass is "record" for what failed until its attempts were spent, "permanent" for what no attempt can mend;
	// see message.CategoryOf. ErrorCode names the error in one word; other dialects have it where they have the class
	// of an exception.
	ErrorClass, ErrorCode, ErrorMessage, Stack string
	// ErrorCategory is the category that the error names; empty where class and code tell it.
	ErrorCategory message.Category
	// RetryTopic is the topic from which the group, and no other, reads records to try them again.
	RetryTopic string
	// Headers are the record's headers, as they were read when it failed last, in order.
	Headers []message.Header
}

// Writer is a dialect that Encode writes.
type Writer string

const (
	// Postrider is the header set of package message.
	Postrider Writer = "postrider"
	// Spring is what DeadLetterPublishingRecoverer of Spring Kafka writes, numbers as four or eight bytes, big-endian.
	Spring Writer = "spring"
	// Connect is what a sink of Kafka Connect writes (KIP-298), numbers as text.
	Connect Writer = "connect"
)

// Writers returns every dialect that Encode writes.
func Writers() []Writer { return []Writer{Postrider, Spring, Connect} }

// Owns reports whether a header of a record is the bookkeeping of a dialect, and none of the message. The event's id, its
// source, the count of its replays and what it was first sent as are the message's own, although their names begin like ours: without
// the second a message that always fails could be replayed for ever.
func (w Writer) Owns(name string) bool {
	switch w {
	case Postrider:
		return message.Reserved(name) && !slices.Contains(messagesOwn, name)
	case Spring:
		return slices.ContainsFunc(springPrefixes, func(p string) bool { return strings.HasPrefix(name, p) })
	case Connect:
		return strings.HasPrefix(name, connectPrefix)
	}
	return false
}

// messagesOwn are the headers of ours that stay with a message.
var messagesOwn = []string{message.HeaderEventID, message.HeaderHops, message.HeaderRedriveOf, message.HeaderRedriveFor, message.HeaderSource}

// Encode returns the headers of a dead letter: the record's own, in order, without bookkeeping of ours or of the chosen
// dialects, and then the sets of the chosen dialects, Postrider and Spring by default. If the record already has a set
// of one of them about the same group, because it came from a retry or dead-letter topic, Encode keeps the first origin
// and the time of the first failure from there: nothing piles up. A set about another group counts for nothing. Errors
// wrap ErrInvalid and name the fault.
func Encode(f Failure, writers ...Writer) ([]message.Header, error) {
	if len(writers) == 0 {
		writers = []Writer{Postrider, Spring}
	}
	if err := f.check(writers); err != nil {
		return nil, err
	}
	f.keepOrigin(writers)
	s := set{own: f.Headers}
	s.strip(Postrider)
	for i, w := range writers {
		if slices.Contains(writers[:i], w) {
			continue
		}
		s.strip(w)
		switch w {
		case Postrider:
			s.postrider(&f)
		case Spring:
			s.spring(&f)
		case Connect:
			s.connect(&f)
		}
	}
	return append(s.own, s.added...), nil
}

// Strip returns headers without our bookkeeping: the message's own headers stay, with its event id.
func Strip(hs []message.Header) []message.Header {
	s := set{own: hs}
	s.strip(Postrider)
	return s.own
}

// check says what cannot be written.
func (f *Failure) check(writers []Writer) error {
	fail := func(format string, args ...any) error {
		return fmt.Errorf("%w: "+format, append([]any{ErrInvalid}, args...)...)
	}
	for _, w := range writers {
		if !slices.Contains(Writers(), w) {
			return fail("dialect %q is not known; use postrider, spring or connect", w)
		}
	}
	if err := message.ValidTopic(f.Topic); err != nil {
		return fail("origin: %v", err)
	}
	for what, topic := range map[string]string{"last topic": f.LastTopic, "retry topic": f.RetryTopic} {
		if topic == "" {
			continue
		}
		if err := message.ValidTopic(topic); err != nil {
			return fail("%s: %v", what, err)
		}
	}
	switch {
	case f.Partition < 0 || f.Offset < 0:
		return fail("the origin is partition %d, offset %d; neither can be negative", f.Partition, f.Offset)
	case f.LastTopic != "" && (f.LastPartition < 0 || f.LastOffset < 0):
		return fail("the record was last read from partition %d, offset %d; neither can be negative", f.LastPartition, f.LastOffset)
	case f.Group == "":
		return fail("no consumer group is named")
	case len(f.Group) > MaxNameBytes || !utf8.ValidString(f.Group) || strings.Contains(f.Group, "\x00"):
		return fail("consumer group %.80q: use at most %d bytes of UTF-8 without NUL", f.Group, MaxNameBytes)
	case f.Attempts < 0:
		return fail("%d attempts", f.Attempts)
	case f.TimestampType != "" && !timestampType(f.TimestampType):
		return fail("timestamp type %.80q; use CreateTime, LogAppendTime or NoTimestampType", f.TimestampType)
	}
	return nil
}

func timestampType(s string) bool {
	return s == "CreateTime" || s == "LogAppendTime" || s == "NoTimestampType"
}

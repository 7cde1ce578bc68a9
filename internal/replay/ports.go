package replay

import (
	"context"
	"errors"

	"github.com/postrider/postrider/internal/dlq"
	"github.com/postrider/postrider/internal/relay"
)

// errFinal marks errors that waiting does not mend.
var errFinal = errors.New("waiting does not help")

// Final marks an error of a Cluster that waiting does not mend, for example a missing right. All others are waited out.
func Final(err error) error { return &finalError{err} }

// IsFinal reports whether an error is marked by Final.
func IsFinal(err error) bool { return errors.Is(err, errFinal) }

// finalError does not change what the error says.
type finalError struct{ error }

func (e *finalError) Unwrap() []error { return []error{e.error, errFinal} }

// Topic is what a topic is now.
type Topic struct {
	// ID is another when a topic of the same name was deleted and made anew. Empty where brokers have none.
	ID string
	// Partitions is how many it has.
	Partitions int32
}

// Span is a range of offsets of one partition: From is the first, To the one behind the last.
type Span struct{ From, To int64 }

// CommittedOffset is how far one partition was replayed, as the broker keeps it.
type CommittedOffset struct {
	// Offset is the next to look at.
	Offset int64
	// Note is the text that was committed with it.
	Note string
}

// Cluster is what a replay needs of Kafka beside a Publisher.
type Cluster interface {
	// Topics returns the named topics that exist. It creates none.
	Topics(ctx context.Context, names ...string) (map[string]Topic, error)
	// Bounds returns where each partition of a topic begins and ends for a reader of committed transactions.
	Bounds(ctx context.Context, topic string) (map[int32]Span, error)
	// CommittedOffsets returns the offsets that a group has committed for a topic.
	CommittedOffsets(ctx context.Context, group, topic string) (map[int32]CommittedOffset, error)
	// CommitOffsets commits offsets. A group with members of its own refuses, which is Final.
	CommitOffsets(ctx context.Context, group, topic string, offsets map[int32]CommittedOffset) error
	// Read returns a reader of these ranges.
	Read(topic string, spans map[int32]Span) (Reader, error)
}

// Reader reads ranges of a topic once, in order per partition.
type Reader interface {
	// Poll waits for records, and returns when it has some, knows that a partition goes on behind a gap, or knows what
	// it waits for.
	Poll(ctx context.Context) (Chunk, error)
	// Close ends the reader.
	Close()
}

// Chunk has the records that one Poll read.
type Chunk struct {
	// Records are in order per partition, and within their ranges.
	Records []dlq.Record
	// Next is, for partitions that went on, the offset behind everything that was looked at, at most the end of the
	// range: transaction markers and compacted offsets are passed.
	Next map[int32]int64
	// Missed is how many offsets were deleted by retention before they were read.
	Missed int64
	// Waiting says what keeps records from coming, in a chunk that has none.
	Waiting string
}

// Publisher is what a replay needs to send: the relay's Publisher has it, with all its rules about order.
type Publisher interface {
	// Publish hands the messages to the broker, in order, and waits for the outcomes until ctx ends; see
	// relay.Publisher.
	Publish(ctx context.Context, ms []relay.Message) []relay.Outcome
}

var _ Publisher = relay.Publisher(nil)

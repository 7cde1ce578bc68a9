package consumer

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/postrider/postrider/message"
)

// Client is a member of a consumer group that also writes to retry and dead-letter topics. Package
// consumer/kafka has it on franz-go. One Client serves one Consumer; its methods are safe for concurrent use,
// except Poll.
type Client interface {
	// Open joins the group and subscribes. It returns an error when a topic to write to is missing and may not be
	// created. Events are told from then on until Close returns.
	Open(ctx context.Context, s Subscription, e Events) error
	// Poll waits for records. Until Release is called the client calls no method of Events, so that the batches can be
	// handed over before their partitions may be taken away. An error that comes with batches is about other
	// partitions. Poll returns an error that wraps ErrClosed when no record will come any more, and the error of ctx
	// when ctx has ended.
	Poll(ctx context.Context) ([]Batch, error)
	// Release ends what Poll began, whatever Poll returned.
	Release()
	// Pause stops fetching of a partition until Resume; nothing that was fetched is lost by it.
	Pause(p Partition)
	// Resume undoes Pause. It does nothing for a partition that is not paused.
	Resume(p Partition)
	// Commit stores positions for the group, and returns when the broker has them. It must not be cancelled by a
	// rebalance.
	Commit(ctx context.Context, positions []Position) error
	// Publish returns nil when every in-sync replica has the record. It gives nothing up by itself while ctx lasts;
	// an error that wraps ErrTooLarge means that the record can never be written as it is. After any other
	// error, and when ctx has ended, the record may or may not have been written.
	Publish(ctx context.Context, r Record) error
	// Close leaves the group, and ends the client.
	Close(ctx context.Context) error
}

// Events are the calls by which a Client tells of changes in the group. They come one at a time, and never between a
// Poll and its Release; the group waits for them.
type Events interface {
	// Assigned partitions are this member's from now on; their records follow.
	Assigned(partitions []Partition)
	// Revoked partitions are given away when this returns; until then they can be committed.
	Revoked(partitions []Partition)
	// Lost partitions may be another member's already: nothing may be committed.
	Lost(partitions []Partition)
}

// Subscription says which topics a Client reads and writes, and for which group.
type Subscription struct {
	// Group is the consumer group.
	Group string
	// Topics are the topics to read.
	Topics []string
	// Targets are the topics to write to.
	Targets []Target
	// Also reports whether a topic that exists when the client opens is to be read, too. A client that may not list
	// topics reads only Topics. May be nil.
	Also func(topic string) bool
	// Logger is for a client without a logger of its own. May be nil.
	Logger *slog.Logger
}

// Target is a topic that a consumer writes to.
type Target struct {
	Topic string
	// Like is the topic whose number of partitions it gets where it is created; empty for the broker's default.
	Like string
}

// Partition is a partition of a topic.
type Partition struct {
	Topic string
	ID    int32
}

// Position is where a partition is to be read on from: every record before Offset is done with.
type Position struct {
	Partition
	Offset int64
	// LeaderEpoch is the leader epoch of the newest record read; -1 where it is not known.
	LeaderEpoch int32
}

// Batch has the records of one partition that one fetch brought.
type Batch struct {
	Partition
	// Messages are in order of offset. The Consumer keeps and changes them.
	Messages []Message
	// Bytes is the size of their keys, values and headers.
	Bytes int64
	// LeaderEpoch is the leader epoch of the last message; -1 where it is not known.
	LeaderEpoch int32
	// End is the offset behind the partition's newest record that may be read.
	End int64
	// Missed is how many offsets before the first message were deleted before they were read.
	Missed int64
}

// Record is a record that a Consumer writes.
type Record struct {
	Topic string
	// Key decides the partition, as with the Java client; nil is no key. Value nil is a tombstone.
	Key, Value []byte
	Headers    []message.Header
	// Timestamp is the record's, in milliseconds; zero stands for the time of writing.
	Timestamp time.Time
}

// ErrClosed is wrapped by errors of a Client that was closed.
var ErrClosed = errors.New("the client is closed")

// ErrTooLarge is wrapped by Publish's error about a record that its topic does not take.
var ErrTooLarge = errors.New("the record is too large for its topic")

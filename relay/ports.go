package relay

import (
	"context"
	"time"

	"github.com/google/uuid"

	"github.com/postrider/postrider/relay/outbox"
)

// Store is what the relay needs of the database.
type Store interface {
	// Claim locks up to limits.Shards free shards that have pending events and reads those events in
	// order. It returns nil when there is nothing to do. The claim must be ended by Settle or Abandon.
	Claim(ctx context.Context, limits Limits) (Claim, error)
	// ClaimLetters locks up to limit exhausted events that are free and due, oldest first within each
	// topic, and whose dead-letter topic is not held; letterTopic says which that is for an event's topic.
	// It returns nil when there are none.
	ClaimLetters(ctx context.Context, letterTopic func(topic string) string, limit int) (LetterClaim, error)
	// Return brings back, up to limit each, scheduled events whose time has come and parked events
	// whose hold is draining, and lets a probe through each hold that is due for one.
	Return(ctx context.Context, limit int, grace time.Duration) (Returned, error)
	Purger
	BacklogReader
}

// Limits bounds one claim.
type Limits struct {
	// Worker is the stable id of the worker that claims.
	Worker string
	// First is the shard to look at first, 0 to 63; claims start at different shards so that none starves.
	First int
	// Shards is how many shards to lock at most.
	Shards int
	// Events and Bytes are how many events to read at most, and about how many bytes of keys and
	// payloads: both are shared evenly among the locked shards, and a shard's last event may be over. Bytes
	// of 0 is no bound.
	Events int
	Bytes  int64
	// CommitOrder asks for Batch.Final and Batch.FenceAge.
	CommitOrder bool
}

// Batch is what a claim found.
type Batch struct {
	// Events are in id order within each shard.
	Events []outbox.Event
	// Holds are the ones that bear on the claimed shards.
	Holds Holds
	// PerShard is the even share of one shard: as many events of it as the claim would have read, if there
	// are so many. A claim of a deep backlog, which is read in id order over all its shards, may have more.
	PerShard int
	// Now is the time by the database's clock.
	Now time.Time
	// Final is the id up to which no transaction can commit an event any more, and FenceAge how long it has
	// been known that there are newer ones. Standstill is why that cannot end by itself, if it cannot. All are
	// zero unless asked for.
	Final      int64
	FenceAge   time.Duration
	Standstill Standstill
	// Crashes is how many earlier batches over these shards ended with the death of their worker;
	// SuspectFirst to SuspectLast are the ids that were in flight then.
	Crashes                   int
	SuspectFirst, SuspectLast int64
}

// Claim is a batch whose shards are locked until Settle or Abandon.
type Claim interface {
	Batch() *Batch
	// Mark makes the batch visible to others, committed beside the claim.
	Mark(ctx context.Context) error
	// CountAttempt adds one to the attempts of an event, committed at once, so that the attempt counts
	// even if it kills this process. It returns the new number.
	CountAttempt(ctx context.Context, id int64) (int, error)
	// Settle writes the outcome and commits. After an error the outcome is unknown: what the database
	// says at the next claim is the truth. It writes what its Crowds found.
	Settle(ctx context.Context, s *Settlement) error
	// Abandon gives the shards back with nothing changed: what CountAttempt counted is taken back, and what is
	// known of workers that died over these events stays known.
	Abandon()
}

// LetterClaim is a set of exhausted events that are locked until Settle or Abandon.
type LetterClaim interface {
	Events() []outbox.Event
	// Settle writes what became of the letters and commits.
	Settle(ctx context.Context, s *LetterSettlement) error
	// Abandon gives the events back with nothing changed.
	Abandon()
}

// LetterSettlement is what became of a claim of letters.
type LetterSettlement struct {
	// Delivered are ids that their dead-letter topic acknowledged.
	Delivered []int64
	// Postponed are ids whose letter was refused by its own fault; they are offered again after PostponeFor.
	Postponed   []int64
	PostponeFor time.Duration
	// Holds are put on dead-letter topics that take nothing; those of Lifted end.
	Holds  []HoldChange
	Lifted []string
}

// Returned counts what one Return did.
type Returned struct {
	// Events came back to pending; Holds ended.
	Events, Holds int
	// Next is how long nothing more is due, as far as the database knows now; 0 when that was not asked.
	Next time.Duration
	// Standstill is why no id becomes final, if that cannot end by itself.
	Standstill Standstill
}

// Publisher is what the relay needs of the broker.
type Publisher interface {
	// Check returns the outcome of a message that can never be sent as it is, or nil. limit is the largest
	// record to send, in bytes; 0, or more than the publisher's own limit, is that.
	Check(m *Message, limit int) *Outcome
	// Partition says on which of n partitions a message with this key is; key is not nil.
	Partition(key []byte, n int32) int32
	// Publish hands the messages to the broker, in order, and waits for the outcomes until ctx ends.
	// It returns one outcome per message. Once a message of a topic and key was not delivered for a
	// reason that may pass, later ones of that key are withheld. A message whose outcome is still
	// unknown is remembered: publishing it again sends nothing and returns that outcome, or that it is
	// still unknown. The caller does not change what it returns: batches that simply went share it.
	Publish(ctx context.Context, ms []Message) []Outcome
	// Ping returns nil when any broker answers.
	Ping(ctx context.Context) error
	// Remember keeps the outcomes of delivered messages that could not be settled, so that
	// publishing them again from this process sends nothing.
	Remember(ms []Message)
}

// MessageID names a message: an event on its way to its own topic, or its dead letter.
type MessageID struct {
	EventID uuid.UUID
	Episode int
	Letter  bool
}

// Message is one Kafka record to send.
type Message struct {
	ID      MessageID
	Topic   string
	Key     []byte
	Value   []byte
	Headers []outbox.Header
}

// Class says what an outcome means for the event; see DESIGN.md, faults have classes.
type Class string

const (
	// Delivered: the broker acknowledged it.
	Delivered Class = "delivered"
	// Infrastructure: broker, leader, replicas or network away, or the outcome not known in time. Holds
	// the partition, or the topic where the partition is not known, and spends no attempt.
	Infrastructure Class = "infrastructure"
	// Route: the topic is missing, recreated or refused. Holds the topic and spends no attempt.
	Route Class = "route"
	// Record: this record failed, alone, for a reason that may pass. Spends an attempt.
	Record Class = "record"
	// Permanent: this record, alone, can never be delivered as it is. Given up at once.
	Permanent Class = "permanent"
	// Withheld: not sent, because an earlier event of its key did not go or time ran out.
	Withheld Class = "withheld"
)

// Outcome is what became of a message.
type Outcome struct {
	Class Class
	// Code is a stable code such as MESSAGE_TOO_LARGE; empty when delivered.
	Code string
	// Message says what happened, for people.
	Message string
	// Partition, of Partitions that the topic has, is where a message with a key was on its way to when it
	// failed. Partitions of 0 is not known, or not the matter.
	Partition, Partitions int32
}

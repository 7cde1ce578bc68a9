package relay

import (
	"time"

	"github.com/google/uuid"

	"github.com/postrider/postrider/message"
)

// State is where an event stands; it has the values of the column state of postrider.v_outbox_event.
type State string

const (
	// Pending events are before the relay.
	Pending State = "pending"
	// Scheduled events wait for their time.
	Scheduled State = "scheduled"
	// Parked events wait for a hold on their key or topic to end.
	Parked State = "parked"
	// Exhausted events were given up and are on their way to the dead-letter topic.
	Exhausted State = "exhausted"
	// Published events were acknowledged by their own topic.
	Published State = "published"
	// DeadLettered events were acknowledged by the dead-letter topic.
	DeadLettered State = "dead_lettered"
)

// Event is one row of the outbox as the relay sees it.
type Event struct {
	// ID is the insertion order.
	ID int64
	// EventID is the identity that every copy carries in message.HeaderEventID. What was redriven carries the identity of
	// the event that was first sent.
	EventID uuid.UUID
	Topic   string
	// Key and Payload are exact bytes. nil is Kafka's null (no key; a tombstone) and differs from empty.
	Key, Payload []byte
	// Headers is the stored JSON; message.ParseHeaders reads it.
	Headers []byte
	// Partition is the one that the writer chose; nil leaves it to the key.
	Partition *int32
	// Timestamp is what the writer wants the record to have; zero is the time when it is sent.
	Timestamp time.Time
	// Wired says that its topic has a wire; it is set for dead letters alone.
	Wired bool
	// Attempts counts failed attempts that were the event's own fault.
	Attempts int
	// MaxAttempts is the event's own limit, or that of its task's template; 0 takes the relay's.
	MaxAttempts int
	// Episode counts how often the event was given up.
	Episode int
	// CreatedAt is when it was inserted.
	CreatedAt time.Time
	// Delayed says, by the database's clock, that the writer's available_at has not come yet.
	Delayed bool
	// Deleted says that the event's row was deleted from the log while the event waited: its content is lost.
	Deleted bool
	// FirstErrorAt and LastErrorAt are zero for an event that never failed.
	FirstErrorAt, LastErrorAt time.Time
	// LastErrorClass is a Class; empty for an event that never failed.
	LastErrorClass, LastErrorCode, LastError string
	// TaskUUID is the linked task, or uuid.Nil.
	TaskUUID uuid.UUID
	// OfTask says that Postrider itself wrote it about a task (kind task).
	OfTask bool
	// Redriven says that Postrider itself wrote it to send a message again (kind redrive).
	Redriven bool
}

// keepsHeader reports whether the header is one of ours that the event's row may have. Every writer may count hops. What a
// message was first sent as is written by Postrider alone: with it, a writer could make inboxes take an event for another.
func (e *Event) keepsHeader(name string) bool {
	switch name {
	case message.HeaderHops:
		return true
	case message.HeaderRedriveOf, message.HeaderRedriveFor:
		return e.OfTask || e.Redriven
	}
	return false
}

// isOn reports whether the event goes to this partition of a topic that has so many.
func (e *Event) isOn(partition, partitions int32, partitionOf func(e *Event, n int32) int32) bool {
	switch {
	case e.Partition != nil:
		return *e.Partition == partition
	case e.Key != nil:
		return partitionOf(e, partitions) == partition
	}
	return false
}

// goesAnywhere reports whether the event may go to any partition.
func (e *Event) goesAnywhere() bool { return e.Key == nil && e.Partition == nil }

// HasKey reports whether the event has a key and therefore an order.
func (e *Event) HasKey() bool { return e.Key != nil }

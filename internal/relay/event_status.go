package relay

import (
	"time"

	"github.com/google/uuid"
)

// EventStatus is an event of the outbox for people, without its payload and headers.
type EventStatus struct {
	// ID is its number in the log: the id of its row.
	ID int64 `json:"id,string"`
	// EventID is its identity, which its record and its dead letters have, too.
	EventID uuid.UUID `json:"event_id"`
	// Kind says what it is about: event, a writer's own; task, what Postrider itself writes about a task; redrive, what it sends again.
	Kind string `json:"kind"`
	// Topic is the topic that it is bound for.
	Topic string `json:"topic"`
	// Key is nil for none; bytes of it that are not UTF-8 are replaced.
	Key *string `json:"key"`
	// Status is where it stands: pending, processing, succeeded, failed or dead_lettered.
	Status string `json:"status"`
	// State is finer than Status: pending, scheduled, parked, published, exhausted or dead_lettered.
	State string `json:"state"`
	// Attempts is how many failed.
	Attempts int `json:"attempts"`
	// MaxAttempts is how many it has before it is given up: its own, else those of its task's template, else its topic's.
	MaxAttempts *int `json:"max_attempts"`
	// Episode is how many times it was given up.
	Episode int `json:"episode"`
	// LastErrorClass is the class of its last failure; nil where it did not fail.
	LastErrorClass *string `json:"last_error_class"`
	// LastErrorCode is the code of its last failure; nil where it did not fail.
	LastErrorCode *string `json:"last_error_code"`
	// LastErrorMessage is the message of its last failure; nil where it did not fail.
	LastErrorMessage *string `json:"last_error_message"`
	// CreatedAt is when it was written.
	CreatedAt time.Time `json:"created_at"`
	// AvailableAt is from when it may go.
	AvailableAt time.Time `json:"available_at"`
	// NextAttemptAt is when it is tried next; nil where no time is set.
	NextAttemptAt *time.Time `json:"next_attempt_at"`
	// SentAt is when its topic acknowledged it; nil while it has not.
	SentAt *time.Time `json:"sent_at"`
	// FirstErrorAt is when it failed first; nil where it did not.
	FirstErrorAt *time.Time `json:"first_error_at"`
	// LastErrorAt is when it failed last; nil where it did not.
	LastErrorAt *time.Time `json:"last_error_at"`
	// UpdatedAt is when any of this changed last.
	UpdatedAt time.Time `json:"updated_at"`
	// IdempotencyKey is the key under which it was written; nil for none.
	IdempotencyKey *string `json:"idempotency_key"`
	// TaskUUID is the task that it belongs to; nil for none.
	TaskUUID *uuid.UUID `json:"task_uuid"`
	// HoldID is the hold that it waits behind; nil for none.
	HoldID *int64 `json:"hold_id,string"`
	// PayloadBytes is the size of its payload in bytes; nil for a payload that is null.
	PayloadBytes *int64 `json:"payload_bytes"`
	// LockedBy is the relay that has it: of an event in hand, and of one that the log has before it, the relay that leads.
	// Null while no relay leads.
	LockedBy *string `json:"locked_by"`
	// LockedAt is since when LockedBy has it; nil where that is.
	LockedAt *time.Time `json:"locked_at"`
}

// EventStatuses are the words of EventStatus.Status.
func EventStatuses() []string {
	return []string{"pending", "processing", "succeeded", "failed", "dead_lettered"}
}

// EventStates are the words of EventStatus.State.
func EventStates() []string {
	return []string{"pending", "scheduled", "parked", "published", "exhausted", "dead_lettered"}
}

// EventFilter selects events. Its zero value selects all.
type EventFilter struct {
	// Status, State, Topic, ErrorCode, EventID and TaskUUID, where not empty, are the only ones wanted; the code is that of
	// the last failure.
	Status, State, Topic, ErrorCode string
	EventID, TaskUUID               uuid.UUID
	// Key, if not nil, is the only key wanted.
	Key []byte
	// HoldID, if not 0, is the only hold wanted that events wait behind.
	HoldID int64
	// From and To, where not zero, bound the time when an event was written, both inclusive. A list ends at an event that is
	// more than an hour past its bound, To where the oldest come first and otherwise From. So an event to which its writer gave
	// such a time hides the events behind it.
	From, To time.Time
	// OldestFirst turns the order. Defaults to false: the newest first.
	OldestFirst bool
	// After, if not 0, is the id behind which the list goes on.
	After int64
	// Limit is how many to return at most. Defaults to 25.
	Limit int
}

// EventPage is some events, in the order of the list.
type EventPage struct {
	Events []EventStatus
	// Next is the After of the next page; 0 when there is none. A page may be short, or empty, and have a
	// next one, because each page looks at a fixed number of events, whatever the filter.
	Next int64
}

// EventBytes is what an event carries.
type EventBytes struct {
	EventID      uuid.UUID
	Key, Payload []byte // nil for null
	Headers      []byte // the JSON of the column
}

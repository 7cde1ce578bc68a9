package relay

import (
	"time"

	"github.com/google/uuid"

	"github.com/postrider/postrider/message"
)

// Status is the outbox in numbers.
type Status struct {
	// Pending are behind the position of the log; Due of them are not delayed. Processing came back and are on their way.
	Pending, Due, Processing int64
	// Failed have failed attempts behind them and will be tried again.
	Failed int64
	// Parked wait for a hold, Scheduled for their time.
	Parked, Scheduled int64
	// Exhausted are on their way to the dead-letter topic, DeadLettered arrived there.
	Exhausted, DeadLettered int64
	// OldestDueSeconds is the age of the oldest event that should have gone by now. Parked, retried and exhausted events
	// are included. Events behind halted keys are not, because they wait for an operator. It is 0 when there is none.
	OldestDueSeconds float64
	// HoldCount is the number of holds; Holds are the oldest of them.
	HoldCount int64
	Holds     []HoldStatus
}

// Waiting is how many events have not gone and were not given up.
func (s Status) Waiting() int64 { return s.Pending + s.Parked + s.Scheduled }

// HoldStatus is a hold for people.
type HoldStatus struct {
	// ID is its number.
	ID int64
	// Scope is what it holds, of Topic; Key is that of a hold of a key.
	Scope      Scope
	Topic, Key string
	// Partition is the partition of a partition hold, of Partitions that the topic had then.
	Partition, Partitions *int32
	// FailureCode is set for a circuit breaker: it keeps the events that fail with this code.
	FailureCode string
	// Cause is why it exists.
	Cause Cause
	// ErrorCode and Error are the code and the message of the failure that it comes from.
	ErrorCode, Error string
	// ErrorCategory is told from Cause and ErrorCode by message.CategoryOf.
	ErrorCategory message.Category
	// EventID is the event whose failure it comes from, OutboxID its row where it was given up.
	EventID  uuid.UUID
	OutboxID int64
	// HeldAt is since when it holds.
	HeldAt time.Time
	// NextProbeAt is nil for a hold that waits for an operator.
	NextProbeAt *time.Time
	// Probes counts failed probes.
	Probes int
	// Draining says that what waited behind it comes back.
	Draining bool
	// Asked is what an operator asked for and the leader has not done yet: AskedRelease, AskedGiveUp, or nothing.
	Asked string
	// Parked are the events behind it, counted up to 100001.
	Parked int64
}

package relay

import (
	"time"

	"github.com/google/uuid"

	"github.com/postrider/postrider/message"
)

// Status is the outbox in numbers.
type Status struct {
	// Pending are behind the position of the log; Due of them are not delayed. Processing came back and are on their way.
	Pending    int64 `json:"pending"`
	Due        int64 `json:"due"`
	Processing int64 `json:"processing"`
	// Failed have failed attempts behind them and will be tried again.
	Failed int64 `json:"failed"`
	// Parked wait for a hold, Scheduled for their time.
	Parked    int64 `json:"parked"`
	Scheduled int64 `json:"scheduled"`
	// Exhausted are on their way to the dead-letter topic, DeadLettered arrived there.
	Exhausted    int64 `json:"exhausted"`
	DeadLettered int64 `json:"dead_lettered"`
	// OldestDueSeconds is the age of the oldest event that should have gone by now. Parked, retried and exhausted events
	// are included. Events behind halted keys are not, because they wait for an operator. It is 0 when there is none.
	OldestDueSeconds float64 `json:"oldest_due_seconds"`
	// HoldCount is the number of holds; Holds are the oldest of them.
	HoldCount int64        `json:"hold_count"`
	Holds     []HoldStatus `json:"holds"`
}

// HoldStatus is a hold for people.
type HoldStatus struct {
	ID    int64  `json:"id"`
	Scope Scope  `json:"scope"`
	Topic string `json:"topic"`
	Key   string `json:"key,omitempty"`
	// Partition is the partition of a partition hold, of Partitions that the topic had then.
	Partition  *int32 `json:"partition,omitempty"`
	Partitions *int32 `json:"partitions,omitempty"`
	// FailureCode is set for a circuit breaker: it keeps the events that fail with this code.
	FailureCode string `json:"failure_code,omitempty"`
	Cause       Cause  `json:"cause"`
	ErrorCode   string `json:"error_code"`
	// ErrorCategory is told from Cause and ErrorCode by message.CategoryOf.
	ErrorCategory message.Category `json:"error_category,omitempty"`
	Error         string           `json:"error"`
	// EventID is the event whose failure it comes from, OutboxID its row where it was given up.
	EventID  uuid.UUID `json:"event_id"`
	OutboxID int64     `json:"outbox_id,omitempty"`
	HeldAt   time.Time `json:"held_at"`
	// NextProbeAt is nil for a hold that waits for an operator.
	NextProbeAt *time.Time `json:"next_probe_at"`
	Probes      int        `json:"probes"`
	Draining    bool       `json:"draining"`
	// Asked is what an operator asked for and the leader has not done yet: AskedRelease, AskedGiveUp, or nothing.
	Asked string `json:"asked,omitempty"`
	// Parked are the events behind it, counted up to 100001.
	Parked int64 `json:"parked"`
}

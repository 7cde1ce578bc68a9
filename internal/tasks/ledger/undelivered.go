package ledger

import (
	"time"

	"github.com/google/uuid"
)

// Retried is what a retry of a task did.
type Retried struct {
	// Event is the id of the event that starts the task anew.
	Event uuid.UUID
	// Closed are the investigations that it closed, UnderWay the ones that stay pending because their event is being sent
	// again.
	Closed, UnderWay []uuid.UUID
}

// UndeliveredEvent is an event of a task that was given up without the task being moved in that transaction.
type UndeliveredEvent struct {
	// EventID is the identity of the event.
	EventID uuid.UUID `json:"event_id"`
	// Episode is how many times it had been given up.
	Episode int `json:"episode"`
	// Topic is the topic that it was bound for.
	Topic string `json:"topic"`
	// Attempts is how many were made before it was given up.
	Attempts int `json:"attempts"`
	// ErrorCode is the code of its last failure; empty where there is none.
	ErrorCode string `json:"error_code"`
	// ErrorMessage is the message of its last failure; empty where there is none.
	ErrorMessage string `json:"error_message"`
	// Outcome is what became of it: waiting (the task is tried again), moved (that went well later) or refused.
	Outcome string `json:"outcome"`
	// Detail says why.
	Detail string `json:"detail"`
	// NotedAt is when the event was given up.
	NotedAt time.Time `json:"noted_at"`
}

package ledger

import (
	"time"

	"github.com/google/uuid"
)

// UndeliveredEvent is an event of a task that was given up without the task being moved in that transaction.
type UndeliveredEvent struct {
	EventID      uuid.UUID `json:"event_id"`
	Episode      int       `json:"episode"` // how many times it had been given up
	Topic        string    `json:"topic"`
	Attempts     int       `json:"attempts"`
	ErrorCode    string    `json:"error_code"`
	ErrorMessage string    `json:"error_message"`
	// Outcome is waiting (the task is tried again), moved (that went well later) or refused; Detail says why.
	Outcome string    `json:"outcome"`
	Detail  string    `json:"detail"`
	NotedAt time.Time `json:"noted_at"`
}

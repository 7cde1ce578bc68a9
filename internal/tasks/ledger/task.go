package ledger

import (
	"encoding/json"
	"time"

	"github.com/google/uuid"
)

// Task is a task as it stands. Pointers are nil where there is nothing.
type Task struct {
	UUID      uuid.UUID `json:"task_uuid"`
	Namespace string    `json:"namespace_name"`
	Name      string    `json:"task_name"`
	Version   string    `json:"version"`
	State     string    `json:"state"`
	// Kind of the state: initial, active, waiting (these are live), failed or terminal.
	Kind           string    `json:"state_kind"`
	Live           bool      `json:"live"`
	StateEnteredAt time.Time `json:"state_entered_at"`
	// SortKey is the number of its newest transition.
	SortKey    int `json:"sort_key"`
	Priority   int `json:"priority"`
	RetryCount int `json:"retry_count"`
	// Context is the input it was created with.
	Context        json.RawMessage `json:"context"`
	Metadata       json.RawMessage `json:"metadata"`
	IdempotencyKey *string         `json:"idempotency_key"`
	// ErrorReason says why it failed.
	ErrorReason *string `json:"error_reason"`
	// StaleFlaggedAt is when it was found to be stale in this state.
	StaleFlaggedAt *time.Time `json:"stale_flagged_at"`
	CreatedAt      time.Time  `json:"created_at"`
	UpdatedAt      time.Time  `json:"updated_at"`
	CompletedAt    *time.Time `json:"completed_at"`
}

// Step is a step of a task as it stands.
type Step struct {
	UUID         uuid.UUID  `json:"workflow_step_uuid"`
	TaskUUID     uuid.UUID  `json:"task_uuid"`
	Name         string     `json:"step_name"`
	Handler      *string    `json:"handler_name"`
	Position     int        `json:"position"`
	Dependencies []string   `json:"dependencies"`
	Status       StepStatus `json:"status"`
	RetryCount   int        `json:"retry_count"`
	MaxRetries   int        `json:"max_retries"`
	// RetryBaseSeconds is the pause before the first retry; it doubles up to RetryMaxSeconds.
	RetryBaseSeconds float64         `json:"retry_base_seconds"`
	RetryMaxSeconds  float64         `json:"retry_max_seconds"`
	NextRetryAt      *time.Time      `json:"next_retry_at"`
	Inputs           json.RawMessage `json:"inputs"`
	Results          json.RawMessage `json:"results"`
	LastError        *string         `json:"last_error"`
	// FencingNumber is how often the step was given to a worker, or taken from one by hand.
	FencingNumber  int       `json:"fencing_number"`
	StateEnteredAt time.Time `json:"state_entered_at"`
	CreatedAt      time.Time `json:"created_at"`
	UpdatedAt      time.Time `json:"updated_at"`
}

// StepStatus is where a step stands.
type StepStatus string

// The statuses of steps.
const (
	// StepPending waits for other steps, or for its turn.
	StepPending StepStatus = "pending"
	// StepEnqueued was given to a worker's queue.
	StepEnqueued StepStatus = "enqueued"
	// StepInProgress is being done.
	StepInProgress StepStatus = "in_progress"
	// StepWaitingForRetry failed and is tried again.
	StepWaitingForRetry StepStatus = "waiting_for_retry"
	// StepComplete is done.
	StepComplete StepStatus = "complete"
	// StepError failed for good, or its retries are spent.
	StepError StepStatus = "error"
	// StepCancelled will not be done.
	StepCancelled StepStatus = "cancelled"
	// StepResolvedManually was done by hand.
	StepResolvedManually StepStatus = "resolved_manually"
)

// Transition is a change of a task's state.
type Transition struct {
	UUID      uuid.UUID `json:"task_transition_uuid"`
	FromState *string   `json:"from_state"` // nil for the first
	ToState   string    `json:"to_state"`
	// Metadata has the actor, the reason, and what the caller added.
	Metadata   json.RawMessage `json:"metadata"`
	SortKey    int             `json:"sort_key"`
	MostRecent bool            `json:"most_recent"`
	CreatedAt  time.Time       `json:"created_at"`
}

// StepTransition is a change of a step's status.
type StepTransition struct {
	UUID       uuid.UUID       `json:"step_transition_uuid"`
	StepUUID   uuid.UUID       `json:"workflow_step_uuid"`
	StepName   string          `json:"step_name"`
	FromStatus *string         `json:"from_status"` // nil for the first
	ToStatus   string          `json:"to_status"`
	Metadata   json.RawMessage `json:"metadata"`
	CreatedAt  time.Time       `json:"created_at"`
}

package ledger

import (
	"encoding/json"
	"time"

	"github.com/google/uuid"
)

// Task is a task as it stands, or, in the archive, as it was when it was archived. Fields are null where there is nothing.
type Task struct {
	// UUID is the id of the task.
	UUID uuid.UUID `json:"task_uuid"`
	// NamedTaskUUID is the id of its template.
	NamedTaskUUID uuid.UUID `json:"named_task_uuid"`
	// Namespace is the namespace of its template.
	Namespace string `json:"namespace_name"`
	// Name is the name of its template.
	Name string `json:"task_name"`
	// Version is the version of its template.
	Version string `json:"version"`
	// State is its state, one of its machine's.
	State string `json:"state"`
	// Status is the same as State.
	Status string `json:"status" db:"-"`
	// Kind is the kind of the state: initial, active, waiting (these are live), failed or terminal.
	Kind string `json:"state_kind"`
	// Live says that it has not ended.
	Live bool `json:"live"`
	// StateEnteredAt is since when it is in its state.
	StateEnteredAt time.Time `json:"state_entered_at"`
	// SortKey is the number of its newest transition.
	SortKey int `json:"sort_key"`
	// Priority is how early it goes: a higher one first.
	Priority int `json:"priority"`
	// RetryCount is how many times it was put back to its beginning.
	RetryCount int `json:"retry_count"`
	// Context is the input it was created with.
	Context json.RawMessage `json:"context"`
	// Metadata is free for tools; its key error has the technical side of ErrorReason.
	Metadata json.RawMessage `json:"metadata"`
	// IdempotencyKey is the key under which it was created; nil for none.
	IdempotencyKey *string `json:"idempotency_key"`
	// ErrorReason says why it failed.
	ErrorReason *string `json:"error_reason"`
	// StaleFlaggedAt is when it was found to be stale in this state.
	StaleFlaggedAt *time.Time `json:"stale_flagged_at"`
	// StayFrom is from when its stay in the state counts against the threshold, where that is later than StateEnteredAt: it
	// progressed since, waits for a retry, or was unflagged.
	StayFrom *time.Time `json:"stay_from"`
	// ResumedAt is from when its lifetime counts, where that is later than CreatedAt: it was put back to work, or unflagged.
	ResumedAt *time.Time `json:"resumed_at"`
	// DeadLetters are the ids of its dead letters, in their order.
	DeadLetters []string `json:"dead_letters"`
	// CreatedAt is when it was created.
	CreatedAt time.Time `json:"created_at"`
	// UpdatedAt is when it changed last.
	UpdatedAt time.Time `json:"updated_at"`
	// CompletedAt is when it came to a terminal state; nil while it has not.
	CompletedAt *time.Time `json:"completed_at"`
	// FinalState is the policy under which it was archived; null while it is not.
	FinalState *FinalState `json:"final_state"`
	// ArchivedAt is when it was archived; null while it is not.
	ArchivedAt *time.Time `json:"archived_at"`
}

// WholeTask is a task with all that it has, but for the older part of a long history.
type WholeTask struct {
	// Task is the task itself.
	Task Task `json:"task"`
	// Steps are its steps, in the order of its template.
	Steps []Step `json:"workflow_steps"`
	// Transitions are the newest 100 of the history of its states, the newest first.
	Transitions []Transition `json:"transitions"`
	// TransitionsNext is where the list of transitions goes on, for its parameter after (GET /tasks/{id}/transitions, or
	// /archive/tasks/{id}/transitions); null where these are all.
	TransitionsNext *string `json:"transitions_next"`
	// StepTransitions are the newest 100 of the history of its steps, the newest first.
	StepTransitions []StepTransition `json:"step_transitions"`
	// StepTransitionsNext is where the list of step transitions goes on, likewise.
	StepTransitionsNext *string `json:"step_transitions_next"`
	// Undelivered are its events that were given up and did not move it at once, the newest first, 100 at most. None of an
	// archived task.
	Undelivered []UndeliveredEvent `json:"undelivered_events"`
}

// Step is a step of a task as it stands, or as it was when the task was archived.
type Step struct {
	// UUID is the id of the step.
	UUID uuid.UUID `json:"workflow_step_uuid"`
	// TaskUUID is the id of its task.
	TaskUUID uuid.UUID `json:"task_uuid"`
	// Name is its name in the template.
	Name string `json:"step_name"`
	// Handler names what does it, in the words of the template; nil for none.
	Handler *string `json:"handler_name"`
	// Position is its place among the steps, from 0.
	Position int `json:"position"`
	// Dependencies are the names of the steps that must be done before it.
	Dependencies []string `json:"dependencies"`
	// Status is where it stands.
	Status StepStatus `json:"status"`
	// RetryCount is how many of its MaxRetries were made.
	RetryCount int `json:"retry_count"`
	// MaxRetries is how often it is retried at most.
	MaxRetries int `json:"max_retries"`
	// RetryBaseSeconds is the pause before the first retry, in seconds; it doubles with each retry, up to RetryMaxSeconds.
	RetryBaseSeconds float64 `json:"retry_base_seconds"`
	// RetryMaxSeconds is the longest pause before a retry, in seconds.
	RetryMaxSeconds float64 `json:"retry_max_seconds"`
	// NextRetryAt is when it is tried again; nil where it does not wait for that.
	NextRetryAt *time.Time `json:"next_retry_at"`
	// Inputs are what it was given.
	Inputs json.RawMessage `json:"inputs"`
	// Results are what came out of it.
	Results json.RawMessage `json:"results"`
	// LastError says why it failed last; nil where it did not.
	LastError *string `json:"last_error"`
	// FencingNumber is how often the step was given to a worker, or taken from one by hand.
	FencingNumber int `json:"fencing_number"`
	// StateEnteredAt is since when it has its status.
	StateEnteredAt time.Time `json:"state_entered_at"`
	// CreatedAt is when it was created.
	CreatedAt time.Time `json:"created_at"`
	// UpdatedAt is when it changed last.
	UpdatedAt time.Time `json:"updated_at"`
	// ArchivedAt is when its task was archived; null while it is not.
	ArchivedAt *time.Time `json:"archived_at"`
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
	// UUID is the id of the transition.
	UUID uuid.UUID `json:"task_transition_uuid"`
	// TaskUUID is the id of its task.
	TaskUUID uuid.UUID `json:"task_uuid"`
	// FromState is the state that it left; nil for the first transition.
	FromState *string `json:"from_state"`
	// ToState is the state that it entered.
	ToState string `json:"to_state"`
	// Metadata has the actor, the reason, and what the caller added.
	Metadata json.RawMessage `json:"metadata"`
	// SortKey is its number in the history of the task, from 1.
	SortKey int `json:"sort_key"`
	// MostRecent says that it led to the state of now.
	MostRecent bool `json:"most_recent"`
	// CreatedAt is when it happened.
	CreatedAt time.Time `json:"created_at"`
	// ArchivedAt is when its task was archived; null while it is not.
	ArchivedAt *time.Time `json:"archived_at"`
}

// StepTransition is a change of a step's status.
type StepTransition struct {
	// UUID is the id of the transition.
	UUID uuid.UUID `json:"step_transition_uuid"`
	// TaskUUID is the id of its task.
	TaskUUID uuid.UUID `json:"task_uuid"`
	// StepUUID is the id of the step.
	StepUUID uuid.UUID `json:"workflow_step_uuid"`
	// StepName is the name of the step.
	StepName string `json:"step_name"`
	// FromStatus is the status that it left; nil for the first transition.
	FromStatus *string `json:"from_status"`
	// ToStatus is the status that it entered.
	ToStatus string `json:"to_status"`
	// Metadata has the actor, the reason, and what the caller added.
	Metadata json.RawMessage `json:"metadata"`
	// CreatedAt is when it happened.
	CreatedAt time.Time `json:"created_at"`
	// ArchivedAt is when its task was archived; null while it is not.
	ArchivedAt *time.Time `json:"archived_at"`
	// Place is where a page of the history goes on behind it: the parameter after takes it.
	Place string `json:"place" db:"-"`
}

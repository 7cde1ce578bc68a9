package ledger

import (
	"encoding/json"
	"errors"
	"time"

	"github.com/google/uuid"
)

// What the ledger answers when it does not do what it was asked. Errors wrap one of these.
var (
	// ErrNotFound: the task, step, template or namespace does not exist. A task may have been archived.
	ErrNotFound = errors.New("not found")
	// ErrInvalid: the request can never succeed as it is, for example a context that does not fit the template,
	// or a transition that the machine does not know.
	ErrInvalid = errors.New("invalid")
	// ErrRefused: the task or step exists, and its state does not allow the request.
	ErrRefused = errors.New("refused")
	// ErrExists: there is a task with this uuid already.
	ErrExists = errors.New("exists")
)

// NewTask is a task to create.
type NewTask struct {
	// Namespace and Name name its template. Required.
	Namespace, Name string
	// Version of the template. Empty is the newest.
	Version string
	// Context is its input, JSON that fits the template's input_schema. Empty is {}.
	Context json.RawMessage
	// Priority: higher goes first.
	Priority int
	// Steps, a JSON array in the form of a template's steps, takes the place of the template's. Optional.
	Steps json.RawMessage
	// IdempotencyKey makes a second Create for the template return the first task. 1 to 512 bytes. Optional.
	IdempotencyKey string
	// UUID of the task. The zero value lets the database draw one.
	UUID uuid.UUID
	// Actor is who creates it, for the history. Optional.
	Actor string
}

// Action is what an operator can do with a step by hand.
type Action string

// The actions.
const (
	// ActionRetry gives a step to a worker now, whatever it waits for. In a failed task it takes the step from the worker
	// that has it.
	ActionRetry Action = "retry"
	// ActionResetRetryCount gives a step all its retries again; one that failed is pending again.
	ActionResetRetryCount Action = "reset_retry_count"
	// ActionCancel takes a step out of the work.
	ActionCancel Action = "cancel"
	// ActionCompleteManually says that the step was done by hand.
	ActionCompleteManually Action = "complete_manually"
)

// StepAction is an action on a step.
type StepAction struct {
	Action Action
	// Notes say why, Actor who; both go into the history. Optional.
	Notes, Actor string
	// Results of a step that was done by hand, JSON. Optional.
	Results json.RawMessage
}

// Failure is how a step failed.
type Failure struct {
	// Error says why.
	Error string
	// Final means that trying again cannot help.
	Final bool
	// RetryAfter takes the place of the step's own pause, for example of an answer that names one. Zero keeps it.
	RetryAfter time.Duration
	// FencingNumber is what StartStep returned: a worker from which the step was taken is refused. 0 does not ask.
	FencingNumber int
}

// ReadyQuery asks for tasks that a worker should work on. Zero values take the defaults.
type ReadyQuery struct {
	// Limit is how many, 1 to 10000. Defaults to 10.
	Limit int
	// Namespace, if not empty, is the only one.
	Namespace string
	// WaitingForDependenciesMinutes, WaitingForRetryMinutes and StepsInProcessMinutes are how long a task may be in
	// these states before it is stale and left out, where neither its template nor its namespace says it.
	// Defaults to the settings that the database has, see Settings.Detection.
	WaitingForDependenciesMinutes, WaitingForRetryMinutes, StepsInProcessMinutes int
	// TaskMaxLifetimeHours is how old a task may be, likewise. Defaults to the settings that the database has.
	TaskMaxLifetimeHours int
	// PriorityHalfLifeMinutes is the age at which a priority counts half. Defaults to 60 minutes.
	PriorityHalfLifeMinutes int
}

// Ready is a task that a worker should work on.
type Ready struct {
	TaskUUID         uuid.UUID `json:"task_uuid"`
	Namespace        string    `json:"namespace_name"`
	Name             string    `json:"task_name"`
	State            string    `json:"state"`
	Priority         int       `json:"priority"`
	ComputedPriority float64   `json:"computed_priority"`
	ReadySteps       int       `json:"ready_steps"`
}

// Bounds of Filter.Limit.
const (
	DefaultLimit = 25
	MaxLimit     = 1000
)

// Filter selects tasks. Its zero value selects every task that is not in its machine's archived state.
type Filter struct {
	// Namespace, Name, Version and State, where not empty, are the only ones wanted. A state that no machine has is refused.
	Namespace, Name, Version, State string
	// Flagged selects the live tasks that were found to be stale and left in place. Defaults to false, which selects all.
	Flagged bool
	// NearStale selects the live tasks that are not flagged and past staleness.warn_percent of the threshold of their state or
	// of their lifetime: of each template and state the 1000 that are there longest. It does not go with Flagged. Defaults to
	// false, which selects all.
	NearStale bool
	// From and To bound the time that is in the ids of tasks, both inclusive: when each was created, unless its creator gave
	// it another id than one of version 7. Default to no bound.
	From, To time.Time
	// Limit is how many to return, at most MaxLimit. Defaults to DefaultLimit.
	Limit int
	// Offset is how many of the newest to pass over. Defaults to 0.
	Offset int
	// After is the last task of the page before, with which a list goes on at the same cost however far it is. Offset then
	// counts from there. Defaults to none.
	After uuid.UUID
}

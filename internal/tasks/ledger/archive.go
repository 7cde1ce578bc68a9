package ledger

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/google/uuid"
)

// ErrNotArchived says that a task, or a step of it, is not in the archive.
var ErrNotArchived = errors.New("it is not in the archive")

// FinalState is the policy under which a task was archived.
type FinalState string

const (
	// FinalComplete: it came to its end.
	FinalComplete FinalState = "complete"
	// FinalError: it failed and was left alone.
	FinalError FinalState = "error"
	// FinalCancelled: it was cancelled.
	FinalCancelled FinalState = "cancelled"
	// FinalDLQResolved: it was dead-lettered, and each of its investigations was closed.
	FinalDLQResolved FinalState = "dlq_resolved"
)

// FinalStates returns every final state.
func FinalStates() []FinalState {
	return []FinalState{FinalComplete, FinalError, FinalCancelled, FinalDLQResolved}
}

// ArchivedTask is a task as it was when it was archived.
type ArchivedTask struct {
	TaskUUID       uuid.UUID       `json:"task_uuid"`
	NamedTaskUUID  uuid.UUID       `json:"named_task_uuid"`
	Namespace      string          `json:"namespace_name"`
	Name           string          `json:"task_name"`
	Version        string          `json:"version"`
	State          string          `json:"status"`
	FinalState     FinalState      `json:"final_state"`
	StateEnteredAt time.Time       `json:"state_entered_at"`
	Context        json.RawMessage `json:"context"`
	Priority       int             `json:"priority"`
	RetryCount     int             `json:"retry_count"`
	IdempotencyKey *string         `json:"idempotency_key"`
	ErrorReason    *string         `json:"error_reason"`
	Metadata       json.RawMessage `json:"metadata"`
	DeadLetters    []string        `json:"dead_letters"`
	CreatedAt      time.Time       `json:"created_at"`
	UpdatedAt      time.Time       `json:"updated_at"`
	CompletedAt    *time.Time      `json:"completed_at"`
	ArchivedAt     time.Time       `json:"archived_at"`
}

// ArchivedStep is a step of an archived task.
type ArchivedStep struct {
	StepUUID       uuid.UUID       `json:"workflow_step_uuid"`
	TaskUUID       uuid.UUID       `json:"task_uuid"`
	Name           string          `json:"step_name"`
	Handler        *string         `json:"handler_name"`
	Position       int             `json:"position"`
	Dependencies   []string        `json:"dependencies"`
	Status         string          `json:"status"`
	RetryCount     int             `json:"retry_count"`
	MaxRetries     int             `json:"max_retries"`
	Inputs         json.RawMessage `json:"inputs"`
	Results        json.RawMessage `json:"results"`
	LastError      *string         `json:"last_error"`
	StateEnteredAt time.Time       `json:"state_entered_at"`
	CreatedAt      time.Time       `json:"created_at"`
	UpdatedAt      time.Time       `json:"updated_at"`
	ArchivedAt     time.Time       `json:"archived_at"`
}

// ArchivedTransition is one change of the state of an archived task.
type ArchivedTransition struct {
	TransitionUUID uuid.UUID       `json:"task_transition_uuid"`
	TaskUUID       uuid.UUID       `json:"task_uuid"`
	FromState      *string         `json:"from_state"`
	ToState        string          `json:"to_state"`
	Metadata       json.RawMessage `json:"metadata"`
	SortKey        int             `json:"sort_key"`
	CreatedAt      time.Time       `json:"created_at"`
	ArchivedAt     time.Time       `json:"archived_at"`
}

// ArchivedStepTransition is one change of the status of a step of an archived task.
type ArchivedStepTransition struct {
	TransitionUUID uuid.UUID       `json:"step_transition_uuid"`
	TaskUUID       uuid.UUID       `json:"task_uuid"`
	StepUUID       uuid.UUID       `json:"workflow_step_uuid"`
	FromStatus     *string         `json:"from_status"`
	ToStatus       string          `json:"to_status"`
	Metadata       json.RawMessage `json:"metadata"`
	CreatedAt      time.Time       `json:"created_at"`
	ArchivedAt     time.Time       `json:"archived_at"`
}

// ArchiveFilter says which archived tasks to list. Its zero value lists the newest of all.
type ArchiveFilter struct {
	// Namespace and Name name the template. A name needs its namespace. Default to any.
	Namespace, Name string
	// FinalState is the policy under which they were archived. Defaults to any.
	FinalState FinalState
	// Before is where the page begins: behind this task. Defaults to the newest.
	Before *ArchivePlace
	// Limit is how many, at most MaxArchiveLimit. Defaults to 25.
	Limit int
}

// ArchivePlace is the place of a task in the order of the archive, in which the newest comes first.
type ArchivePlace struct {
	ArchivedAt time.Time `json:"archived_at"`
	TaskUUID   uuid.UUID `json:"task_uuid"`
}

// The limits of ArchiveFilter.
const (
	DefaultArchiveLimit = 25
	MaxArchiveLimit     = 1000
)

// ArchiveStatistics is what the archive has of the tasks that were created in one month, in UTC.
type ArchiveStatistics struct {
	Month       time.Time `json:"month"`
	Tasks       int64     `json:"tasks_archived"`
	Steps       int64     `json:"steps_archived"`
	Transitions int64     `json:"transitions_archived"`
	Complete    int64     `json:"complete"`
	Error       int64     `json:"error"`
	Cancelled   int64     `json:"cancelled"`
	DLQResolved int64     `json:"dlq_resolved"`
	// Size is the size of the whole archive with its indexes, for people; Bytes is the same as a number.
	Size           string    `json:"archive_size"`
	Bytes          int64     `json:"archive_bytes"`
	LastArchivedAt time.Time `json:"last_archived_at"`
}

// ArchiveReader reads archived tasks. A task or a step that is not in the archive is an error that wraps
// ErrNotArchived; a live task is not in the archive.
type ArchiveReader interface {
	// Contains reports whether a task is in the archive.
	Contains(ctx context.Context, task uuid.UUID) (bool, error)
	// Task returns a task.
	Task(ctx context.Context, task uuid.UUID) (ArchivedTask, error)
	// Steps returns the steps of a task in their order.
	Steps(ctx context.Context, task uuid.UUID) ([]ArchivedStep, error)
	// Step returns one step of a task.
	Step(ctx context.Context, task, step uuid.UUID) (ArchivedStep, error)
	// Transitions returns the history of a task's states, the first change first.
	Transitions(ctx context.Context, task uuid.UUID) ([]ArchivedTransition, error)
	// StepTransitions returns the history of a task's steps, the first change first.
	StepTransitions(ctx context.Context, task uuid.UUID) ([]ArchivedStepTransition, error)
	// List returns tasks, the one that was archived last first.
	List(ctx context.Context, f ArchiveFilter) ([]ArchivedTask, error)
	// Statistics returns how much there is, the newest month first.
	Statistics(ctx context.Context) ([]ArchiveStatistics, error)
}

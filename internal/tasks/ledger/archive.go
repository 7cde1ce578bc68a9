package ledger

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
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

// ArchivedTask is a task as it was when it was archived. Fields are null where there is nothing.
type ArchivedTask struct {
	// TaskUUID is the id of the task.
	TaskUUID uuid.UUID `json:"task_uuid"`
	// NamedTaskUUID is the id of the version of its template.
	NamedTaskUUID uuid.UUID `json:"named_task_uuid"`
	// Namespace is the namespace of its template.
	Namespace string `json:"namespace_name"`
	// Name is the name of its template.
	Name string `json:"task_name"`
	// Version is the version of its template.
	Version string `json:"version"`
	// State is the state that it ended in.
	State string `json:"status"`
	// FinalState is the policy under which it was archived.
	FinalState FinalState `json:"final_state"`
	// StateEnteredAt is when it came to its state.
	StateEnteredAt time.Time `json:"state_entered_at"`
	// Context is the input it was created with.
	Context json.RawMessage `json:"context"`
	// Priority is the priority that it had.
	Priority int `json:"priority"`
	// RetryCount is how many times it was put back to its beginning.
	RetryCount int `json:"retry_count"`
	// IdempotencyKey is the key under which it was created.
	IdempotencyKey *string `json:"idempotency_key"`
	// ErrorReason says why it failed.
	ErrorReason *string `json:"error_reason"`
	// Metadata is free for tools; its key error has the technical side of ErrorReason.
	Metadata json.RawMessage `json:"metadata"`
	// DeadLetters are the ids of its dead letters, in their order.
	DeadLetters []string `json:"dead_letters"`
	// CreatedAt is when it was created.
	CreatedAt time.Time `json:"created_at"`
	// UpdatedAt is when it changed last.
	UpdatedAt time.Time `json:"updated_at"`
	// CompletedAt is when it came to a terminal state.
	CompletedAt *time.Time `json:"completed_at"`
	// ArchivedAt is when it was moved to the archive.
	ArchivedAt time.Time `json:"archived_at"`
}

// ArchivedStep is a step of an archived task. Fields are null where there is nothing.
type ArchivedStep struct {
	// StepUUID is the id of the step.
	StepUUID uuid.UUID `json:"workflow_step_uuid"`
	// TaskUUID is the id of its task.
	TaskUUID uuid.UUID `json:"task_uuid"`
	// Name is its name in the template.
	Name string `json:"step_name"`
	// Handler names what did it, in the words of the template.
	Handler *string `json:"handler_name"`
	// Position is its place among the steps, from 0.
	Position int `json:"position"`
	// Dependencies are the names of the steps that had to be done before it.
	Dependencies []string `json:"dependencies"`
	// Status is the status that it ended in.
	Status string `json:"status"`
	// RetryCount is how many of its MaxRetries were made.
	RetryCount int `json:"retry_count"`
	// MaxRetries is how often it is retried at most.
	MaxRetries int `json:"max_retries"`
	// Inputs are what it was given.
	Inputs json.RawMessage `json:"inputs"`
	// Results are what came out of it.
	Results json.RawMessage `json:"results"`
	// LastError says why it failed last.
	LastError *string `json:"last_error"`
	// StateEnteredAt is when it came to its status.
	StateEnteredAt time.Time `json:"state_entered_at"`
	// CreatedAt is when it was created.
	CreatedAt time.Time `json:"created_at"`
	// UpdatedAt is when it changed last.
	UpdatedAt time.Time `json:"updated_at"`
	// ArchivedAt is when it was moved to the archive.
	ArchivedAt time.Time `json:"archived_at"`
}

// ArchivedTransition is one change of the state of an archived task.
type ArchivedTransition struct {
	// TransitionUUID is the id of the transition.
	TransitionUUID uuid.UUID `json:"task_transition_uuid"`
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
	// CreatedAt is when it happened.
	CreatedAt time.Time `json:"created_at"`
	// ArchivedAt is when it was moved to the archive.
	ArchivedAt time.Time `json:"archived_at"`
}

// ArchivedStepTransition is one change of the status of a step of an archived task.
type ArchivedStepTransition struct {
	// TransitionUUID is the id of the transition.
	TransitionUUID uuid.UUID `json:"step_transition_uuid"`
	// TaskUUID is the id of its task.
	TaskUUID uuid.UUID `json:"task_uuid"`
	// StepUUID is the id of its step.
	StepUUID uuid.UUID `json:"workflow_step_uuid"`
	// FromStatus is the status that it left; nil for the first transition.
	FromStatus *string `json:"from_status"`
	// ToStatus is the status that it entered.
	ToStatus string `json:"to_status"`
	// Metadata has the actor, the reason, and what the caller added.
	Metadata json.RawMessage `json:"metadata"`
	// CreatedAt is when it happened.
	CreatedAt time.Time `json:"created_at"`
	// ArchivedAt is when it was moved to the archive.
	ArchivedAt time.Time `json:"archived_at"`
}

// WholeArchivedTask is an archived task with all that it has.
type WholeArchivedTask struct {
	// Task is the task itself.
	Task ArchivedTask `json:"task"`
	// Steps are its steps, in the order of its template.
	Steps []ArchivedStep `json:"workflow_steps"`
	// Transitions are the history of its states, the oldest first.
	Transitions []ArchivedTransition `json:"transitions"`
	// StepTransitions are the history of its steps, the oldest first.
	StepTransitions []ArchivedStepTransition `json:"step_transitions"`
}

// ArchiveFilter says which archived tasks to list. Its zero value lists the newest of all.
type ArchiveFilter struct {
	// Namespace and Name name the template. A name needs its namespace. Default to any.
	Namespace, Name string
	// FinalState is the policy under which they were archived. Defaults to any.
	FinalState FinalState
	// Before is where the page begins: behind this task. Defaults to the newest.
	Before *ArchivePlace
	// Limit is how many, at most MaxArchiveLimit. Defaults to DefaultArchiveLimit.
	Limit int
}

// ArchivePlace is the place of a task in the order of the archive, in which the newest comes first.
type ArchivePlace struct {
	// ArchivedAt is when the task was archived, TaskUUID its id.
	ArchivedAt time.Time
	TaskUUID   uuid.UUID
}

// String is the place as text, which ParseArchivePlace reads.
func (p ArchivePlace) String() string {
	return p.ArchivedAt.UTC().Format(time.RFC3339Nano) + "_" + p.TaskUUID.String()
}

// ParseArchivePlace reads what String wrote.
func ParseArchivePlace(s string) (p ArchivePlace, err error) {
	at, id, _ := strings.Cut(s, "_")
	if p.ArchivedAt, err = time.Parse(time.RFC3339Nano, at); err == nil {
		p.TaskUUID, err = uuid.Parse(id)
	}
	if err != nil || p.ArchivedAt.Year() < 1 || p.ArchivedAt.Year() > 9999 {
		return ArchivePlace{}, fmt.Errorf("%q is no place in the archive: it must be a time, an underscore and the id of a task", s)
	}
	return p, nil
}

// The limits of ArchiveFilter.
const (
	DefaultArchiveLimit = 25
	MaxArchiveLimit     = 1000
)

// ArchiveStatistics is what the archive has of the tasks that were created in one month, in UTC.
type ArchiveStatistics struct {
	// Month is the first moment of the month.
	Month time.Time `json:"month"`
	// Tasks is how many tasks there are.
	Tasks int64 `json:"tasks_archived"`
	// Steps is how many steps there are.
	Steps int64 `json:"steps_archived"`
	// Transitions is how many transitions there are.
	Transitions int64 `json:"transitions_archived"`
	// Complete is how many of the tasks came to their end.
	Complete int64 `json:"complete"`
	// Error is how many of the tasks failed and were left alone.
	Error int64 `json:"error"`
	// Cancelled is how many of the tasks were cancelled.
	Cancelled int64 `json:"cancelled"`
	// DLQResolved is how many of the tasks were dead-lettered, and had each of their investigations closed.
	DLQResolved int64 `json:"dlq_resolved"`
	// Size is the size of the whole archive with its indexes, for people.
	Size string `json:"archive_size"`
	// Bytes is the size of the whole archive with its indexes, in bytes.
	Bytes int64 `json:"archive_bytes"`
	// LastArchivedAt is when a task of the month was archived last.
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
	// List returns tasks, the one that was archived last first, and whether there are more.
	List(ctx context.Context, f ArchiveFilter) (tasks []ArchivedTask, more bool, err error)
	// Statistics returns how much there is, the newest month first.
	Statistics(ctx context.Context) ([]ArchiveStatistics, error)
}

// ReadArchived reads an archived task with all that it has.
func ReadArchived(ctx context.Context, archive ArchiveReader, task uuid.UUID) (whole WholeArchivedTask, err error) {
	if whole.Task, err = archive.Task(ctx, task); err == nil {
		whole.Steps, err = archive.Steps(ctx, task)
	}
	if err == nil {
		whole.Transitions, err = archive.Transitions(ctx, task)
	}
	if err == nil {
		whole.StepTransitions, err = archive.StepTransitions(ctx, task)
	}
	return whole, err
}

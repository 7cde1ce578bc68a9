package ledger

import (
	"context"
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

// ArchiveFilter says which archived tasks to list. Its zero value lists the newest of all.
type ArchiveFilter struct {
	// Namespace and Name name the template. A name needs its namespace. Default to any.
	Namespace, Name string
	// FinalState is the policy under which they were archived. Defaults to any.
	FinalState FinalState
	// Before is where the page begins: behind this task. Defaults to the newest.
	Before *TaskPlace
	// Offset is how many are passed over, not together with Before. Defaults to 0.
	Offset int
	// Limit is how many, at most MaxArchiveLimit. Defaults to DefaultArchiveLimit.
	Limit int
}

// TaskPlace is the place of a task in an order by time: that of the archive, in which the task that was archived last comes
// first, or the order in which tasks ended.
type TaskPlace struct {
	// At is when the task was archived, or when it ended; TaskUUID is its id.
	At       time.Time
	TaskUUID uuid.UUID
}

// String is the place as text, which ParseTaskPlace reads.
func (p TaskPlace) String() string {
	return p.At.UTC().Format(time.RFC3339Nano) + "_" + p.TaskUUID.String()
}

// ParseTaskPlace reads what String wrote.
func ParseTaskPlace(s string) (p TaskPlace, err error) {
	at, id, _ := strings.Cut(s, "_")
	if p.At, err = time.Parse(time.RFC3339Nano, at); err == nil {
		p.TaskUUID, err = uuid.Parse(id)
	}
	if err != nil || p.At.Year() < 1 || p.At.Year() > 9999 {
		return TaskPlace{}, fmt.Errorf("%q is no place in the archive: it must be a time, an underscore and the id of a task", s)
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
	Task(ctx context.Context, task uuid.UUID) (Task, error)
	// Steps returns the steps of a task in their order.
	Steps(ctx context.Context, task uuid.UUID) ([]Step, error)
	// Step returns one step of a task.
	Step(ctx context.Context, task, step uuid.UUID) (Step, error)
	// Transitions returns a page of the history of a task's states, the newest first, and where it goes on; empty at the end.
	Transitions(ctx context.Context, task uuid.UUID, p HistoryPage) (found []Transition, next string, err error)
	// StepTransitions is Transitions, of a task's steps.
	StepTransitions(ctx context.Context, task uuid.UUID, p HistoryPage) (found []StepTransition, next string, err error)
	// List returns tasks, the one that was archived last first, and whether there are more.
	List(ctx context.Context, f ArchiveFilter) (tasks []Task, more bool, err error)
	// Statistics returns how much there is, the newest month first.
	Statistics(ctx context.Context) ([]ArchiveStatistics, error)
}

// ReadArchived reads an archived task with all that WholeTask has.
func ReadArchived(ctx context.Context, archive ArchiveReader, task uuid.UUID) (whole WholeTask, err error) {
	if whole.Task, err = archive.Task(ctx, task); err == nil {
		whole.Steps, err = archive.Steps(ctx, task)
	}
	if err == nil {
		err = whole.ReadHistory(ctx, archive)
	}
	return whole, err
}

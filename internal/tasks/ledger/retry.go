package ledger

import (
	"fmt"
	"slices"
	"strings"

	"github.com/google/uuid"
)

// RetryStanding is what a retry finds of a task.
type RetryStanding struct {
	// TaskUUID is the task that was asked for.
	TaskUUID uuid.UUID
	// State is its state, Machine its machine, and Retryable the states from which that retries. Empty for a task that the
	// ledger does not have.
	State, Machine string
	Retryable      []string
	// Archived says that it is in the archive.
	Archived bool
}

// RetrySkip says why a retry of many skipped a task.
type RetrySkip string

const (
	// RetryNotFound: there is no such task.
	RetryNotFound RetrySkip = "not_found"
	// RetryArchived: it is in the archive, which is only read.
	RetryArchived RetrySkip = "archived"
	// RetryNotRetryable: its machine does not retry from the state that it is in.
	RetryNotRetryable RetrySkip = "not_retryable"
	// RetryBusy: another session has it locked.
	RetryBusy RetrySkip = "busy"
	// RetryNotReached: the database failed when it was its turn, or before.
	RetryNotReached RetrySkip = "not_reached"
)

// SkippedRetry is a task that a retry of many skipped.
type SkippedRetry struct {
	// TaskUUID is the id of the task.
	TaskUUID uuid.UUID `json:"task_uuid"`
	// Reason is why, for programs.
	Reason RetrySkip `json:"reason"`
	// Explanation is why, and what to do, for people.
	Explanation string `json:"explanation"`
}

// Refusal is why a task as it stands is not retried; nil where it can be.
func (s RetryStanding) Refusal() *SkippedRetry {
	skip := func(reason RetrySkip, format string, args ...any) *SkippedRetry {
		return &SkippedRetry{s.TaskUUID, reason, fmt.Sprintf(format, args...)}
	}
	switch {
	case s.Archived:
		return skip(RetryArchived, "it is in the archive, which is only read; create a new task")
	case s.State == "":
		return skip(RetryNotFound, "there is no such task")
	case len(s.Retryable) == 0:
		return skip(RetryNotRetryable, "it is %s, and machine %s retries from no state", s.State, s.Machine)
	case slices.Contains(s.Retryable, s.State):
		return nil
	}
	return skip(RetryNotRetryable, "it is %s; machine %s retries from %s", s.State, s.Machine, strings.Join(s.Retryable, ", "))
}

// RetriedMany is what a retry of many tasks did.
type RetriedMany struct {
	// Tasks are back at their beginning, in the order in which they were named.
	Tasks []uuid.UUID
	// Closed and UnderWay are as in Retried, of all of them.
	Closed, UnderWay []uuid.UUID
	// Skipped are the tasks with which nothing was done, in the same order.
	Skipped []SkippedRetry
}

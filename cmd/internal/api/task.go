package api

import (
	"time"

	"github.com/google/uuid"

	"github.com/postrider/postrider/internal/tasks/ledger"
)

// The ledger's own types are the JSON of tasks, templates and the archive. What is shown of them passes one of the functions
// whose names end in Of.

// TaskOf is a task as it is shown. The API hides the parts of its context and its metadata that the rules of redaction
// name; commands show them whole.
func TaskOf(t ledger.Task) ledger.Task {
	inYears(&t.StateEnteredAt, &t.CreatedAt, &t.UpdatedAt)
	inYearsOrNull(&t.StayFrom, &t.ResumedAt, &t.StaleFlaggedAt, &t.CompletedAt, &t.ArchivedAt)
	t.Status, t.DeadLetters = t.State, append([]string{}, t.DeadLetters...)
	return t
}

// NewTaskList is a page of tasks; more says that the list goes on.
func NewTaskList(tasks []ledger.Task, more bool) List[ledger.Task] {
	next := ""
	if more {
		next = tasks[len(tasks)-1].UUID.String()
	}
	return ListOf(each(TaskOf, tasks), next)
}

// StepOf is a step as it is shown. The API redacts its inputs and results, as TaskOf says.
func StepOf(s ledger.Step) ledger.Step {
	inYears(&s.StateEnteredAt, &s.CreatedAt, &s.UpdatedAt)
	inYearsOrNull(&s.NextRetryAt, &s.ArchivedAt)
	return s
}

// TransitionOf is a transition of a task as it is shown. The API redacts its metadata, as TaskOf says.
func TransitionOf(t ledger.Transition) ledger.Transition {
	inYears(&t.CreatedAt)
	inYearsOrNull(&t.ArchivedAt)
	return t
}

// StepTransitionOf is TransitionOf, of a step.
func StepTransitionOf(t ledger.StepTransition) ledger.StepTransition {
	inYears(&t.CreatedAt)
	inYearsOrNull(&t.ArchivedAt)
	return t
}

// UndeliveredEventOf is an undelivered event of a task as it is shown.
func UndeliveredEventOf(e ledger.UndeliveredEvent) ledger.UndeliveredEvent {
	inYears(&e.NotedAt)
	return e
}

// WholeTaskOf is a task as WholeTask has it, unredacted. Its lists are never null.
func WholeTaskOf(w ledger.WholeTask) ledger.WholeTask {
	return ledger.WholeTask{Task: TaskOf(w.Task), Steps: each(StepOf, w.Steps), Transitions: each(TransitionOf, w.Transitions), TransitionsNext: w.TransitionsNext,
		StepTransitions: each(StepTransitionOf, w.StepTransitions), StepTransitionsNext: w.StepTransitionsNext, Undelivered: each(UndeliveredEventOf, w.Undelivered)}
}

// RetriedTask says that a task was put back to its beginning.
type RetriedTask struct {
	// Status is always retry_queued.
	Status string `json:"status"`
	// TaskUUID is the id of the task.
	TaskUUID uuid.UUID `json:"task_uuid"`
	// EventID is the event that says so.
	EventID uuid.UUID `json:"event_id"`
	// ClosedInvestigations were pending about the task, or about an event whose loss moved it; the retry closed them. Never null.
	ClosedInvestigations []uuid.UUID `json:"closed_investigations"`
	// InvestigationsUnderWay stay pending, because their event is being sent again; never null.
	InvestigationsUnderWay []uuid.UUID `json:"investigations_under_way"`
}

// NewRetriedTask is a task that was put back to its beginning.
func NewRetriedTask(task uuid.UUID, r ledger.Retried) RetriedTask {
	return RetriedTask{"retry_queued", task, r.Event, append([]uuid.UUID{}, r.Closed...), append([]uuid.UUID{}, r.UnderWay...)}
}

// RetriedTasks says what became of tasks that were to be put back to their beginning.
type RetriedTasks struct {
	// Retried are back at their beginning; never null.
	Retried []uuid.UUID `json:"retried"`
	// Skipped are the tasks with which nothing was done, each with the reason; never null.
	Skipped []ledger.SkippedRetry `json:"skipped"`
	// ClosedInvestigations were pending about the tasks, or about events whose loss moved them; the retry closed them. Never null.
	// None in a dry run.
	ClosedInvestigations []uuid.UUID `json:"closed_investigations"`
	// InvestigationsUnderWay stay pending, because their event is being sent again; never null. None in a dry run.
	InvestigationsUnderWay []uuid.UUID `json:"investigations_under_way"`
	// DryRun says that nothing was changed: retried is what would be.
	DryRun bool `json:"dry_run"`
	// Incomplete says that the database failed before all tasks of this request were reached: the skipped ones with the reason
	// not_reached.
	Incomplete bool `json:"incomplete"`
	// Next is for the field after of the next request, which goes on with the group or the filter; null where all was looked at.
	// If incomplete is true, it is the after of this request, null for none: send the same request again, under another
	// Idempotency-Key.
	Next *string `json:"next"`
}

// NewRetriedTasks is the outcome of a retry of many; next is empty where all was looked at. If incomplete, the database failed in
// the middle, and next is where the request began.
func NewRetriedTasks(m ledger.RetriedMany, dryRun, incomplete bool, next string) RetriedTasks {
	return RetriedTasks{append([]uuid.UUID{}, m.Tasks...), append([]ledger.SkippedRetry{}, m.Skipped...), append([]uuid.UUID{}, m.Closed...),
		append([]uuid.UUID{}, m.UnderWay...), dryRun, incomplete, OrNull(next)}
}

// Add is the outcome with that of the portion behind it.
func (r RetriedTasks) Add(more RetriedTasks) RetriedTasks {
	return RetriedTasks{append(r.Retried, more.Retried...), append(r.Skipped, more.Skipped...), append(r.ClosedInvestigations, more.ClosedInvestigations...),
		append(r.InvestigationsUnderWay, more.InvestigationsUnderWay...), more.DryRun, more.Incomplete, more.Next}
}

// CancelledTask says what came of cancelling a task.
type CancelledTask struct {
	// Cancelled is false where it had ended before.
	Cancelled bool `json:"cancelled"`
	// Task is the task as it stands now.
	Task ledger.Task `json:"task"`
}

// UnflaggedTask says what came of ending the flag of a task.
type UnflaggedTask struct {
	// Unflagged is false where it had no flag.
	Unflagged bool `json:"unflagged"`
	// Task is the task as it stands now.
	Task ledger.Task `json:"task"`
}

// DeadLetteredTask says that a task was dead-lettered by hand.
type DeadLetteredTask struct {
	// TaskUUID is the id of the task.
	TaskUUID uuid.UUID `json:"task_uuid"`
	// EventID is the event that is its dead letter.
	EventID uuid.UUID `json:"event_id"`
}

// TreatedStep is a step after something was done with it by hand.
type TreatedStep struct {
	// Step is the step as it stands now.
	Step ledger.Step `json:"workflow_step"`
	// TaskState is the state of its task, which followed.
	TaskState string `json:"task_state"`
}

// StaleTasks is what one detection by hand found.
type StaleTasks struct {
	// DryRun says that nothing was changed.
	DryRun bool `json:"dry_run"`
	// Detected is how many stale tasks were found.
	Detected int `json:"detected"`
	// MovedToDLQ is how many of them were dead-lettered.
	MovedToDLQ int `json:"moved_to_dlq"`
	// Transitioned is how many of them were moved to the failed state of their machine.
	Transitioned int `json:"transitioned"`
	// DurationMS is how long it took, in milliseconds.
	DurationMS float64 `json:"duration_ms"`
	// Tasks are the stale tasks that were found; never null.
	Tasks []ledger.StaleTask `json:"tasks"`
}

// NewStaleTasks counts what was done with the tasks that were found.
func NewStaleTasks(found []ledger.StaleTask, dryRun bool, took time.Duration) StaleTasks {
	s := StaleTasks{DryRun: dryRun, Detected: len(found), DurationMS: float64(took.Microseconds()) / 1000, Tasks: append([]ledger.StaleTask{}, found...)}
	for _, t := range found {
		if t.MovedToDLQ {
			s.MovedToDLQ++
		}
		if t.TransitionSuccess {
			s.Transitioned++
		}
	}
	return s
}

// DetectorOf is the switch of the detectors, and their last pass, as it is shown.
func DetectorOf(s ledger.DetectorStatus) ledger.DetectorStatus {
	inYearsOrNull(&s.PausedAt, &s.ResumeAt, &s.LastPassAt)
	return s
}

// SwitchOf is the switch of engines as it is shown.
func SwitchOf(s ledger.Switch) ledger.Switch {
	inYearsOrNull(&s.PausedAt, &s.ResumeAt)
	return s
}

// ResumedEngine says what came of letting engines go on.
type ResumedEngine struct {
	// Resumed is false where they were not paused.
	Resumed bool `json:"resumed"`
	// Switch is the switch as it stands now.
	Switch ledger.Switch `json:"switch"`
}

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
	inYearsOrNull(&t.StaleFlaggedAt, &t.CompletedAt, &t.ArchivedAt)
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

// WholeTaskOf is a task with all that it has, unredacted. Its lists are never null.
func WholeTaskOf(w ledger.WholeTask) ledger.WholeTask {
	return ledger.WholeTask{Task: TaskOf(w.Task), Steps: each(StepOf, w.Steps), Transitions: each(TransitionOf, w.Transitions),
		StepTransitions: each(StepTransitionOf, w.StepTransitions), Undelivered: each(UndeliveredEventOf, w.Undelivered)}
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
	// InvestigationsUnderWay are those that stay pending because their event is being sent again; never null.
	InvestigationsUnderWay []uuid.UUID `json:"investigations_under_way"`
}

// NewRetriedTask is a task that was put back to its beginning.
func NewRetriedTask(task uuid.UUID, r ledger.Retried) RetriedTask {
	return RetriedTask{"retry_queued", task, r.Event, append([]uuid.UUID{}, r.Closed...), append([]uuid.UUID{}, r.UnderWay...)}
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

// ResumedDetector says what came of letting the detectors go on.
type ResumedDetector struct {
	// Resumed is false where they were not paused.
	Resumed bool `json:"resumed"`
	// Detector is the switch as it stands now.
	Detector ledger.DetectorStatus `json:"detector"`
}

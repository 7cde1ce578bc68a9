package api

import "github.com/postrider/postrider/internal/tasks/ledger"

// ArchivedTaskOf is an archived task as it is shown. The API redacts it, as TaskOf says.
func ArchivedTaskOf(t ledger.ArchivedTask) ledger.ArchivedTask {
	inYears(&t.StateEnteredAt, &t.CreatedAt, &t.UpdatedAt, &t.ArchivedAt)
	inYearsOrNull(&t.CompletedAt)
	return t
}

// NewArchivedTaskList is a page of archived tasks; more says that the list goes on.
func NewArchivedTaskList(tasks []ledger.ArchivedTask, more bool) List[ledger.ArchivedTask] {
	next := ""
	if more {
		last := tasks[len(tasks)-1]
		next = ledger.ArchivePlace{ArchivedAt: last.ArchivedAt, TaskUUID: last.TaskUUID}.String()
	}
	return ListOf(each(ArchivedTaskOf, tasks), next)
}

// ArchivedStepOf is a step of an archived task as it is shown. The API redacts it, as StepOf says.
func ArchivedStepOf(s ledger.ArchivedStep) ledger.ArchivedStep {
	inYears(&s.StateEnteredAt, &s.CreatedAt, &s.UpdatedAt, &s.ArchivedAt)
	return s
}

// ArchivedTransitionOf is a transition of an archived task as it is shown. The API redacts it, as TransitionOf says.
func ArchivedTransitionOf(t ledger.ArchivedTransition) ledger.ArchivedTransition {
	inYears(&t.CreatedAt, &t.ArchivedAt)
	return t
}

// ArchivedStepTransitionOf is ArchivedTransitionOf, of a step.
func ArchivedStepTransitionOf(t ledger.ArchivedStepTransition) ledger.ArchivedStepTransition {
	inYears(&t.CreatedAt, &t.ArchivedAt)
	return t
}

// WholeArchivedTaskOf is an archived task with all that it has, unredacted. Its lists are never null.
func WholeArchivedTaskOf(w ledger.WholeArchivedTask) ledger.WholeArchivedTask {
	return ledger.WholeArchivedTask{Task: ArchivedTaskOf(w.Task), Steps: each(ArchivedStepOf, w.Steps),
		Transitions: each(ArchivedTransitionOf, w.Transitions), StepTransitions: each(ArchivedStepTransitionOf, w.StepTransitions)}
}

// ArchiveStatisticsOf is a month of the archive as it is shown.
func ArchiveStatisticsOf(s ledger.ArchiveStatistics) ledger.ArchiveStatistics {
	inYears(&s.Month, &s.LastArchivedAt)
	return s
}

// ArchiveRun is what one archiving by hand moved, or in a dry run would have moved.
type ArchiveRun struct {
	// DryRun says that nothing was moved.
	DryRun bool `json:"dry_run"`
	ledger.Archived
}

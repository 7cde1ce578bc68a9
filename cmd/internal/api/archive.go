package api

import "github.com/postrider/postrider/internal/tasks/ledger"

// NewArchivedTaskList is a page of archived tasks; more says that the list goes on.
func NewArchivedTaskList(tasks []ledger.Task, more bool) List[ledger.Task] {
	next := ""
	if more {
		last := tasks[len(tasks)-1]
		next = ledger.TaskPlace{At: *last.ArchivedAt, TaskUUID: last.UUID}.String()
	}
	return ListOf(each(TaskOf, tasks), next)
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
	// Next is where to go on, because there may be more; null at the end.
	Next *string `json:"next"`
}

// NewArchiveRun is one batch of an archiving by hand.
func NewArchiveRun(b ledger.ArchivedBatch, dry bool) ArchiveRun {
	run := ArchiveRun{DryRun: dry, Archived: b.Archived}
	if b.More && b.Last != nil {
		run.Next = OrNull(b.Last.String())
	}
	return run
}

package ledger

import (
	"context"
	"fmt"
	"time"

	"github.com/postrider/postrider/internal/loop"
)

// ArchivePolicies say which ends of tasks are archived.
type ArchivePolicies struct {
	// Completed tasks came to their end. Defaults to true.
	Completed bool
	// Failed tasks failed, and were left alone since. Defaults to true.
	Failed bool
	// Cancelled tasks were cancelled; they are often kept for audit. Defaults to false.
	Cancelled bool
	// DLQResolved tasks were dead-lettered, and each of their investigations was closed. Defaults to true.
	DLQResolved bool
}

// DefaultArchivePolicies archive everything but cancelled tasks.
func DefaultArchivePolicies() ArchivePolicies {
	return ArchivePolicies{Completed: true, Failed: true, DLQResolved: true}
}

// ArchiveStep is what one transaction is to archive.
type ArchiveStep struct {
	RetentionDays int
	BatchSize     int
	Policies      ArchivePolicies
	// DryRun counts what would be moved.
	DryRun bool
	// After is where the batch before ended; nil begins with the tasks that ended first.
	After *TaskPlace
}

// ArchivedBatch is what one batch moved, or would have moved.
type ArchivedBatch struct {
	Archived
	// More says that there may be more behind Last, where the next one goes on.
	More bool
	Last *TaskPlace
}

// Archived counts what was moved into the archive, or in a dry run would have been.
type Archived struct {
	// Tasks is how many tasks there were.
	Tasks int `json:"tasks_archived"`
	// Steps is how many steps they had.
	Steps int `json:"steps_archived"`
	// Transitions is how many transitions they had.
	Transitions int `json:"transitions_archived"`
	// Complete is how many of the tasks came to their end.
	Complete int `json:"complete"`
	// Error is how many of the tasks failed and were left alone.
	Error int `json:"error"`
	// Cancelled is how many of the tasks were cancelled.
	Cancelled int `json:"cancelled"`
	// DLQResolved is how many of the tasks were dead-lettered, and had each of their investigations closed.
	DLQResolved int `json:"dlq_resolved"`
}

func (a *Archived) add(b Archived) {
	a.Tasks += b.Tasks
	a.Steps += b.Steps
	a.Transitions += b.Transitions
	a.Complete += b.Complete
	a.Error += b.Error
	a.Cancelled += b.Cancelled
	a.DLQResolved += b.DLQResolved
}

// ArchiveStore is where tasks are moved.
type ArchiveStore interface {
	// ArchiveBatch moves one batch in a transaction of its own. Any number may run at once; each takes what no
	// other has. After an error, or a crash, each task is where it was or in the archive.
	ArchiveBatch(ctx context.Context, s ArchiveStep) (ArchivedBatch, error)
	// RefreshDashboards renews the summaries behind the dashboard views. It reports whether it did: not if the summaries
	// are younger than minAge, and not if another session is renewing them.
	RefreshDashboards(ctx context.Context, minAge time.Duration) (bool, error)
	// Switch reads the switch of a kind of engine.
	Switch(ctx context.Context, e Engine) (Switch, error)
}

// ArchiveOptions say what to archive.
type ArchiveOptions struct {
	// RetentionDays is for how many days an ended task stays live; 0 archives each at once. Defaults to 0.
	RetentionDays int
	// BatchSize is how many tasks go between two rests, 1 to 100000, in transactions of at most
	// MaxArchiveTransaction. Defaults to 1000.
	BatchSize int
	// Policies say which ends count. Defaults to DefaultArchivePolicies, if nil.
	Policies *ArchivePolicies
	// Pause is the rest between two batches. Defaults to none.
	Pause time.Duration
	// DryRun counts what would be moved, and moves nothing. Defaults to false.
	DryRun bool
}

func (o *ArchiveOptions) fill() error {
	if o.BatchSize == 0 {
		o.BatchSize = 1000
	}
	if o.Policies == nil {
		all := DefaultArchivePolicies()
		o.Policies = &all
	}
	switch {
	case o.RetentionDays < 0:
		return fmt.Errorf("archive: the retention is %d days, it must not be negative", o.RetentionDays)
	case o.BatchSize < 1 || o.BatchSize > 100_000:
		return fmt.Errorf("archive: the batch size is %d, it must be from 1 to 100000", o.BatchSize)
	case o.Pause < 0:
		return fmt.Errorf("archive: the pause is %v, it must not be negative", o.Pause)
	}
	return nil
}

// Archive moves batch after batch, until nothing is left that may go. What was moved before an error stays
// moved, and is returned with it.
func Archive(ctx context.Context, store ArchiveStore, o ArchiveOptions) (Archived, error) {
	if err := o.fill(); err != nil {
		return Archived{}, err
	}
	return archive(ctx, store, o, func(context.Context) error { return nil }, func(time.Duration) {})
}

// MaxArchiveTransaction is how many tasks go in one transaction at most. A commit of another session waits until all WAL
// that the archiver wrote before it is on disk, so a transaction is small, however large a batch is.
const MaxArchiveTransaction = 250

// batchTimeout bounds what a batch waits for a database that does not answer at all. It is more than the
// database's own statement_timeout.
const batchTimeout = 65 * time.Second

// archive calls before at the beginning of each batch, and after its end each with how long it took.
func archive(ctx context.Context, store ArchiveStore, o ArchiveOptions, before func(context.Context) error, each func(time.Duration)) (total Archived, err error) {
	step := ArchiveStep{RetentionDays: o.RetentionDays, Policies: *o.Policies, DryRun: o.DryRun}
	left := 0           // of the batch
	var began time.Time // the batch
	for {
		if left == 0 {
			if err := before(ctx); err != nil {
				return total, err
			}
			left, began = o.BatchSize, time.Now()
		}
		step.BatchSize = min(left, MaxArchiveTransaction)
		bounded, cancel := context.WithTimeout(ctx, batchTimeout)
		got, err := store.ArchiveBatch(bounded, step)
		cancel()
		if err != nil {
			return total, fmt.Errorf("archive: %w", err)
		}
		total.add(got.Archived)
		left -= step.BatchSize
		if !got.More || left == 0 {
			each(time.Since(began))
		}
		if !got.More {
			return total, nil
		}
		step.After = got.Last
		pause := time.Duration(0)
		if left == 0 {
			pause = o.Pause
		}
		if err := loop.Sleep(ctx, pause); err != nil {
			return total, err
		}
	}
}

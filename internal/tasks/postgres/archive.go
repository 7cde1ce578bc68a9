package postgres

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/postrider/postrider/internal/tasks/ledger"
)

var (
	archiveBatch           = query("archive_batch")
	refreshDashboards      = query("refresh_dashboards")
	archiveContains        = query("archive_contains")
	archiveTask            = query("archive_task")
	archiveList            = query("archive_list")
	archiveListSome        = query("archive_list_some")
	archiveSteps           = query("archive_steps")
	archiveTransitions     = query("archive_transitions")
	archiveStepTransitions = query("archive_step_transitions")
	archiveStatistics      = query("archive_statistics")
	archivedTaskIDs        = query("archived_task_ids")
)

// Archive moves tasks into the archive, and reads the archived tasks.
type Archive struct{ pool *pgxpool.Pool }

var (
	_ ledger.ArchiveStore  = (*Archive)(nil)
	_ ledger.ArchiveReader = (*Archive)(nil)
)

// NewArchive works on the database of a pool, which stays the caller's to close.
func NewArchive(pool *pgxpool.Pool) *Archive { return &Archive{pool: pool} }

// ArchiveBatch implements ledger.ArchiveStore.
func (a *Archive) ArchiveBatch(ctx context.Context, s ledger.ArchiveStep) (ledger.ArchivedBatch, error) {
	return On(a.pool).ArchiveBatch(ctx, s)
}

// Switch implements ledger.ArchiveStore.
func (a *Archive) Switch(ctx context.Context, e ledger.Engine) (ledger.Switch, error) {
	return On(a.pool).Switch(ctx, e)
}

// ArchiveBatch moves one batch of tasks into the archive; on a pool in a transaction of its own.
func (l Ledger) ArchiveBatch(ctx context.Context, s ledger.ArchiveStep) (ledger.ArchivedBatch, error) {
	var after *time.Time
	var afterTask *uuid.UUID
	if s.After != nil {
		after, afterTask = &s.After.At, &s.After.TaskUUID
	}
	var b ledger.ArchivedBatch
	var last *time.Time
	var lastTask *uuid.UUID
	err := l.db.QueryRow(ctx, archiveBatch, s.RetentionDays, s.BatchSize, s.DryRun, s.Policies.Completed, s.Policies.Failed,
		s.Policies.Cancelled, s.Policies.DLQResolved, after, afterTask).Scan(&b.Tasks, &b.Steps, &b.Transitions,
		&b.Complete, &b.Error, &b.Cancelled, &b.DLQResolved, &b.More, &last, &lastTask)
	if err != nil {
		return ledger.ArchivedBatch{}, fmt.Errorf("archive a batch of tasks: %w", err)
	}
	if last != nil && lastTask != nil {
		b.Last = &ledger.TaskPlace{At: *last, TaskUUID: *lastTask}
	}
	return b, nil
}

// RefreshDashboards implements ledger.ArchiveStore.
func (a *Archive) RefreshDashboards(ctx context.Context, minAge time.Duration) (done bool, err error) {
	err = a.pool.QueryRow(ctx, refreshDashboards, minAge.Microseconds()).Scan(&done)
	if err != nil {
		return false, fmt.Errorf("renew the summaries of dashboards: %w", err)
	}
	return done, nil
}

// Contains implements ledger.ArchiveReader.
func (a *Archive) Contains(ctx context.Context, task uuid.UUID) (there bool, err error) {
	if err := a.pool.QueryRow(ctx, archiveContains, task).Scan(&there); err != nil {
		return false, fmt.Errorf("look for task %s in the archive: %w", task, err)
	}
	return there, nil
}

// Task implements ledger.ArchiveReader.
func (a *Archive) Task(ctx context.Context, task uuid.UUID) (ledger.Task, error) {
	found, err := collect(ctx, a.pool, pgx.RowToStructByPos[ledger.Task], archiveTask, task)
	if err == nil && len(found) == 0 {
		err = ledger.ErrNotArchived
	}
	if err != nil {
		return ledger.Task{}, fmt.Errorf("archived task %s: %w", task, err)
	}
	return found[0], nil
}

// Steps implements ledger.ArchiveReader.
func (a *Archive) Steps(ctx context.Context, task uuid.UUID) ([]ledger.Step, error) {
	found, err := collect(ctx, a.pool, pgx.RowToStructByPos[ledger.Step], archiveSteps, task, nil)
	return whole(ctx, a, "steps", task, found, err)
}

// Step implements ledger.ArchiveReader.
func (a *Archive) Step(ctx context.Context, task, step uuid.UUID) (ledger.Step, error) {
	found, err := collect(ctx, a.pool, pgx.RowToStructByPos[ledger.Step], archiveSteps, task, step)
	if err == nil && len(found) == 0 {
		err = ledger.ErrNotArchived
	}
	if err != nil {
		return ledger.Step{}, fmt.Errorf("step %s of archived task %s: %w", step, task, err)
	}
	return found[0], nil
}

// Transitions implements ledger.ArchiveReader.
func (a *Archive) Transitions(ctx context.Context, task uuid.UUID, p ledger.HistoryPage) ([]ledger.Transition, string, error) {
	found, next, err := transitions(ctx, a.pool, archiveTransitions, task, p)
	found, err = whole(ctx, a, "transitions", task, found, err)
	return found, next, err
}

// StepTransitions implements ledger.ArchiveReader.
func (a *Archive) StepTransitions(ctx context.Context, task uuid.UUID, p ledger.HistoryPage) ([]ledger.StepTransition, string, error) {
	found, next, err := stepTransitions(ctx, a.pool, archiveStepTransitions, task, p)
	found, err = whole(ctx, a, "step transitions", task, found, err)
	return found, next, err
}

// List implements ledger.ArchiveReader.
func (a *Archive) List(ctx context.Context, f ledger.ArchiveFilter) (tasks []ledger.Task, more bool, err error) {
	const doing = "list archived tasks"
	switch {
	case f.FinalState != "" && !slices.Contains(ledger.FinalStates(), f.FinalState):
		return nil, false, fmt.Errorf("%s: there is no final state %q", doing, f.FinalState)
	case f.Name != "" && f.Namespace == "":
		return nil, false, fmt.Errorf("%s: the template %q is named without its namespace", doing, f.Name)
	case f.Limit < 0 || f.Limit > ledger.MaxArchiveLimit:
		return nil, false, fmt.Errorf("%s: the limit is %d, it must be from 1 to %d", doing, f.Limit, ledger.MaxArchiveLimit)
	case f.Offset < 0:
		return nil, false, fmt.Errorf("%s: the offset is %d, it must not be below 0", doing, f.Offset)
	}
	limit := orDefault(f.Limit, ledger.DefaultArchiveLimit)
	var before *time.Time
	var beforeTask *uuid.UUID
	if f.Before != nil {
		before, beforeTask = &f.Before.At, &f.Before.TaskUUID
	}
	sql, args := archiveList, []any{before, beforeTask, limit + 1, f.Offset} // one more says whether there are more
	if f.Namespace != "" || f.FinalState != "" {
		sql, args = archiveListSome, append([]any{given(f.Namespace), given(f.Name), given(string(f.FinalState))}, args...)
	}
	tasks, err = collect(ctx, a.pool, pgx.RowToStructByPos[ledger.Task], sql, args...)
	switch {
	case err != nil:
		return nil, false, fmt.Errorf("%s: %w", doing, err)
	case len(tasks) > limit:
		return tasks[:limit], true, nil
	}
	return tasks, false, nil
}

// Statistics implements ledger.ArchiveReader.
func (a *Archive) Statistics(ctx context.Context) ([]ledger.ArchiveStatistics, error) {
	found, err := collect(ctx, a.pool, func(row pgx.CollectableRow) (s ledger.ArchiveStatistics, err error) {
		err = row.Scan(&s.Month, &s.Tasks, &s.Steps, &s.Transitions, &s.Complete, &s.Error, &s.Cancelled, &s.DLQResolved, &s.Size, &s.Bytes, &s.LastArchivedAt)
		return s, err
	}, archiveStatistics)
	if err != nil {
		return nil, fmt.Errorf("statistics of the archive: %w", err)
	}
	return found, nil
}

// whole returns what was found of a task. Nothing is an answer only if the task is there.
func whole[T any](ctx context.Context, a *Archive, what string, task uuid.UUID, found []T, err error) ([]T, error) {
	if err == nil && len(found) == 0 {
		var there bool
		if there, err = a.Contains(ctx, task); err == nil && !there {
			err = ledger.ErrNotArchived
		}
	}
	if err != nil {
		return nil, fmt.Errorf("%s of archived task %s: %w", what, task, err)
	}
	return found, nil
}

func collect[T any](ctx context.Context, pool *pgxpool.Pool, scan pgx.RowToFunc[T], sql string, args ...any) ([]T, error) {
	rows, err := pool.Query(ctx, sql, args...)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, scan)
}

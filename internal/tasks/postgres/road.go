package postgres

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/google/uuid"

	"github.com/postrider/postrider/internal/tasks/ledger"
)

var (
	catchUp           = query("catch_up")
	retryTask         = query("retry_task")
	retryStanding     = query("retry_standing")
	superseded        = query("superseded")
	deadLetterTask    = query("dead_letter_task")
	readTask          = query("read_task")
	archiveOnRead     = query("archive_on_read")
	undeliveredEvents = query("undelivered_events")
)

var _ ledger.CatchUpper = Ledger{}

// CatchUp implements ledger.CatchUpper.
func (l Ledger) CatchUp(ctx context.Context, limit int) (ledger.CaughtUp, error) {
	var c ledger.CaughtUp
	err := l.db.QueryRow(ctx, catchUp, limit).Scan(&c.Moved, &c.Refused, &c.Waiting)
	return c, explain("move tasks whose events were given up", err)
}

// Retry puts a task back to its beginning, from a retryable state of its machine, and returns the id of the
// event that starts it anew or, where its template has none, says that it was retried. Another state is
// ledger.ErrInvalid. actor may be empty.
func (l Ledger) Retry(ctx context.Context, task uuid.UUID, actor string) (event uuid.UUID, err error) {
	return one[uuid.UUID](ctx, l.db, fmt.Sprintf("retry task %s", task), retryTask, task, given(actor))
}

// RetryStanding returns where tasks stand, in their order. One that does not exist is among them.
func (l Ledger) RetryStanding(ctx context.Context, tasks []uuid.UUID) ([]ledger.RetryStanding, error) {
	return many[ledger.RetryStanding](ctx, l.db, "look at tasks to retry", retryStanding, tasks)
}

// Retryable returns the tasks that a filter selects and that their machines retry from the state that they are in, in the order
// of their ids, behind f.After, and whether there are more. f.Offset, f.Flagged and f.NearStale are not asked.
func (l Ledger) Retryable(ctx context.Context, f ledger.Filter) (tasks []uuid.UUID, more bool, err error) {
	limit := orDefault(f.Limit, ledger.DefaultLimit)
	first, last := idsBetween(f.From, f.To)
	type task struct{ UUID uuid.UUID }
	found, err := many[task](ctx, l.db, "list tasks to retry", listRetryableTasks, given(f.Namespace), given(f.Name), given(f.Version), given(f.State),
		limit+1, first, last, f.After)
	if err == nil && len(found) == 0 && f.State != "" {
		err = l.knowState(ctx, f.State)
	}
	for _, t := range found[:min(len(found), limit)] {
		tasks = append(tasks, t.UUID)
	}
	return tasks, len(found) > limit, err
}

// Superseded returns the investigations that were pending when a task was retried just now, in this transaction: the ones
// that the retry closed, and the ones that stay pending because their event is being sent again.
func (l Ledger) Superseded(ctx context.Context, task uuid.UUID) (closed, underWay []uuid.UUID, err error) {
	type investigation struct {
		UUID   uuid.UUID
		Closed bool
	}
	all, err := many[investigation](ctx, l.db, fmt.Sprintf("investigations of task %s", task), superseded, task)
	for _, i := range all {
		if i.Closed {
			closed = append(closed, i.UUID)
		} else {
			underWay = append(underWay, i.UUID)
		}
	}
	return closed, underWay, err
}

// DeadLetter dead-letters a task by hand and returns the id of the event that is its letter. A task that has ended
// or has a pending investigation is ledger.ErrRefused. actor may be empty.
func (l Ledger) DeadLetter(ctx context.Context, task uuid.UUID, reason, actor string) (letter uuid.UUID, err error) {
	return one[uuid.UUID](ctx, l.db, fmt.Sprintf("dead-letter task %s", task), deadLetterTask, task, reason, given(actor))
}

// ArchiveOnRead is to be called before a task is shown. If the task was dead-lettered and did not change for 7 days, it
// is moved to the archived state of its machine, if that has one. ArchiveOnRead reports whether the task was moved. A
// task that does not exist, or that another transaction has locked, is not.
func (l Ledger) ArchiveOnRead(ctx context.Context, task uuid.UUID) (bool, error) {
	return one[bool](ctx, l.db, fmt.Sprintf("archive task %s on read", task), archiveOnRead, task)
}

// Read is Snapshot after ArchiveOnRead, in one call.
func (l Ledger) Read(ctx context.Context, task uuid.UUID) (json.RawMessage, error) {
	text, err := one[string](ctx, l.db, fmt.Sprintf("read task %s", task), readTask, task)
	return json.RawMessage(text), err
}

// Undelivered returns the newest events of a task that were given up without moving it in that transaction, at
// most 100, the newest first.
func (l Ledger) Undelivered(ctx context.Context, task uuid.UUID) ([]ledger.UndeliveredEvent, error) {
	return many[ledger.UndeliveredEvent](ctx, l.db, fmt.Sprintf("undelivered events of task %s", task), undeliveredEvents, task, 100)
}

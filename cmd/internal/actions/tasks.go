package actions

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/postrider/postrider/internal/tasks/ledger"
	"github.com/postrider/postrider/internal/tasks/postgres"
)

// Tasks changes tasks and templates. Errors wrap the errors of package ledger.
type Tasks struct{ cfg Config }

// NewTasks checks the configuration.
func NewTasks(cfg Config) (*Tasks, error) {
	cfg, err := cfg.check()
	return &Tasks{cfg}, err
}

// Ledger reads tasks.
func (t *Tasks) Ledger() postgres.Ledger { return postgres.On(t.cfg.Pool) }

// Whole reads a task with all that WholeTask has as it is at one moment: a state, and the transition that led there.
func (t *Tasks) Whole(ctx context.Context, id uuid.UUID) (whole ledger.WholeTask, err error) {
	err = pgx.BeginTxFunc(ctx, t.cfg.Pool, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}, func(tx pgx.Tx) (err error) {
		l := postgres.On(tx)
		if whole.Task, err = l.Task(ctx, id); err == nil {
			whole.Steps, err = l.Steps(ctx, id)
		}
		if err == nil {
			err = whole.ReadHistory(ctx, l)
		}
		if err == nil {
			whole.Undelivered, err = l.Undelivered(ctx, id)
		}
		return err
	})
	return whole, err
}

// target is what a change is about, for the audit log.
type target struct{ kind, id string }

func aTask(id uuid.UUID) target { return target{"task", id.String()} }

// change runs f on the ledger in a transaction, and audits what it did. Where f names no target, nothing was changed.
func (t *Tasks) change(ctx context.Context, actor, action string, f func(context.Context, postgres.Ledger) (of target, details map[string]any, err error)) error {
	if err := named(actor); err != nil {
		return err
	}
	return t.cfg.change(ctx, func(ctx context.Context, tx pgx.Tx) error {
		of, details, err := f(ctx, postgres.On(tx))
		if err != nil {
			return err
		}
		if of == (target{}) {
			return nil
		}
		return t.cfg.Auditor.Audit(ctx, tx, actor, action, of.kind, of.id, own, details)
	})
}

// UnlessArchived is the error of a change of a task or, where the ledger does not have the task because it is in the archive,
// one that says so and wraps ledger.ErrRefused.
func (t *Tasks) UnlessArchived(ctx context.Context, id uuid.UUID, err error) error {
	if !errors.Is(err, ledger.ErrNotFound) {
		return err
	}
	archived, failed := postgres.NewArchive(t.cfg.Pool).Contains(ctx, id)
	switch {
	case failed != nil:
		return failed
	case archived:
		return fmt.Errorf("%w: task %s is in the archive, which is only read; create a new task", ledger.ErrRefused, id)
	}
	return err
}

// Create creates a task. n.Actor is who does it.
func (t *Tasks) Create(ctx context.Context, n ledger.NewTask) (id uuid.UUID, err error) {
	err = t.change(ctx, n.Actor, "task.create", func(ctx context.Context, l postgres.Ledger) (target, map[string]any, error) {
		id, err = l.Create(ctx, n)
		return aTask(id), map[string]any{"namespace_name": n.Namespace, "task_name": n.Name, "version": n.Version, "priority": n.Priority}, err
	})
	return id, err
}

// Retry puts a task back to its beginning, which closes what is pending about it. The audit log has a row of the task, and
// one of the investigations that were closed.
func (t *Tasks) Retry(ctx context.Context, id uuid.UUID, actor string) (r ledger.Retried, err error) {
	if err := named(actor); err != nil {
		return r, err
	}
	err = t.cfg.change(ctx, func(ctx context.Context, tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "set local lock_timeout = '"+retryPatience+"'"); err != nil {
			return err
		}
		l := postgres.On(tx)
		before, err := l.Task(ctx, id)
		if err != nil {
			return err
		}
		if r.Event, err = l.Retry(ctx, id, actor); err != nil {
			return err
		}
		if r.Closed, r.UnderWay, err = l.Superseded(ctx, id); err != nil {
			return err
		}
		if err := t.cfg.Auditor.Audit(ctx, tx, actor, "task.retry", "task", id.String(), own, map[string]any{"before": before.State, "event_id": r.Event}); err != nil {
			return err
		}
		if len(r.Closed) == 0 {
			return nil
		}
		return t.cfg.Auditor.Audit(ctx, tx, actor, "dlq.resolve", "entry", "", own, map[string]any{
			"entries": r.Closed, "after": "manually_resolved", "because": "task " + id.String() + " was retried"})
	})
	if refused, ok := errors.AsType[*pgconn.PgError](err); ok && refused.Code == "55P03" { // lock_not_available
		return r, fmt.Errorf("retry task %s: %w", id, ErrBusy)
	}
	return r, t.UnlessArchived(ctx, id, err)
}

// retryPatience is how long a retry waits for a task that another session has locked.
const retryPatience = "2s"

// RetryMany puts tasks back to their beginning as Retry does, each in a transaction of its own. One that cannot be retried, or
// that another session has locked, is skipped. When the database fails, the tasks that are left are skipped too, and the error
// comes with what was done before. A dry run looks at the tasks and does nothing.
func (t *Tasks) RetryMany(ctx context.Context, ids []uuid.UUID, actor string, dryRun bool) (done ledger.RetriedMany, err error) {
	if err := named(actor); err != nil {
		return done, err
	}
	standing, err := t.Ledger().RetryStanding(ctx, ids)
	if err != nil {
		return done, err
	}
	skip := func(s ledger.SkippedRetry) { done.Skipped = append(done.Skipped, s) }
	for _, s := range standing {
		switch why := s.Refusal(); {
		case why != nil:
			skip(*why)
			continue
		case err != nil:
			skip(ledger.SkippedRetry{TaskUUID: s.TaskUUID, Reason: ledger.RetryNotReached, Explanation: "the database failed before its turn; ask again"})
			continue
		case dryRun:
			done.Tasks = append(done.Tasks, s.TaskUUID)
			continue
		}
		var r ledger.Retried
		if r, err = t.Retry(ctx, s.TaskUUID, actor); err == nil {
			done.Tasks, done.Closed, done.UnderWay = append(done.Tasks, s.TaskUUID), append(done.Closed, r.Closed...), append(done.UnderWay, r.UnderWay...)
			continue
		}
		switch why := (ledger.SkippedRetry{TaskUUID: s.TaskUUID, Explanation: err.Error()}); {
		case errors.Is(err, ErrBusy):
			why.Reason, err = ledger.RetryBusy, nil
			skip(why)
		case errors.Is(err, ledger.ErrNotFound), errors.Is(err, ledger.ErrRefused), errors.Is(err, ledger.ErrInvalid): // it went, or moved, since
			why.Reason = ledger.RetryNotRetryable
			var now []ledger.RetryStanding
			if now, err = t.Ledger().RetryStanding(ctx, []uuid.UUID{s.TaskUUID}); err == nil && len(now) == 1 {
				if found := now[0].Refusal(); found != nil {
					why = *found
				}
			}
			skip(why)
		default:
			why.Reason, why.Explanation = ledger.RetryNotReached, "the database failed at its turn; ask again"
			skip(why)
		}
	}
	return done, err
}

// Cancel cancels a task and its steps that are not done. False means that it had ended before; then nothing changed.
func (t *Tasks) Cancel(ctx context.Context, id uuid.UUID, actor, notes string) (cancelled bool, err error) {
	err = t.change(ctx, actor, "task.cancel", func(ctx context.Context, l postgres.Ledger) (target, map[string]any, error) {
		if cancelled, err = l.Cancel(ctx, id, actor, notes); err != nil || !cancelled {
			return target{}, nil, err
		}
		return aTask(id), map[string]any{"notes": notes}, nil
	})
	return cancelled, t.UnlessArchived(ctx, id, err)
}

// Unflag ends the flag of a task that was found to be stale and left in place. False means that it has none; then nothing
// changed.
func (t *Tasks) Unflag(ctx context.Context, id uuid.UUID, actor, notes string) (unflagged bool, err error) {
	err = t.change(ctx, actor, "task.unflag", func(ctx context.Context, l postgres.Ledger) (target, map[string]any, error) {
		if unflagged, err = l.Unflag(ctx, id, actor, notes); err != nil || !unflagged {
			return target{}, nil, err
		}
		return aTask(id), map[string]any{"notes": notes}, nil
	})
	return unflagged, t.UnlessArchived(ctx, id, err)
}

// DeadLetter dead-letters a task by hand, and returns the event that is its letter.
func (t *Tasks) DeadLetter(ctx context.Context, id uuid.UUID, reason, actor string) (letter uuid.UUID, err error) {
	err = t.change(ctx, actor, "task.dead_letter", func(ctx context.Context, l postgres.Ledger) (target, map[string]any, error) {
		letter, err = l.DeadLetter(ctx, id, reason, actor)
		return aTask(id), map[string]any{"reason": reason, "event_id": letter}, err
	})
	return letter, t.UnlessArchived(ctx, id, err)
}

// ActOnStep does something with a step by hand; the task follows. a.Actor is who does it.
func (t *Tasks) ActOnStep(ctx context.Context, id, step uuid.UUID, a ledger.StepAction) (status ledger.StepStatus, err error) {
	err = t.change(ctx, a.Actor, "step."+string(a.Action), func(ctx context.Context, l postgres.Ledger) (target, map[string]any, error) {
		status, err = l.Act(ctx, id, step, a)
		return aTask(id), map[string]any{"workflow_step_uuid": step, "after": status, "notes": a.Notes}, err
	})
	return status, t.UnlessArchived(ctx, id, err)
}

// Transition moves a task from one state to another, if its machine allows it. False means that it is not in from any
// more; then nothing changed. reason goes into the history.
func (t *Tasks) Transition(ctx context.Context, id uuid.UUID, from, to, actor, reason string) (moved bool, err error) {
	metadata := map[string]string{"actor": actor}
	if reason != "" {
		metadata["reason"] = reason
	}
	encoded, err := json.Marshal(metadata)
	if err != nil {
		return false, err
	}
	err = t.change(ctx, actor, "task.transition", func(ctx context.Context, l postgres.Ledger) (target, map[string]any, error) {
		if moved, err = l.Transition(ctx, id, from, to, encoded); err != nil || !moved {
			return target{}, nil, err
		}
		return aTask(id), map[string]any{"before": from, "after": to, "reason": reason}, nil
	})
	return moved, t.UnlessArchived(ctx, id, err)
}

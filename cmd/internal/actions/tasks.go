package actions

import (
	"context"
	"encoding/json"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

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

// Whole reads a task with all that it has as it is at one moment: a state, and the transition that led there.
func (t *Tasks) Whole(ctx context.Context, id uuid.UUID) (whole ledger.WholeTask, err error) {
	err = pgx.BeginTxFunc(ctx, t.cfg.Pool, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}, func(tx pgx.Tx) (err error) {
		l := postgres.On(tx)
		if whole.Task, err = l.Task(ctx, id); err == nil {
			whole.Steps, err = l.Steps(ctx, id)
		}
		if err == nil {
			whole.Transitions, err = l.Transitions(ctx, id)
		}
		if err == nil {
			whole.StepTransitions, err = l.StepTransitions(ctx, id)
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
		return t.cfg.Auditor.Audit(ctx, tx, actor, action, of.kind, of.id, details)
	})
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
		if err := t.cfg.Auditor.Audit(ctx, tx, actor, "task.retry", "task", id.String(), map[string]any{"before": before.State, "event_id": r.Event}); err != nil {
			return err
		}
		if len(r.Closed) == 0 {
			return nil
		}
		return t.cfg.Auditor.Audit(ctx, tx, actor, "dlq.resolve", "entry", "", map[string]any{
			"entries": r.Closed, "after": "manually_resolved", "because": "task " + id.String() + " was retried"})
	})
	return r, err
}

// Cancel cancels a task and its steps that are not done. False means that it had ended before; then nothing changed.
func (t *Tasks) Cancel(ctx context.Context, id uuid.UUID, actor, notes string) (cancelled bool, err error) {
	err = t.change(ctx, actor, "task.cancel", func(ctx context.Context, l postgres.Ledger) (target, map[string]any, error) {
		if cancelled, err = l.Cancel(ctx, id, actor, notes); err != nil || !cancelled {
			return target{}, nil, err
		}
		return aTask(id), map[string]any{"notes": notes}, nil
	})
	return cancelled, err
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
	return unflagged, err
}

// DeadLetter dead-letters a task by hand, and returns the event that is its letter.
func (t *Tasks) DeadLetter(ctx context.Context, id uuid.UUID, reason, actor string) (letter uuid.UUID, err error) {
	err = t.change(ctx, actor, "task.dead_letter", func(ctx context.Context, l postgres.Ledger) (target, map[string]any, error) {
		letter, err = l.DeadLetter(ctx, id, reason, actor)
		return aTask(id), map[string]any{"reason": reason, "event_id": letter}, err
	})
	return letter, err
}

// ActOnStep does something with a step by hand; the task follows. a.Actor is who does it.
func (t *Tasks) ActOnStep(ctx context.Context, id, step uuid.UUID, a ledger.StepAction) (status ledger.StepStatus, err error) {
	err = t.change(ctx, a.Actor, "step."+string(a.Action), func(ctx context.Context, l postgres.Ledger) (target, map[string]any, error) {
		status, err = l.Act(ctx, id, step, a)
		return aTask(id), map[string]any{"workflow_step_uuid": step, "after": status, "notes": a.Notes}, err
	})
	return status, err
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
	return moved, err
}

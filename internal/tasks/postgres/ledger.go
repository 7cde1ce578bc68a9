package postgres

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/postrider/postrider/internal/tasks/ledger"
)

// DB is a *pgxpool.Pool, a *pgx.Conn, or a pgx.Tx of the caller.
type DB interface {
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// Ledger is the ledger on a database. On a pool each call is a transaction of its own. On a transaction of the
// caller, a call takes effect when that transaction commits, together with everything else in it. Where the ledger
// refuses, the error wraps ledger.ErrNotFound, ErrInvalid, ErrRefused or ErrExists; like every error of the database it
// ends the transaction it happens in. Services have the rights of postrider_writer. A login that has only the rights of
// postrider_operator can commit a change only together with a row of postrider.access_audit.
type Ledger struct{ db DB }

// On returns the ledger on a database, which stays the caller's.
func On(db DB) Ledger { return Ledger{db} }

// Create creates a task, with its steps and the event that says so, and returns its uuid. If the idempotency key was
// used before, it returns the uuid of the first task.
func (l Ledger) Create(ctx context.Context, n ledger.NewTask) (uuid.UUID, error) {
	var id *uuid.UUID
	if n.UUID != uuid.Nil {
		id = &n.UUID
	}
	return one[uuid.UUID](ctx, l.db, fmt.Sprintf("create a task of %s/%s", n.Namespace, n.Name), createTask, n.Namespace, n.Name,
		document(n.Context), given(n.Version), n.Priority, document(n.Steps), given(n.IdempotencyKey), id, given(n.Actor))
}

// Transition moves a task from one state to another, if it is in the first. False means that it is not, and that
// nothing changed. A transition that the template's machine does not allow is ledger.ErrInvalid. metadata, a JSON
// object with actor, reason and whatever else, may be nil.
func (l Ledger) Transition(ctx context.Context, task uuid.UUID, from, to string, metadata json.RawMessage) (bool, error) {
	return one[bool](ctx, l.db, fmt.Sprintf("move task %s to %s", task, to), transitionTask, task, from, to, document(metadata))
}

// Evaluate takes a task where its steps lead it, and returns the state it has then.
func (l Ledger) Evaluate(ctx context.Context, task uuid.UUID) (string, error) {
	return one[string](ctx, l.db, fmt.Sprintf("evaluate task %s", task), evaluateTask, task)
}

// Cancel cancels a task and its steps that are not done. False means that it had ended before.
func (l Ledger) Cancel(ctx context.Context, task uuid.UUID, actor, notes string) (bool, error) {
	return one[bool](ctx, l.db, fmt.Sprintf("cancel task %s", task), cancelTask, task, given(actor), given(notes))
}

// Unflag ends the flag of a task that was found to be stale and left in place: its stay and its lifetime count from now,
// and it is handed out again. False means that it has no flag.
func (l Ledger) Unflag(ctx context.Context, task uuid.UUID, actor, notes string) (bool, error) {
	return one[bool](ctx, l.db, fmt.Sprintf("unflag task %s", task), unflagTask, task, given(actor), given(notes))
}

// Snapshot is a task as JSON: task, template, steps, transitions.
func (l Ledger) Snapshot(ctx context.Context, task uuid.UUID) (json.RawMessage, error) {
	text, err := one[string](ctx, l.db, fmt.Sprintf("snapshot of task %s", task), taskSnapshot, task)
	return json.RawMessage(text), err
}

// NextReady returns tasks that a worker should work on, locked until the transaction ends. On a pool it ends at once, so
// another caller may get the same tasks. Tasks that another transaction has locked are passed over.
func (l Ledger) NextReady(ctx context.Context, q ledger.ReadyQuery) ([]ledger.Ready, error) {
	return many[ledger.Ready](ctx, l.db, "find ready tasks", nextReadyTasks, orDefault(q.Limit, 10), given(q.Namespace),
		unlessZero(q.WaitingForDependenciesMinutes), unlessZero(q.WaitingForRetryMinutes), unlessZero(q.StepsInProcessMinutes), unlessZero(q.TaskMaxLifetimeHours),
		orDefault(q.PriorityHalfLifeMinutes, 60))
}

// Heartbeat says that a worker of a namespace is there. Once a minute is enough.
func (l Ledger) Heartbeat(ctx context.Context, namespace, worker string) error {
	_, err := l.db.Exec(ctx, workerHeartbeat, namespace, worker)
	return explain(fmt.Sprintf("heartbeat of worker %q of %s", worker, namespace), err)
}

// ReadySteps returns the steps of a task whose turn it is.
func (l Ledger) ReadySteps(ctx context.Context, task uuid.UUID) ([]ledger.Step, error) {
	return many[ledger.Step](ctx, l.db, fmt.Sprintf("find ready steps of task %s", task), readySteps, task)
}

// EnqueueStep says that a step whose turn it is was given to a worker's queue.
func (l Ledger) EnqueueStep(ctx context.Context, step uuid.UUID) error {
	_, err := one[string](ctx, l.db, fmt.Sprintf("enqueue step %s", step), enqueueStep, step)
	return err
}

// StartStep takes a step for a worker, and returns the fencing number of this start. Only one worker succeeds; the others
// get ledger.ErrRefused. worker may be empty.
func (l Ledger) StartStep(ctx context.Context, step uuid.UUID, worker string) (int, error) {
	return one[int](ctx, l.db, fmt.Sprintf("start step %s", step), startStep, step, given(worker))
}

// CompleteStep says that a step is done; the task follows. results, JSON, may be nil. fencingNumber is what StartStep
// returned: a worker from which the step was taken gets ledger.ErrRefused; 0 does not ask. Saying it twice is no error.
func (l Ledger) CompleteStep(ctx context.Context, step uuid.UUID, results json.RawMessage, fencingNumber int) error {
	_, err := one[string](ctx, l.db, fmt.Sprintf("complete step %s", step), completeStep, step, document(results), unlessZero(fencingNumber))
	return err
}

// FailStep says that a step failed, and returns what it is then: waiting for its retry, or in error.
func (l Ledger) FailStep(ctx context.Context, step uuid.UUID, f ledger.Failure) (ledger.StepStatus, error) {
	var seconds *float64
	if f.RetryAfter != 0 {
		s := f.RetryAfter.Seconds()
		seconds = &s
	}
	return one[ledger.StepStatus](ctx, l.db, fmt.Sprintf("fail step %s", step), failStep, step, f.Error, !f.Final, seconds, unlessZero(f.FencingNumber))
}

// Act does something with a step by hand, and returns its new status. The task follows.
func (l Ledger) Act(ctx context.Context, task, step uuid.UUID, a ledger.StepAction) (ledger.StepStatus, error) {
	return one[ledger.StepStatus](ctx, l.db, fmt.Sprintf("%s step %s of task %s", a.Action, step, task), stepAction, task, step,
		string(a.Action), given(a.Notes), given(a.Actor), document(a.Results))
}

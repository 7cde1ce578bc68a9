package actions_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/postrider/postrider/cmd/internal/access"
	"github.com/postrider/postrider/cmd/internal/actions"
	"github.com/postrider/postrider/cmd/internal/app"
	"github.com/postrider/postrider/internal/relay/postgres"
	"github.com/postrider/postrider/internal/tasks/ledger"
	"github.com/postrider/postrider/internal/tasks/ledgertest"
	"github.com/postrider/postrider/internal/tasks/task"
	"github.com/postrider/postrider/internal/testenv/outboxtest"
	"github.com/postrider/postrider/internal/testenv/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// auditor is the one of the house, until it is told to fail. It fails after it has written, as a commit would.
type auditor struct {
	app.Auditor
	fail error
}

func (a *auditor) Audit(ctx context.Context, tx pgx.Tx, actor, action, targetType, targetID string, sources []string, details any) error {
	return errors.Join(a.Auditor.Audit(ctx, tx, actor, action, targetType, targetID, sources, details), a.fail)
}

// rig is the desk on a database with something to treat.
type rig struct {
	*testing.T
	pool   *pgxpool.Pool
	audit  *auditor
	tasks  *actions.Tasks
	outbox *actions.Outbox
}

func newRig(t *testing.T) *rig {
	t.Helper()
	pool := pgtest.New(t).Pool(t)
	r := &rig{T: t, pool: pool, audit: &auditor{Auditor: app.Auditor{Access: access.NewStore(pool)}}}
	var err, err2 error
	r.tasks, err = actions.NewTasks(actions.Config{Pool: pool, Auditor: r.audit})
	r.outbox, err2 = actions.NewOutbox(actions.Config{Pool: pool, Auditor: r.audit})
	if err := errors.Join(err, err2); err != nil {
		t.Fatal(err)
	}
	ledgertest.Apply(t, pool, ledgertest.Template{Configuration: `{"steps": [{"name": "a", "handler": "h"}, {"name": "b", "dependencies": ["a"]}]}`})
	r.exec(`insert into postrider.outbox_event (topic, key, payload) values ('orders', 'k', 'dead'), ('orders', 'k', 'waits'), ('orders', 'other', 'waits'), ('orders', 'third', 'sent');
		insert into postrider.outbox_hold (scope, topic, key, cause, event_id, next_probe_at) select 'key', topic, key, 'halted', event_id, 'infinity' from postrider.outbox_event where id = 1;
		insert into postrider.outbox_hold (scope, topic, code, cause, next_probe_at) values ('failure', 'orders', 'MESSAGE_TOO_LARGE', 'circuit_breaker', now() + interval '1 hour')`)
	outboxtest.Settle(t, pool, outboxtest.DeadLettered, 1)
	outboxtest.Settle(t, pool, outboxtest.Published, 4)
	r.exec(`update postrider.outbox_receipt set at = now() - interval '2 hours'`)
	return r
}

func (r *rig) exec(sql string, args ...any) {
	r.Helper()
	pgtest.Exec(r, r.pool, sql, args...)
}

func value[T any](r *rig, sql string, args ...any) T {
	r.Helper()
	return pgtest.Value[T](r, r.pool, sql, args...)
}

// digest is all that the database has.
func (r *rig) digest() string {
	r.Helper()
	var sums []string
	for _, table := range value[[]string](r, `select array_agg(c.relname order by c.relname) from pg_class c where c.relnamespace = 'postrider'::regnamespace and c.relkind = 'r'`) {
		sums = append(sums, table+" "+value[string](r, fmt.Sprintf(`select coalesce(md5(string_agg(t::text, '|' order by t::text)), '') from postrider.%s t`, table)))
	}
	return strings.Join(sums, "\n")
}

// change is something that people do.
type change struct {
	name string
	// prepare returns the id of a task for it; nil where it needs none.
	prepare func(r *rig) uuid.UUID
	do      func(ctx context.Context, r *rig, actor string, id uuid.UUID) error
	// action and target are what the audit log has; TASK is the id of the task, NEW of one that it made.
	action, target string
	// wrong is the same as it is refused; nil where it cannot be.
	wrong func(ctx context.Context, r *rig) error
}

func pending(r *rig) uuid.UUID { return ledgertest.Create(r, r.pool, ledgertest.New{}) }

func failed(r *rig) uuid.UUID {
	id := pending(r)
	ledgertest.Put(r, r.pool, id, "error")
	return id
}

func act(action ledger.Action) change {
	return change{
		name: "step " + string(action), prepare: func(r *rig) uuid.UUID {
			id := pending(r)
			r.exec(`update postrider.tasker_workflow_steps set retry_count = 1 where task_uuid = $1`, id)
			return id
		},
		do: func(ctx context.Context, r *rig, actor string, id uuid.UUID) error {
			_, err := r.tasks.ActOnStep(ctx, id, ledgertest.Steps(r, r.pool, id)["a"].UUID, ledger.StepAction{Action: action, Actor: actor, Notes: "by phone"})
			return err
		},
		action: "step." + string(action), target: "task TASK",
		wrong: func(ctx context.Context, r *rig) error {
			_, err := r.tasks.ActOnStep(ctx, uuid.New(), uuid.New(), ledger.StepAction{Action: action, Actor: "ann"})
			return err
		},
	}
}

func resumed(e ledger.Engine) change {
	return change{
		name: "resume " + string(e), prepare: func(r *rig) uuid.UUID {
			r.exec(`update postrider.tasker_switch set paused_at = now(), paused_by = 'bob' where engine = $1`, string(e))
			return uuid.Nil
		},
		do: func(ctx context.Context, r *rig, actor string, _ uuid.UUID) error {
			_, err := r.tasks.ResumeEngine(ctx, actor, e)
			return err
		},
		action: string(e) + ".resume", target: string(e),
	}
}

func parse(r *rig, text string) *task.Template {
	r.Helper()
	n, err := task.Parse("t.yaml", []byte(text))
	if err != nil {
		r.Fatal(err)
	}
	return n
}

// changes are all that the desk does.
func changes() []change {
	return []change{
		{name: "create", do: func(ctx context.Context, r *rig, actor string, _ uuid.UUID) error {
			_, err := r.tasks.Create(ctx, ledger.NewTask{Namespace: "default", Name: "task", UUID: uuid.MustParse("0192aaaa-0000-7000-8000-000000000001"), Actor: actor})
			return err
		}, action: "task.create", target: "task 0192aaaa-0000-7000-8000-000000000001", wrong: func(ctx context.Context, r *rig) error {
			_, err := r.tasks.Create(ctx, ledger.NewTask{Namespace: "default", Name: "nothing", Actor: "ann"})
			return err
		}},
		{name: "retry", prepare: failed, do: func(ctx context.Context, r *rig, actor string, id uuid.UUID) error {
			_, err := r.tasks.Retry(ctx, id, actor)
			return err
		}, action: "task.retry", target: "task TASK", wrong: func(ctx context.Context, r *rig) error {
			_, err := r.tasks.Retry(ctx, uuid.New(), "ann")
			return err
		}},
		{name: "cancel", prepare: pending, do: func(ctx context.Context, r *rig, actor string, id uuid.UUID) error {
			_, err := r.tasks.Cancel(ctx, id, actor, "enough")
			return err
		}, action: "task.cancel", target: "task TASK", wrong: func(ctx context.Context, r *rig) error {
			_, err := r.tasks.Cancel(ctx, uuid.New(), "ann", "")
			return err
		}},
		{name: "dead letter", prepare: pending, do: func(ctx context.Context, r *rig, actor string, id uuid.UUID) error {
			_, err := r.tasks.DeadLetter(ctx, id, "a customer called", actor)
			return err
		}, action: "task.dead_letter", target: "task TASK", wrong: func(ctx context.Context, r *rig) error {
			_, err := r.tasks.DeadLetter(ctx, uuid.New(), "x", "ann")
			return err
		}},
		{name: "transition", prepare: pending, do: func(ctx context.Context, r *rig, actor string, id uuid.UUID) error {
			_, err := r.tasks.Transition(ctx, id, "pending", "initializing", actor, "begin")
			return err
		}, action: "task.transition", target: "task TASK", wrong: func(ctx context.Context, r *rig) error {
			_, err := r.tasks.Transition(ctx, pending(r), "pending", "blocked_by_failures", "ann", "")
			return err
		}},
		act(ledger.ActionRetry), act(ledger.ActionResetRetryCount), act(ledger.ActionCancel), act(ledger.ActionCompleteManually),
		{name: "apply template", do: func(ctx context.Context, r *rig, actor string, _ uuid.UUID) error {
			_, err := r.tasks.ApplyTemplates(ctx, actor, parse(r, "{name: one, namespace_name: shop, version: 1.0.0, steps: [{name: a, handler: h}]}"))
			return err
		}, action: "template.apply", target: "template shop/one@1.0.0", wrong: func(ctx context.Context, r *rig) error {
			// The second is refused: its machine is not the one that is there. So the first is not applied either.
			r.exec(`insert into postrider.tasker_tasks (named_task_uuid, state, live) select named_task_uuid, 'pending', true from postrider.tasker_named_tasks limit 1`)
			_, err := r.tasks.ApplyTemplates(ctx, "ann", parse(r, "{name: two, namespace_name: shop, version: 1.0.0, steps: [{name: a, handler: h}]}"),
				parse(r, "{name: task, namespace_name: default, version: 1.0.0, states: [{name: x, kind: initial}, {name: y, kind: terminal}], transitions: [{from: x, to: [y]}]}"))
			return err
		}},
		{name: "apply namespace", do: func(ctx context.Context, r *rig, actor string, _ uuid.UUID) error {
			return r.tasks.ApplyNamespace(ctx, actor, "shop", nil, "where things are sold")
		}, action: "namespace.apply", target: "namespace shop"},
		{name: "pause", do: func(ctx context.Context, r *rig, actor string, _ uuid.UUID) error {
			return r.tasks.PauseEngine(ctx, actor, ledger.EngineDetector, ledger.Pause{By: "ann", Reason: "incident", For: time.Hour})
		}, action: "detector.pause", target: "detector"},
		{name: "pause archivers", do: func(ctx context.Context, r *rig, actor string, _ uuid.UUID) error {
			return r.tasks.PauseEngine(ctx, actor, ledger.EngineArchiver, ledger.Pause{By: "ann", Reason: "incident", For: time.Hour})
		}, action: "archiver.pause", target: "archiver"},
		resumed(ledger.EngineDetector), resumed(ledger.EngineArchiver),
		{name: "detect stale", prepare: func(r *rig) uuid.UUID {
			id := pending(r)
			ledgertest.Age(r, r.pool, id, 48*time.Hour)
			return id
		}, do: func(ctx context.Context, r *rig, actor string, _ uuid.UUID) error {
			_, err := r.tasks.DetectStale(ctx, actor, ledger.DefaultDetection())
			return err
		}, action: "task.detect_stale", target: "task"},
		{name: "release", do: func(ctx context.Context, r *rig, actor string, _ uuid.UUID) error {
			_, err := r.outbox.Release(ctx, actor, 1)
			return err
		}, action: "outbox.release", target: "hold 1", wrong: func(ctx context.Context, r *rig) error {
			_, err := r.outbox.Release(ctx, "ann", 77)
			return err
		}},
		{name: "give up", do: func(ctx context.Context, r *rig, actor string, _ uuid.UUID) error {
			_, err := r.outbox.GiveUp(ctx, actor, 2)
			return err
		}, action: "outbox.give_up", target: "hold 2", wrong: func(ctx context.Context, r *rig) error {
			_, err := r.outbox.GiveUp(ctx, "ann", 1) // of a key
			return err
		}},
		{name: "skip", do: func(ctx context.Context, r *rig, actor string, _ uuid.UUID) error {
			return r.outbox.Skip(ctx, actor, 3, "ticket")
		},
			action: "outbox.skip", target: "event 3", wrong: func(ctx context.Context, r *rig) error { return r.outbox.Skip(ctx, "ann", 4, "it was sent") }},
		{name: "redrive", do: func(ctx context.Context, r *rig, actor string, _ uuid.UUID) error {
			return r.outbox.Redrive(ctx, actor, 1)
		},
			action: "outbox.redrive", target: "event 1", wrong: func(ctx context.Context, r *rig) error { return r.outbox.Redrive(ctx, "ann", 3) }},
		{name: "purge", do: func(ctx context.Context, r *rig, actor string, _ uuid.UUID) error {
			_, err := r.outbox.Purge(ctx, actor, actions.PurgeDelivered{OlderThan: time.Now().Add(-time.Hour)})
			return err
		}, action: "outbox.purge", target: "event", wrong: func(ctx context.Context, r *rig) error {
			_, err := r.outbox.Purge(ctx, "ann", actions.PurgeDelivered{OlderThan: time.Now().Add(time.Hour)})
			return err
		}},
	}
}

// TestEachChangeWritesItsRow: one row of the audit log, in the transaction of the change, with who made it. Where that
// row cannot be written, nor can be committed, nothing is changed.
func TestEachChangeWritesItsRow(t *testing.T) {
	t.Parallel()
	for _, c := range changes() {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			id := uuid.Nil
			if c.prepare != nil {
				id = c.prepare(r)
			}
			before := r.digest()
			r.audit.fail = errors.New("disk full")
			if err := c.do(t.Context(), r, "ann", id); !errors.Is(err, r.audit.fail) {
				t.Errorf("without the audit log: %v", err)
			}
			if after := r.digest(); after != before {
				t.Errorf("without the audit log it changed something")
			}
			r.audit.fail = nil
			for _, err := range []error{c.do(t.Context(), r, "", id)} {
				if !errors.Is(err, actions.ErrRequest) {
					t.Errorf("without an actor: %v", err)
				}
			}
			if after := r.digest(); after != before {
				t.Errorf("without an actor it changed something")
			}
			if err := c.do(t.Context(), r, "ann", id); err != nil {
				t.Fatal(err)
			}
			if after := r.digest(); after == before {
				t.Errorf("it changed nothing")
			}
			got := value[string](r, `select coalesce(string_agg(concat_ws(' ', actor, action, target_type, target_id), ', '), '') from postrider.access_audit`)
			if want := "ann " + c.action + " " + strings.ReplaceAll(c.target, "TASK", id.String()); got != want {
				t.Errorf("the audit log has %q, want %q", got, want)
			}
		})
	}
}

// TestTheAuditLogNamesTheCaller: the actor in the context, with the request, goes before the name that is given.
func TestTheAuditLogNamesTheCaller(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	ctx := access.WithActor(t.Context(), access.Actor{Name: "key of ann", KeyID: "id", RequestID: "req-1"})
	if err := r.outbox.Skip(ctx, "another person", 3, "ticket"); err != nil {
		t.Fatal(err)
	}
	if got := value[string](r, `select concat_ws(' ', actor, key_id, request_id, details->>'reason') from postrider.access_audit`); got != "key of ann id req-1 ticket" {
		t.Errorf("%s", got)
	}
}

// TestRefusedChangesWriteNothing, neither what was asked for nor a row of the audit log.
func TestRefusedChangesWriteNothing(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for _, c := range changes() {
		if c.wrong == nil {
			continue
		}
		before := r.digest()
		if err := c.wrong(t.Context(), r); err == nil {
			t.Errorf("%s: no error", c.name)
		}
		if after := r.digest(); c.name != "transition" && c.name != "apply template" && after != before { // these make a task first
			t.Errorf("%s changed something", c.name)
		}
		if n := value[int](r, `select count(*) from postrider.access_audit`); n != 0 {
			t.Fatalf("%s: %d rows in the audit log", c.name, n)
		}
	}
	if n := value[int](r, `select count(*) from postrider.tasker_named_tasks where name = 'two'`); n != 0 {
		t.Error("of templates that are applied together one was refused, and the other applied")
	}
	// A change that is asked for in vain changes nothing, and is no error.
	ended := pending(r)
	ledgertest.Put(t, r.pool, ended, "cancelled")
	for name, do := range map[string]func() (bool, error){
		"cancel": func() (bool, error) { return r.tasks.Cancel(t.Context(), ended, "ann", "") },
		"transition": func() (bool, error) {
			return r.tasks.Transition(t.Context(), ended, "pending", "initializing", "ann", "")
		},
		"resume": func() (bool, error) { return r.tasks.ResumeEngine(t.Context(), "ann", ledger.EngineArchiver) },
	} {
		before := r.digest()
		if done, err := do(); done || err != nil {
			t.Errorf("%s: %v, %v", name, done, err)
		}
		if r.digest() != before {
			t.Errorf("%s changed something", name)
		}
	}
}

// TestBoundsOfAPurge: the arguments of a purge must make sense.
func TestBoundsOfAPurge(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	hour := time.Now().Add(-time.Hour)
	for name, p := range map[string]actions.PurgeDelivered{"no time": {}, "rows": {OlderThan: hour, Rows: 100_001}, "negative": {OlderThan: hour, Rows: -1}} {
		if _, err := r.outbox.Purge(t.Context(), "ann", p); !errors.Is(err, actions.ErrRequest) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := r.outbox.Release(t.Context(), "ann", 77); !errors.Is(err, postgres.ErrNotFound) {
		t.Errorf("an unknown hold: %v", err)
	}
	if _, err := r.outbox.GiveUp(t.Context(), "ann", 77); !errors.Is(err, postgres.ErrNotFound) {
		t.Errorf("an unknown hold is given up: %v", err)
	}
	if _, err := r.outbox.GiveUp(t.Context(), "ann", 1); !errors.Is(err, postgres.ErrRefused) {
		t.Errorf("a key is given up: %v", err)
	}
	if err := r.outbox.Skip(t.Context(), "ann", 4, "it was sent"); !errors.Is(err, postgres.ErrRefused) {
		t.Errorf("what was sent: %v", err)
	}
}

func TestConfigsThatMakeNoSense(t *testing.T) {
	t.Parallel()
	pool := new(pgxpool.Pool)
	for name, c := range map[string]actions.Config{"nothing": {}, "no auditor": {Pool: pool}, "no pool": {Auditor: &auditor{}}, "negative": {Pool: pool, Auditor: &auditor{}, Timeout: -1}} {
		if _, err := actions.NewTasks(c); err == nil {
			t.Errorf("%s: tasks", name)
		}
		if _, err := actions.NewOutbox(c); err == nil {
			t.Errorf("%s: outbox", name)
		}
	}
}

// TestDeadlocksAreMadeAgain: when a worker locks a task's steps in another order, no caller has an error.
func TestDeadlocksAreMadeAgain(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	id := pending(r)
	other, err := r.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = other.Rollback(context.WithoutCancel(t.Context())) }()
	lock := func(sql string) error {
		_, err := other.Exec(t.Context(), sql, id)
		return err
	}
	// The other one waits for a deadlock longer, so that it is not the one that gives way.
	if _, err := other.Exec(t.Context(), `set local deadlock_timeout = '1h'`); err != nil {
		t.Fatal(err)
	}
	if err := lock(`select from postrider.tasker_workflow_steps where task_uuid = $1 for update`); err != nil {
		t.Fatal(err)
	}
	cancelled := make(chan error, 1)
	go func() {
		done, err := r.tasks.Cancel(t.Context(), id, "ann", "")
		if err == nil && !done {
			err = errors.New("it was not cancelled")
		}
		cancelled <- err
	}()
	for waiting := false; !waiting; {
		waiting = value[bool](r, `select exists (select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock')`)
	}
	if err := errors.Join(lock(`select from postrider.tasker_tasks where task_uuid = $1 for update`), other.Commit(t.Context())); err != nil {
		t.Fatal(err)
	}
	if err := <-cancelled; err != nil {
		t.Error(err)
	}
	if n := value[int](r, `select count(*) from postrider.access_audit`); n != 1 {
		t.Errorf("%d rows in the audit log", n)
	}
}

// TestRetryOfManyGoesOn: a task that another session has locked is skipped, and so is one that moves before its turn; the others
// are retried. When the database fails, what was done is returned, and the rest is named.
func TestRetryOfManyGoesOn(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	ids := []uuid.UUID{failed(r), failed(r), failed(r), pending(r)}
	other, err := r.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = other.Rollback(context.WithoutCancel(t.Context())) }()
	if _, err := other.Exec(t.Context(), `select from postrider.tasker_tasks where task_uuid = $1 for update`, ids[1]); err != nil {
		t.Fatal(err)
	}
	want := func(what string, done ledger.RetriedMany, retried []uuid.UUID, skipped ...ledger.RetrySkip) {
		t.Helper()
		var reasons []ledger.RetrySkip
		for _, s := range done.Skipped {
			reasons = append(reasons, s.Reason)
		}
		if !slices.Equal(done.Tasks, retried) || !slices.Equal(reasons, skipped) {
			t.Errorf("%s: retried %v, skipped %v; want %v, %v", what, done.Tasks, done.Skipped, retried, skipped)
		}
	}
	done, err := r.tasks.RetryMany(t.Context(), ids, "ann", false)
	if err != nil {
		t.Fatal(err)
	}
	want("one is locked", done, []uuid.UUID{ids[0], ids[2]}, ledger.RetryBusy, ledger.RetryNotRetryable)
	if err := other.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}

	ids = []uuid.UUID{ids[1], failed(r)}
	r.audit.fail = errors.New("no space left")
	done, err = r.tasks.RetryMany(t.Context(), ids, "ann", false)
	if !errors.Is(err, r.audit.fail) {
		t.Errorf("the database failed: %v", err)
	}
	want("the database failed", done, nil, ledger.RetryNotReached, ledger.RetryNotReached)
}

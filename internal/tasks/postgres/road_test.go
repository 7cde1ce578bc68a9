package postgres_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/postrider/postrider/internal/tasks/ledger"
	"github.com/postrider/postrider/internal/tasks/ledgertest"
	"github.com/postrider/postrider/internal/tasks/postgres"
	"github.com/postrider/postrider/internal/testenv/outboxtest"
	"github.com/postrider/postrider/internal/testenv/pgtest"
)

// road is a database with the pipeline of nine states and a template of the built-in machine.
type road struct {
	*testing.T
	db   *pgtest.DB
	pool *pgxpool.Pool
	postgres.Ledger
}

const (
	pipeline = `{"max_retries": 3, "start_event": {"topic": "documents", "type": "document.uploaded"}}`
	workflow = `{"steps": [{"name": "a"}, {"name": "b", "dependencies": ["a"], "max_retries": 2}, {"name": "c", "dependencies": ["b"]}]}`
)

func newRoad(t *testing.T) *road {
	t.Helper()
	db := pgtest.New(t)
	pool := db.Pool(t)
	ledgertest.AddMachine(t, pool, ledgertest.Protocol())
	ledgertest.Apply(t, pool, ledgertest.Template{Name: "protocol", Machine: "protocol", Configuration: pipeline})
	ledgertest.Apply(t, pool, ledgertest.Template{Name: "workflow", Configuration: workflow})
	return &road{t, db, pool, postgres.On(pool)}
}

// template adds a machine, and a template of it with its name.
func (r *road) template(m ledgertest.Machine) {
	r.Helper()
	ledgertest.AddMachine(r, r.pool, m)
	ledgertest.Apply(r, r.pool, ledgertest.Template{Name: m.Name, Machine: m.Name})
}

// in creates a task of a template and puts it into a state.
func (r *road) in(template, state string) uuid.UUID {
	r.Helper()
	task := ledgertest.Create(r, r.pool, ledgertest.New{Name: template, Context: `{"document": 7}`})
	if ledgertest.State(r, r.pool, task) != state {
		ledgertest.Put(r, r.pool, task, state)
	}
	return task
}

func (r *road) exec(sql string, args ...any) {
	r.Helper()
	pgtest.Exec(r, r.pool, sql, args...)
}

func scalar[T any](r *road, sql string, args ...any) T {
	r.Helper()
	return pgtest.Value[T](r, r.pool, sql, args...)
}

// givenUp writes an event of a task and gives it up, as a settle would, short of telling the task.
func (r *road) givenUp(task uuid.UUID, class, code string) int64 {
	r.Helper()
	id, _ := ledgertest.MustGiveUp(r, r.pool, task, class, code)
	return id
}

// tell tells the tasks of events, and returns how many were moved.
func (r *road) tell(ids ...int64) int {
	r.Helper()
	return scalar[int](r, `select postrider.outbox_tell_tasks($1)`, ids)
}

type note struct{ Outcome, Detail string }

func (r *road) notes() []note {
	r.Helper()
	rows, err := r.pool.Query(r.Context(), `select outcome, detail from postrider.tasker_undelivered_events order by noted_at`)
	if err != nil {
		r.Fatal(err)
	}
	notes, err := pgx.CollectRows(rows, pgx.RowToStructByPos[note])
	if err != nil {
		r.Fatal(err)
	}
	return notes
}

func (r *road) wantNotes(want ...note) {
	r.Helper()
	got := r.notes()
	if len(got) != len(want) {
		r.Fatalf("notes %+v, want %+v", got, want)
	}
	for i := range want {
		if got[i].Outcome != want[i].Outcome || !strings.Contains(got[i].Detail, want[i].Detail) {
			r.Errorf("note %+v, want %+v", got[i], want[i])
		}
	}
}

func (r *road) wantState(task uuid.UUID, want string) {
	r.Helper()
	if got := ledgertest.State(r, r.pool, task); got != want {
		r.Errorf("the task is %s, want %s", got, want)
	}
}

// hold takes the row lock of a task, or whatever lock says, in a session of its own, until the returned
// function is called.
func (r *road) hold(lock string, args ...any) (release func()) {
	r.Helper()
	tx, err := r.pool.Begin(r.Context())
	if err != nil {
		r.Fatal(err)
	}
	if _, err := tx.Exec(r.Context(), lock, args...); err != nil {
		r.Fatalf("%s: %v", lock, err)
	}
	return func() {
		if err := tx.Rollback(context.WithoutCancel(r.Context())); err != nil && !errors.Is(err, pgx.ErrTxClosed) {
			r.Error(err)
		}
	}
}

const lockTask = `select from postrider.tasker_tasks where task_uuid = $1 for update`

// From every state that is no end, in machines with a dead-letter state and without, the task moves in the
// transaction that gives its event up, whether or not the machine lists that.
func TestGivenUpEventMovesItsTask(t *testing.T) {
	t.Parallel()
	r := newRoad(t)
	for template, target := range map[string]string{"protocol": "dead_letter", "workflow": "error"} {
		states := pgtest.Column[string](t, r.pool, `select s.state from postrider.tasker_machine_states s
			join postrider.tasker_state_machines m using (state_machine_id) where m.name = $1 and s.kind <> 'terminal' and s.state <> $2`, template, target)
		if len(states) < 5 {
			t.Fatalf("states %v", states)
		}
		for _, state := range states {
			task := r.in(template, state)
			before := len(ledgertest.OfType(ledgertest.Events(t, r.pool, task), "postrider.task.transitioned.v1"))
			if n := r.tell(r.givenUp(task, "record", "INVALID_RECORD")); n != 1 {
				t.Errorf("%s from %s: %d moved", template, state, n)
			}
			got := ledgertest.Read(t, r.pool, task)
			if got.State != target || got.ErrorReason != "An event of this task to documents could not be delivered: maximum retries exceeded after 3 attempts (INVALID_RECORD)" {
				t.Errorf("%s from %s: %+v", template, state, got)
			}
			events := ledgertest.OfType(ledgertest.Events(t, r.pool, task), "postrider.task.transitioned.v1")
			if last := events[len(events)-1]; len(events) != before+1 || last.From != state || last.To != target || last.SortKey != got.SortKey {
				t.Errorf("%s from %s: %d events more, the last %+v", template, state, len(events)-before, last)
			}
			if letters := ledgertest.Letters(t, r.pool, task); len(letters) != 0 {
				t.Errorf("%s: the event has its dead letter, the task needs none: %+v", template, letters)
			}
		}
	}
	r.wantNotes()
}

func TestErrorOfAMovedTask(t *testing.T) {
	t.Parallel()
	r := newRoad(t)
	for _, test := range []struct{ class, code, reason, says string }{
		{"record", "INVALID_RECORD", "Maximum retries exceeded", "maximum retries exceeded after 3 attempts (INVALID_RECORD)"},
		{"permanent", "SKIPPED", "Given up by an operator", "given up by an operator"},
		{"permanent", "MESSAGE_TOO_LARGE", "Not deliverable as it is", "(MESSAGE_TOO_LARGE)"},
		{"route", "MAX_AGE_EXCEEDED", "Not deliverable for too long", "not deliverable for too long"},
	} {
		task := r.in("protocol", "extracting")
		r.exec(`update postrider.tasker_tasks set metadata = '{"tenant": "x"}' where task_uuid = $1`, task)
		r.tell(r.givenUp(task, test.class, test.code))
		got := ledgertest.Read(t, r.pool, task)
		var m struct {
			Tenant string
			Error  struct {
				Category, Reason, Code, Message string
				RetryCount                      int `json:"retry_count"`
			}
		}
		if err := json.Unmarshal(got.Metadata, &m); err != nil {
			t.Fatal(err)
		}
		if m.Tenant != "x" || m.Error.Category != "pipeline_failed" || m.Error.Reason != test.reason || m.Error.RetryCount != 3 || m.Error.Code != test.code || m.Error.Message == "" {
			t.Errorf("%s: metadata %s", test.code, got.Metadata)
		}
		if !strings.Contains(got.ErrorReason, test.says) {
			t.Errorf("%s: error_reason %q", test.code, got.ErrorReason)
		}
	}
}

// Where failing is the end, the end says why, however the task came there; an end of another kind says nothing.
func TestErrorOfATaskThatEnds(t *testing.T) {
	t.Parallel()
	r := newRoad(t)
	r.template(ledgertest.Machine{Name: "final", Initial: "open", Failed: "broken", DeadLetter: "lost",
		States:      map[string]string{"open": "initial", "broken": "terminal", "lost": "terminal", "done": "terminal"},
		Transitions: map[string][]string{"open": {"broken", "done"}}})
	check := func(task uuid.UUID, state, reason, category string) {
		t.Helper()
		got := ledgertest.Read(t, r.pool, task)
		var m struct{ Error struct{ Category string } }
		if err := json.Unmarshal(got.Metadata, &m); err != nil {
			t.Fatal(err)
		}
		if got.State != state || got.Live || got.CompletedAt == nil || !strings.Contains(got.ErrorReason, reason) || (got.ErrorReason == "") != (reason == "") || m.Error.Category != category {
			t.Errorf("the task is %+v, metadata %s; want %s, %q", got, got.Metadata, state, reason)
		}
	}
	undelivered, byHand, moved, done := r.in("final", "open"), r.in("final", "open"), r.in("final", "open"), r.in("final", "open")
	if n := r.tell(r.givenUp(undelivered, "record", "X")); n != 1 {
		t.Errorf("%d moved", n)
	}
	check(undelivered, "lost", "maximum retries exceeded after 3 attempts (X)", "pipeline_failed")
	if _, err := r.DeadLetter(t.Context(), byHand, "the customer called", "ann"); err != nil {
		t.Fatal(err)
	}
	check(byHand, "lost", "the customer called", "manual_dlq")
	for task, to := range map[uuid.UUID]string{moved: "broken", done: "done"} {
		if ok, err := r.Transition(t.Context(), task, "open", to, json.RawMessage(`{"reason": "page 3 is blank"}`)); err != nil || !ok {
			t.Fatal(ok, err)
		}
	}
	check(moved, "broken", "page 3 is blank", "")
	check(done, "done", "", "")
}

// What cannot be moved is noted, and the transaction goes on.
func TestTaskThatCannotMove(t *testing.T) {
	t.Parallel()
	r := newRoad(t)
	r.template(ledgertest.Machine{Name: "bare", Initial: "open", States: map[string]string{"open": "initial", "shut": "terminal"},
		Transitions: map[string][]string{"open": {"shut"}}})
	dead := r.in("protocol", "dead_letter")
	if n := r.tell(r.givenUp(uuid.New(), "record", "X"), r.givenUp(r.in("protocol", "complete"), "record", "X"), r.givenUp(r.in("bare", "open"), "record", "X"),
		r.givenUp(r.in("protocol", "archived"), "record", "X"), r.givenUp(dead, "record", "X"), 424242); n != 0 {
		t.Errorf("%d moved", n)
	}
	r.wantNotes(note{"refused", "no such task"}, note{"refused", "it was complete"}, note{"refused", "bare has neither"},
		note{"refused", "it was archived"}, note{"refused", "was in dead_letter already"})
	events, err := r.Undelivered(t.Context(), dead)
	if err != nil || len(events) != 1 || events[0].Outcome != "refused" || events[0].ErrorCode != "X" || events[0].Attempts != 3 || events[0].Topic != "documents" {
		t.Errorf("undelivered %+v, %v", events, err)
	}

	// Twice the same is noted once; a later episode anew.
	again := r.givenUp(dead, "record", "X")
	r.tell(again)
	r.tell(again)
	if err := ledgertest.Exhaust(t.Context(), r.pool, again, "record", "X"); err != nil {
		t.Fatal(err)
	}
	r.tell(again)
	if got := len(r.notes()); got != 7 {
		t.Errorf("%d notes, want 7", got)
	}
}

// Of two events of a task the first moves it.
func TestTwoEventsOfATask(t *testing.T) {
	t.Parallel()
	r := newRoad(t)
	task := r.in("protocol", "grounding")
	if n := r.tell(r.givenUp(task, "record", "A"), r.givenUp(task, "record", "B")); n != 1 {
		t.Errorf("%d moved", n)
	}
	r.wantNotes(note{"refused", "already"})
	if got := ledgertest.Read(t, r.pool, task).ErrorReason; !strings.Contains(got, "(A)") {
		t.Errorf("error_reason %q, want that of the first", got)
	}
}

func TestGivenUpWithTheTransaction(t *testing.T) {
	t.Parallel()
	r := newRoad(t)
	task := r.in("protocol", "extracting")
	id := r.givenUp(task, "record", "X")
	tx, err := r.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), `select postrider.outbox_tell_tasks($1)`, []int64{id}); err != nil {
		t.Fatal(err)
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.wantState(task, "extracting")
	if got := ledgertest.History(t, r.pool, task); strings.Contains(got, "dead_letter") {
		t.Errorf("history %s", got)
	}
}

// A lock on the task does not keep its event from being given up. The task is moved when the lock is released.
func TestLockedTaskIsMovedLater(t *testing.T) {
	t.Parallel()
	r := newRoad(t)
	locked, free, retried := r.in("protocol", "extracting"), r.in("protocol", "extracting"), r.in("protocol", "extraction_failed")
	release := r.hold(lockTask, locked)
	defer release()
	releaseRetried := r.hold(lockTask, retried)
	defer releaseRetried()
	if n := r.tell(r.givenUp(locked, "record", "X"), r.givenUp(free, "record", "X"), r.givenUp(retried, "record", "X")); n != 1 {
		t.Errorf("%d moved beside locked ones, want 1", n)
	}
	r.wantState(free, "dead_letter")
	r.wantState(locked, "extracting")
	r.wantNotes(note{"waiting", "another transaction"}, note{"waiting", "another transaction"})
	if got, err := r.CatchUp(t.Context(), 10); err != nil || got != (ledger.CaughtUp{Waiting: 2}) {
		t.Errorf("while it is locked: %+v, %v", got, err)
	}
	releaseRetried()
	if _, err := r.Retry(t.Context(), retried, ""); err != nil {
		t.Fatal(err)
	}
	release()
	if got, err := r.CatchUp(t.Context(), 10); err != nil || got != (ledger.CaughtUp{Moved: 1, Refused: 1}) {
		t.Errorf("when it is free: %+v, %v", got, err)
	}
	r.wantState(locked, "dead_letter")
	r.wantState(retried, "uploaded")
	if got, err := r.CatchUp(t.Context(), 10); err != nil || got != (ledger.CaughtUp{}) {
		t.Errorf("afterwards: %+v, %v", got, err)
	}
	r.exec(`update postrider.tasker_undelivered_events set noted_at = now() - interval '31 days' where outcome = 'moved'`)
	if _, err := r.CatchUp(t.Context(), 10); err != nil {
		t.Fatal(err)
	}
	r.wantNotes(note{"refused", "retried since"})
}

// A lock on the whole table, as changing the schema takes it, is waited for half a second and no longer.
func TestLockedTable(t *testing.T) {
	t.Parallel()
	r := newRoad(t)
	task := r.in("protocol", "extracting")
	id := r.givenUp(task, "record", "X")
	release := r.hold(`lock table postrider.tasker_tasks in access exclusive mode`)
	defer release()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	tx, err := r.pool.Begin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(ctx) }()
	var moved int
	if err := tx.QueryRow(ctx, `select postrider.outbox_tell_tasks($1)`, []int64{id}).Scan(&moved); err != nil || moved != 0 {
		t.Fatalf("moved %d, %v", moved, err)
	}
	if err := tx.Commit(ctx); err != nil {
		t.Fatal(err)
	}
	r.wantNotes(note{"waiting", "lock timeout"})
	release()
	if got, err := r.CatchUp(ctx, 10); err != nil || got.Moved != 1 {
		t.Errorf("caught up %+v, %v", got, err)
	}
}

// Whatever fails about a task, the event is given up.
func TestBrokenLedger(t *testing.T) {
	t.Parallel()
	r := newRoad(t)
	task := r.in("protocol", "extracting")
	r.exec(`alter table postrider.tasker_task_transitions add constraint broken check (to_state <> 'dead_letter')`)
	if n := r.tell(r.givenUp(task, "record", "X")); n != 0 {
		t.Errorf("%d moved", n)
	}
	r.wantNotes(note{"waiting", "broken"})
	r.wantState(task, "extracting")
	r.exec(`alter table postrider.tasker_task_transitions drop constraint broken`)
	if got, err := r.CatchUp(t.Context(), 1); err != nil || got.Moved != 1 {
		t.Errorf("caught up %+v, %v", got, err)
	}
}

// An event of a task has as many attempts as its template allows.
func TestAttemptsOfLinkedEvents(t *testing.T) {
	t.Parallel()
	r := newRoad(t)
	publish := func(task any) *int {
		id := scalar[uuid.UUID](r, `select postrider.outbox_publish('documents', 'k', '{}', task_uuid => $1)`, task)
		return scalar[*int](r, `select max_attempts from postrider.outbox_event where event_id = $1`, id)
	}
	protocol := r.in("protocol", "uploaded")
	if got := publish(protocol); got == nil || *got != 3 {
		t.Errorf("of a template with 3: %v", got)
	}
	for what, task := range map[string]any{"no template's": nil, "an unknown task": uuid.New(), "a template that says nothing": r.in("workflow", "pending")} {
		if got := publish(task); got != nil {
			t.Errorf("%s: %d", what, *got)
		}
	}
	start := ledgertest.Events(t, r.pool, protocol)
	if last := start[len(start)-1]; last.Topic != "documents" || scalar[int](r, `select max_attempts from postrider.outbox_event where id = $1`, last.ID) != 3 ||
		scalar[uuid.UUID](r, `select task_uuid from postrider.outbox_event where id = $1`, last.ID) != protocol {
		t.Errorf("start event %+v", last)
	}
	if n := scalar[int](r, `select count(*) from postrider.outbox_event where kind = 'task' and task_uuid is not null`); n != 0 {
		t.Errorf("%d lifecycle events are linked to their task: giving one up would move it", n)
	}
}

// An event that was not given up moves no task, even if a caller names it.
func TestOnlyGivenUpEventsMoveTheirTask(t *testing.T) {
	t.Parallel()
	r := newRoad(t)
	task := r.in("protocol", "extracting")
	pending := scalar[int64](r, `insert into postrider.outbox_event (topic, payload, task_uuid) values ('documents', '{}', $1) returning id`, task)
	if moved := r.tell(pending); moved != 0 {
		t.Errorf("a pending event moved %d tasks", moved)
	}
	outboxtest.Settle(t, r.pool, outboxtest.Scheduled, pending)
	if moved := r.tell(pending); moved != 0 {
		t.Errorf("an event that waits for its next attempt moved %d tasks", moved)
	}
	r.wantNotes()
	r.wantState(task, "extracting")
}

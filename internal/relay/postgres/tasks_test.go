package postgres

import (
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/postrider/postrider/internal/relay"
	"github.com/postrider/postrider/internal/tasks/ledgertest"
)

// taskOf creates a task of the pipeline of nine states, and an event that belongs to it.
func (f *fixture) taskOf(key string) (task uuid.UUID, event int64) {
	f.Helper()
	task = ledgertest.Create(f, f.pool, ledgertest.New{Name: "protocol"})
	f.exec(`delete from postrider.outbox_event where key = convert_to($1::uuid::text, 'UTF8')`, task) // what it told of itself
	return task, value[int64](f, `insert into postrider.outbox_event (topic, key, payload, task_uuid) values ('t', $1, 'p', $2) returning id`, []byte(key), task)
}

func (f *fixture) withPipeline() {
	f.Helper()
	ledgertest.AddMachine(f, f.pool, ledgertest.Protocol())
	ledgertest.Apply(f, f.pool, ledgertest.Template{Name: "protocol", Machine: "protocol"})
}

func (f *fixture) wantTask(task uuid.UUID, state string) {
	f.Helper()
	if got := ledgertest.State(f, f.pool, task); got != state {
		f.Errorf("the task is %s, want %s", got, state)
	}
}

// TestSettleMovesTasks: giving events up moves their tasks in the same transaction, with the rights of the
// relay; a task that another session locks keeps no settle waiting.
func TestSettleMovesTasks(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.withPipeline()
	f.store = f.as("postrider_relay")
	given, gone := f.taskOf("a")
	retried, again := f.taskOf("b")
	held, stuck := f.taskOf("c")
	plain := f.insert("d", "e")
	tx, err := f.pool.Begin(t.Context())
	f.done(err)
	defer func() { _ = tx.Rollback(t.Context()) }()
	_, err = tx.Exec(t.Context(), `select from postrider.tasker_tasks where task_uuid = $1 for update`, held)
	f.done(err)

	xs := exhausted(gone, stuck, plain[0])
	xs[0].Attempts, xs[1].Attempts = 3, 3
	f.pass(relay.Receipt{Exceptions: append(xs, relay.Exception{ID: again, State: relay.Scheduled, In: 1, Attempts: 1, Failure: relay.Failure{Class: relay.Record, Code: "X"}})})
	f.wantTask(given, "dead_letter")
	f.wantTask(retried, "uploaded")
	f.wantTask(held, "uploaded")
	if got := value[string](f, `select string_agg(task_uuid || ' ' || outcome, ',') from postrider.tasker_undelivered_events`); got != held.String()+" waiting" {
		t.Errorf("noted: %s", got)
	}
	if got := value[int](f, `select (metadata->'error'->>'retry_count')::int from postrider.tasker_tasks where task_uuid = $1`, given); got != 3 {
		t.Errorf("retry_count %d", got)
	}
	f.done(tx.Rollback(t.Context()))
	var moved int
	f.done(f.store.pool.QueryRow(t.Context(), `select moved from postrider.task_events_catch_up()`).Scan(&moved))
	if moved != 1 {
		t.Errorf("%d moved later", moved)
	}
	f.wantTask(held, "dead_letter")
}

// TestRefusedSettlementMovesNoTask: what a term that is over writes leaves tasks where they are.
func TestRefusedSettlementMovesNoTask(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.withPipeline()
	task, event := f.taskOf("a")
	d := f.leader()
	f.letGo(d)
	xs := withEvents(f, exhausted(event))
	xs[0].TaskUUID = task
	f.fails(d.Settle(t.Context(), []*relay.Receipt{{Exceptions: xs}}), relay.ErrNotLeading)
	f.wantTask(task, "uploaded")
}

// TestSkipMovesTheTask: an operator who gives an event up moves its task, with an operator's rights.
func TestSkipMovesTheTask(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.withPipeline()
	task, event := f.taskOf("a")
	h := f.keyHold("a", time.Hour)
	f.pass(relay.Receipt{Holds: []relay.HoldChange{h}, Exceptions: parked(h.ID, event)})
	f.store = f.as("postrider_operator")
	f.done(f.trySkip(event, "not needed"))
	f.wantTask(task, "dead_letter")
	if got := value[string](f, `select metadata->'error'->>'reason' from postrider.tasker_tasks where task_uuid = $1`, task); got != "Given up by an operator" {
		t.Errorf("reason %q", got)
	}
}

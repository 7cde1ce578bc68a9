package postgres

import (
	"testing"

	"github.com/google/uuid"

	"github.com/postrider/postrider/relay"
	"github.com/postrider/postrider/relay/ledger/ledgertest"
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
// relay; a task that somebody holds keeps no settle waiting.
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

	c := f.claim()
	f.settle(c, &relay.Settlement{
		Exhausted: []relay.Failure{*failure(gone, 3), *failure(stuck, 3), *failure(plain[0], 5)},
		Delivered: []int64{plain[1]},
		Scheduled: []relay.Schedule{{ID: again, In: 1, Failure: failure(again, 1)}},
	})
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

// TestSettleWithoutItsCommit: an event that was not given up leaves its task where it is.
func TestSettleWithoutItsCommit(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.withPipeline()
	task, event := f.taskOf("a")
	c := f.claim()
	f.exec(`update postrider.outbox_event set state = 'published', updated_at = now() where id = $1`, event) // as if somebody else had it
	f.settle(c, &relay.Settlement{Exhausted: []relay.Failure{*failure(event, 3)}})
	f.wantTask(task, "uploaded")
}

// TestSkipMovesTheTask: an operator who gives an event up moves its task, with an operator's rights.
func TestSkipMovesTheTask(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.withPipeline()
	task, event := f.taskOf("a")
	f.done(f.as("postrider_operator").Skip(t.Context(), event, "not needed"))
	f.wantTask(task, "dead_letter")
	if got := value[string](f, `select metadata->'error'->>'reason' from postrider.tasker_tasks where task_uuid = $1`, task); got != "Given up by an operator" {
		t.Errorf("reason %q", got)
	}
}

// TestDeadLetterOfATaskIsClosed: the row of a task's letter that could not be delivered stays until the
// task's investigation is closed, whatever id the letter was recorded under.
func TestDeadLetterOfATaskIsClosed(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for _, prefix := range []string{"task:x:1:staleness_timeout", "event"} {
		event, entry := uuid.New(), uuid.New()
		closed := func(want bool, when string) {
			t.Helper()
			if got := value[bool](f, `select postrider.dlq_event_closed($1, 1)`, event); got != want {
				t.Errorf("%s, %s: closed is %v", prefix, when, got)
			}
		}
		id := prefix
		if prefix == "event" {
			id = "event:" + event.String() + ":1"
		}
		closed(false, "before its letter")
		f.exec(`insert into postrider.dlq_entry (dlq_entry_uuid, subject_type, subject_id, original_state, dlq_reason, dlq_timestamp, last_occurred_at, snapshot)
			values ($1, 'task', $2, 'x', 'staleness_timeout', now(), now(), '{}')`, entry, uuid.NewString())
		f.exec(`insert into postrider.dlq_letter (letter_id, dlq_entry_uuid, dialect, dlq_topic, dlq_partition, dlq_offset, key_kind, payload_kind, event_id, episode)
			values ($1, $2, 'postrider', 'd', 0, 1, 'inline', 'inline', $3, 1)`, id, entry, event)
		closed(false, "while the task's investigation is pending")
		f.exec(`update postrider.dlq_entry set resolution_status = 'cancelled', resolution_timestamp = now() where dlq_entry_uuid = $1`, entry)
		closed(true, "after")
		f.exec(`insert into postrider.dlq_entry (subject_type, subject_id, original_state, dlq_reason, dlq_timestamp, last_occurred_at, snapshot)
			values ('event', $1, 'failed', 'undeliverable', now(), now(), '{}')`, event.String())
		closed(false, "while another of the event is pending")
	}
}

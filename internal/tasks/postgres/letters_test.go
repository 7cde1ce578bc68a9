package postgres_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/google/uuid"

	"github.com/postrider/postrider/internal/dlq"
	"github.com/postrider/postrider/internal/tasks/ledgertest"
)

// letters is what tasks know of a task's dead letters.
func (r *archiveRig) letters(task uuid.UUID) string {
	r.Helper()
	return one[string](r, `select coalesce(string_agg(case when closed_at is not null then 'closed' when entry_uuid is not null then 'pending' else 'on its way' end, ', ' order by letter_id), 'none')
		from postrider.tasker_letter where task_uuid = $1`, task)
}

func (r *archiveRig) wantLetters(task uuid.UUID, when, want string) {
	r.Helper()
	if got := r.letters(task); got != want {
		r.Errorf("%s the letters are %s, want %s", when, got, want)
	}
}

// TestDeskTellsOfLetters: tasks know of their dead letters whether they are recorded, pending, closed, opened again by
// hand, or purged, and forget them with the task. Of other dead letters they know nothing.
func TestDeskTellsOfLetters(t *testing.T) {
	t.Parallel()
	r := newArchiveRig(t)
	task := r.ended("error", 40*day)
	first, second := r.letter(task, dlq.StalenessTimeout), r.letter(task, dlq.ManualDLQ)
	ledgertest.Age(t, r.pool, task, 40*day)
	r.wantLetters(task, "at first", "on its way, on its way")
	entry := r.collect(first, task, dlq.StalenessTimeout)
	r.wantLetters(task, "with one recorded", "on its way, pending")
	if same := r.collect(second, task, dlq.ManualDLQ); same != entry {
		t.Fatalf("the second letter opened %s beside %s", same, entry)
	}
	r.wantLetters(task, "with both recorded", "pending, pending")
	r.close(entry, dlq.ManuallyResolved)
	r.wantLetters(task, "after closing", "closed, closed")
	r.exec(`update postrider.dlq_entry set resolution_status = 'pending', resolution_timestamp = null where dlq_entry_uuid = $1`, entry)
	r.wantLetters(task, "after opening it again", "pending, pending")
	if got := r.run(); got.Tasks != 0 {
		t.Errorf("with a pending investigation %+v went", got)
	}
	r.collectOf("event:"+uuid.NewString()+":1", dlq.Subject{Type: dlq.SubjectEvent, ID: uuid.NewString()}, dlq.MaxRetriesExceeded)
	if n := one[int](r, `select count(*) from postrider.tasker_letter`); n != 2 {
		t.Errorf("tasks know %d letters", n)
	}
	r.exec(`select postrider.dlq_purge_entries(array[$1::uuid])`, entry)
	r.wantLetters(task, "after the purge", "closed, closed")
	r.run()
	r.want(task, "archive as dlq_resolved")
	r.wantLetters(task, "after it was archived", "none")
}

// TestDeskTellsBeforeTheTaskMoves: an event is given up while another transaction has its task locked. Its dead letter is
// recorded, and the investigation closed, before the task is moved. Then the letter counts as closed.
func TestDeskTellsBeforeTheTaskMoves(t *testing.T) {
	t.Parallel()
	r := newArchiveRig(t)
	ledgertest.AddMachine(t, r.pool, ledgertest.Protocol())
	ledgertest.Apply(t, r.pool, ledgertest.Template{Name: "document", Machine: "protocol"})
	task := ledgertest.Create(t, r.pool, ledgertest.New{Name: "document"})
	id, event := ledgertest.MustGiveUp(t, r.pool, task, "record", "X")
	held, err := r.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = held.Rollback(context.WithoutCancel(t.Context())) }()
	if _, err := held.Exec(t.Context(), `select from postrider.tasker_tasks where task_uuid = $1 for update`, task); err != nil {
		t.Fatal(err)
	}
	if n := one[int](r, `select postrider.outbox_tell_tasks($1)`, []int64{id}); n != 0 {
		t.Fatalf("%d tasks were moved", n)
	}
	entry := one[uuid.UUID](r, `insert into postrider.dlq_entry (subject_type, subject_id, original_state, dlq_reason, dlq_timestamp, last_occurred_at, snapshot)
		values ('event', $1, 'x', 'max_retries_exceeded', now(), now(), '{}') returning dlq_entry_uuid`, event.String())
	r.exec(`insert into postrider.dlq_letter (letter_id, dlq_entry_uuid, dialect, dlq_topic, dlq_partition, dlq_offset, key_kind, payload_kind, event_id, episode)
		values ($1, $2, 'postrider', 'd', 0, 1, 'inline', 'inline', $3, 1)`, fmt.Sprintf("event:%s:1", event), entry, event)
	r.wantLetters(task, "before the task moved", "pending")
	r.close(entry, dlq.ManuallyResolved)
	if err := held.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := one[int](r, `select moved from postrider.task_events_catch_up()`); n != 1 {
		t.Fatalf("%d tasks were moved", n)
	}
	r.wantLetters(task, "after the task moved", "closed")
	ledgertest.Age(t, r.pool, task, 40*day)
	r.run()
	r.want(task, "archive as dlq_resolved")
}

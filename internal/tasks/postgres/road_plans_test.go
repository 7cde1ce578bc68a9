package postgres_test

import (
	"testing"

	"github.com/google/uuid"

	"github.com/postrider/postrider/internal/tasks/ledger"
	"github.com/postrider/postrider/internal/tasks/ledgertest"
	"github.com/postrider/postrider/internal/tasks/postgres"
)

// TestPlansOfTheRoadLast: the plans of a session are from a time with a handful of tasks, when reading whole tables was
// best. With many tasks the session still reads no table as a whole. This holds for writers of linked events, for relays
// that give them up, and for sessions that retry or read tasks.
func TestPlansOfTheRoadLast(t *testing.T) {
	t.Parallel()
	r := newRoad(t)
	tx, err := r.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(t.Context()) }()
	exec := func(sql string, args ...any) {
		t.Helper()
		if _, err := tx.Exec(t.Context(), sql, args...); err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
	}
	l := postgres.On(tx)
	work := func() {
		t.Helper()
		task, err := l.Create(t.Context(), ledger.NewTask{Namespace: "default", Name: "protocol"})
		if err != nil {
			t.Fatal(err)
		}
		exec(`select postrider.outbox_publish_bytes('documents', ''::bytea, '{}'::bytea, task_uuid => $1)`, task)
		event, _ := ledgertest.MustGiveUp(t, tx, task, "record", "X")
		for range 2 {
			exec(`select postrider.outbox_tell_tasks($1)`, []int64{event})
		}
		if _, err := l.ArchiveOnRead(t.Context(), task); err != nil {
			t.Fatal(err)
		}
		if _, err := l.Retry(t.Context(), task, ""); err != nil {
			t.Fatal(err)
		}
		exec(`insert into postrider.tasker_undelivered_events (event_id, episode, task_uuid, topic, attempts, outcome, detail, noted_at)
			values ($1, 1, $2, 'documents', 3, 'waiting', '', clock_timestamp())`, uuid.New(), task)
		if got, err := l.CatchUp(t.Context(), 10); err != nil || got.Moved != 1 {
			t.Fatalf("caught up %+v, %v", got, err)
		}
		if _, err := l.Retry(t.Context(), task, ""); err != nil {
			t.Fatal(err)
		}
		if _, err := l.DeadLetter(t.Context(), task, "why", ""); err != nil {
			t.Fatal(err)
		}
	}
	work()
	exec(`analyze postrider.tasker_tasks, postrider.tasker_task_transitions, postrider.tasker_undelivered_events, postrider.dlq_entry`)
	for range 8 { // plans are kept from the sixth call on
		work()
	}
	exec(`insert into postrider.tasker_tasks (named_task_uuid, state, live) select named_task_uuid, 'extracting', true
		from postrider.tasker_named_tasks, generate_series(1, 500) where name = 'protocol'`)
	exec(`insert into postrider.tasker_task_transitions (task_uuid, to_state, sort_key, most_recent)
		select task_uuid, state, 1, true from postrider.tasker_tasks where state = 'extracting'`)
	exec(`insert into postrider.tasker_undelivered_events (event_id, episode, task_uuid, topic, attempts, outcome, detail)
		select gen_random_uuid(), 1, task_uuid, 'documents', 3, 'refused', '' from postrider.tasker_tasks where state = 'extracting'`)
	read := func() (n int) {
		t.Helper()
		if err := tx.QueryRow(t.Context(), `select coalesce(sum(seq_tup_read), 0) from pg_stat_xact_user_tables
			where relname in ('tasker_tasks', 'tasker_task_transitions', 'tasker_undelivered_events')`).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	before := read()
	work()
	if rows := read() - before; rows > 0 {
		t.Errorf("the road reads %d rows of whole tables", rows)
	}
}

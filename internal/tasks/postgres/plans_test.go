package postgres_test

import (
	"testing"

	"github.com/google/uuid"

	"github.com/postrider/postrider/internal/tasks/ledger"
	"github.com/postrider/postrider/internal/tasks/postgres"
)

// TestPlansOfASessionLast: a session that began with empty tables and has its plans from then reads no table as a
// whole later on, whatever the statistics say.
func TestPlansOfASessionLast(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.apply(twoSteps)
	tx, err := f.pool.Begin(t.Context())
	f.must(err)
	defer func() { _ = tx.Rollback(t.Context()) }()
	l := postgres.On(tx)
	work := func() uuid.UUID {
		t.Helper()
		task, err := l.Create(t.Context(), ledger.NewTask{Namespace: "default", Name: "task", IdempotencyKey: uuid.NewString()})
		f.must(err)
		for range 2 {
			ready, err := l.NextReady(t.Context(), ledger.ReadyQuery{Limit: 1})
			f.must(err)
			if len(ready) != 1 || ready[0].TaskUUID != task {
				t.Fatalf("ready are %+v, want task %s", ready, task)
			}
			steps, err := l.ReadySteps(t.Context(), task)
			f.must(err)
			number, err := l.StartStep(t.Context(), steps[0].UUID, "w")
			f.must(err)
			f.must(l.CompleteStep(t.Context(), steps[0].UUID, nil, number))
		}
		if got, err := l.Task(t.Context(), task); err != nil || got.State != "complete" {
			t.Fatalf("the task is %+v, %v", got, err)
		}
		return task
	}
	for range 12 { // plans are kept from the sixth call on
		work()
	}
	exec := func(sql string) {
		t.Helper()
		if _, err := tx.Exec(t.Context(), sql); err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
	}
	// 4,000 that wait for something, more important than all else.
	exec(`insert into postrider.tasker_tasks (named_task_uuid, state, live, priority) select named_task_uuid, 'waiting_for_dependencies', true, 100
		from postrider.tasker_named_tasks, generate_series(1, 4000)`)
	exec(`insert into postrider.tasker_workflow_steps (task_uuid, step_name, position, dependencies)
		select task_uuid, 'waits', 0, '{other}' from postrider.tasker_tasks where state = 'waiting_for_dependencies'`)
	exec(`insert into postrider.tasker_task_transitions (task_uuid, to_state, sort_key, most_recent)
		select task_uuid, 'waiting_for_dependencies', 1, true from postrider.tasker_tasks where state = 'waiting_for_dependencies'`)
	const read = `select coalesce(sum(seq_tup_read), 0) from pg_stat_xact_user_tables
		where relname in ('tasker_tasks', 'tasker_workflow_steps', 'tasker_task_transitions', 'tasker_workflow_step_transitions')`
	count := func(sql string) (n int) {
		t.Helper()
		if err := tx.QueryRow(t.Context(), sql).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	before := count(read)
	task := work()
	if _, err := l.Cancel(t.Context(), task, "", ""); err != nil {
		t.Fatal(err)
	}
	if rows := count(read) - before; rows > 0 {
		t.Errorf("a task's work reads %d rows of whole tables", rows)
	}
	// The number of rows that it reads does not grow with the number of waiting tasks.
	fetched := `select coalesce(sum(idx_tup_fetch), 0) from pg_stat_xact_user_tables where relname in ('tasker_tasks', 'tasker_workflow_steps')`
	before = count(fetched)
	if ready, err := l.NextReady(t.Context(), ledger.ReadyQuery{}); err != nil || len(ready) != 0 {
		t.Fatalf("ready are %+v, %v", ready, err)
	}
	if rows := count(fetched) - before; rows > 500 {
		t.Errorf("finding that nothing is ready reads %d rows", rows)
	}
}

package ledgertest

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// New is a task to create. Context and Steps are JSON; empty is the default of create_task.
type New struct {
	Namespace, Name, Version, Context, Steps, Key string
	Priority                                      int
}

// Create creates a task and returns its uuid.
func Create(t testing.TB, pool *pgxpool.Pool, n New) uuid.UUID {
	t.Helper()
	var id uuid.UUID
	err := pool.QueryRow(t.Context(), `select postrider.create_task($1, $2, coalesce(nullif($3, ''), '{}')::jsonb, nullif($4, ''), $5,
		nullif($6, '')::jsonb, nullif($7, ''))`,
		or(n.Namespace, "default"), or(n.Name, "task"), n.Context, n.Version, n.Priority, n.Steps, n.Key).Scan(&id)
	if err != nil {
		t.Fatalf("create task %+v: %v", n, err)
	}
	return id
}

// Put moves a task into a state whether or not its machine allows it, with its history and event.
func Put(t testing.TB, pool *pgxpool.Pool, task uuid.UUID, state string) {
	t.Helper()
	exec(t, pool, `select postrider.task_move($1, $2, '{"reason": "put there by a test"}')`, task, state)
}

// Age makes a task and its stay in its present state older by d, its steps and history with it.
func Age(t testing.TB, pool *pgxpool.Pool, task uuid.UUID, d time.Duration) {
	t.Helper()
	tx, err := pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(t.Context()) }()
	for _, sql := range []string{
		`update postrider.tasker_tasks set state_entered_at = state_entered_at - $2::interval, created_at = created_at - $2::interval,
			updated_at = updated_at - $2::interval, completed_at = completed_at - $2::interval, ready_at = ready_at - $2::interval,
			resumed_at = resumed_at - $2::interval, stay_from = stay_from - $2::interval, stale_until = stale_until - $2::interval
			where task_uuid = $1`,
		`update postrider.tasker_task_transitions set created_at = created_at - $2::interval where task_uuid = $1`,
		`update postrider.tasker_workflow_steps set state_entered_at = state_entered_at - $2::interval, created_at = created_at - $2::interval,
			updated_at = updated_at - $2::interval, next_retry_at = next_retry_at - $2::interval where task_uuid = $1`,
		`update postrider.tasker_workflow_step_transitions set created_at = created_at - $2::interval where task_uuid = $1`,
	} {
		if _, err := tx.Exec(t.Context(), sql, task, d); err != nil {
			t.Fatalf("age task %s: %v", task, err)
		}
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// RetryNow makes the retries that the steps of a task wait for due at once.
func RetryNow(t testing.TB, pool *pgxpool.Pool, task uuid.UUID) {
	t.Helper()
	exec(t, pool, `update postrider.tasker_workflow_steps set next_retry_at = clock_timestamp() where task_uuid = $1 and next_retry_at is not null`, task)
	exec(t, pool, `update postrider.tasker_tasks set ready_at = clock_timestamp() where task_uuid = $1 and ready_at is not null`, task)
}

func exec(t testing.TB, pool *pgxpool.Pool, sql string, args ...any) {
	t.Helper()
	if _, err := pool.Exec(t.Context(), sql, args...); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

// Task is a task as it stands.
type Task struct {
	UUID           uuid.UUID
	State          string
	Live           bool
	StateEnteredAt time.Time
	SortKey        int
	Priority       int
	RetryCount     int
	ErrorReason    string
	Metadata       json.RawMessage
	Flagged        bool
	CompletedAt    *time.Time
}

// Read reads a task.
func Read(t testing.TB, pool *pgxpool.Pool, task uuid.UUID) Task {
	t.Helper()
	rows, err := pool.Query(t.Context(), `select task_uuid, state, live, state_entered_at, sort_key, priority, retry_count,
		coalesce(error_reason, ''), metadata, stale_flagged_at is not null, completed_at from postrider.tasker_tasks where task_uuid = $1`, task)
	if err == nil {
		var got Task
		if got, err = pgx.CollectExactlyOneRow(rows, pgx.RowToStructByPos[Task]); err == nil {
			return got
		}
	}
	t.Fatalf("read task %s: %v", task, err)
	return Task{}
}

// State is where a task stands.
func State(t testing.TB, pool *pgxpool.Pool, task uuid.UUID) string {
	t.Helper()
	return Read(t, pool, task).State
}

// Step is a step as it stands.
type Step struct {
	UUID       uuid.UUID
	Name       string
	Status     string
	RetryCount int
	LastError  string
}

// Steps reads the steps of a task by their names.
func Steps(t testing.TB, pool *pgxpool.Pool, task uuid.UUID) map[string]Step {
	t.Helper()
	rows, err := pool.Query(t.Context(), `select workflow_step_uuid, step_name, status, retry_count, coalesce(last_error, '')
		from postrider.tasker_workflow_steps where task_uuid = $1`, task)
	if err != nil {
		t.Fatal(err)
	}
	all, err := pgx.CollectRows(rows, pgx.RowToStructByPos[Step])
	if err != nil {
		t.Fatalf("read the steps of task %s: %v", task, err)
	}
	steps := map[string]Step{}
	for _, s := range all {
		steps[s.Name] = s
	}
	return steps
}

// History is the states that a task was in, the first to the present, joined with arrows.
func History(t testing.TB, pool *pgxpool.Pool, task uuid.UUID) string {
	t.Helper()
	rows, err := pool.Query(t.Context(), `select to_state from postrider.tasker_task_transitions where task_uuid = $1 order by sort_key`, task)
	if err != nil {
		t.Fatal(err)
	}
	states, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatalf("read the history of task %s: %v", task, err)
	}
	return strings.Join(states, " -> ")
}

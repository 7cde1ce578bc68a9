package postgres_test

import (
	"errors"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/postrider/postrider/internal/tasks/ledgertest"
)

// TestRefusalsSayWhatToDo: each refusal says what was wrong, and what to do about it.
func TestRefusalsSayWhatToDo(t *testing.T) {
	t.Parallel()
	r := newRoad(t)
	r.template(ledgertest.Machine{Name: "own", Initial: "new", Cancelled: "dropped", States: map[string]string{"new": "initial", "dropped": "terminal"}})
	fresh, ended := r.in("workflow", "pending"), r.in("workflow", "complete")
	waits, begun := r.in("workflow", "pending"), r.in("workflow", "pending")
	first := func(task uuid.UUID) uuid.UUID { return ledgertest.Steps(t, r.pool, task)["a"].UUID }
	for _, task := range []uuid.UUID{waits, begun} {
		r.exec(`select postrider.start_step($1)`, first(task))
	}
	r.exec(`select postrider.fail_step($1, 'x', true, '1 hour')`, first(waits))
	for _, c := range []struct {
		code, sql string
		args      []any
	}{
		{"P0002", `select postrider.task_snapshot($1)`, []any{uuid.New()}},
		{"22023", `select postrider.transition_task_state_atomic($1, 'pending', 'initializing', '[]')`, []any{fresh}},
		{"22023", `select postrider.create_task('default', 'workflow', p_idempotency_key => repeat('k', 513))`, nil},
		{"55000", `select postrider.start_step($1)`, []any{first(waits)}},
		{"55000", `select postrider.start_step($1)`, []any{ledgertest.Steps(t, r.pool, fresh)["b"].UUID}},
		{"22023", `select postrider.fail_step($1, 'x', true, '-1 s')`, []any{first(begun)}},
		{"P0002", `select postrider.step_action($1, $2, 'retry')`, []any{fresh, uuid.New()}},
		{"55000", `select postrider.cancel_task($1, null, null)`, []any{r.in("protocol", "uploaded")}},
		{"22023", `select postrider.cancel_task($1, null, null)`, []any{r.in("own", "new")}},
		{"22023", `select postrider.retry_task($1)`, []any{fresh}},
		{"55000", `select postrider.dead_letter_task($1, 'why')`, []any{ended}},
		{"22023", `select postrider.dead_letter_task($1, ' ')`, []any{fresh}},
		{"22023", `select postrider.detect_and_transition_stale_tasks(p_batch_size => 0)`, nil},
		{"22023", `select postrider.detect_and_transition_stale_tasks(p_task_max_lifetime_hours => 8760001)`, nil},
		{"22023", `select postrider.archive_completed_tasks(-1)`, nil},
		{"22023", `select postrider.archive_completed_tasks(p_batch_size => 0)`, nil},
		{"22023", `select postrider.archive_completed_tasks(p_dry_run => null)`, nil},
	} {
		_, err := r.pool.Exec(t.Context(), c.sql, c.args...)
		if refused, ok := errors.AsType[*pgconn.PgError](err); !ok || refused.Code != c.code || refused.Hint == "" {
			t.Errorf("%s: %v, want %s with a hint", c.sql, err, c.code)
		}
	}
}

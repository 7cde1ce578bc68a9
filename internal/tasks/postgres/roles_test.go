package postgres_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/postrider/postrider/internal/migrations"
)

// session types SQL as a role, as psql sends it.
type session struct {
	t    *testing.T
	conn *pgx.Conn
}

func as(f *fixture, role string) session {
	f.t.Helper()
	conn := f.db.Conn(f.t)
	if err := migrations.ApplyRoles(f.t.Context(), conn); err != nil {
		f.t.Fatal(err)
	}
	s := session{f.t, conn}
	s.ask("set role " + role)
	return s
}

// ask runs one statement and returns its only value, empty for none.
func (s session) ask(sql string) string {
	s.t.Helper()
	results, err := s.conn.PgConn().Exec(s.t.Context(), sql).ReadAll()
	if err != nil {
		s.t.Fatalf("%s: %v", sql, err)
	}
	if len(results) == 0 || len(results[0].Rows) == 0 {
		return ""
	}
	return string(results[0].Rows[0][0])
}

// refused is the code with which a statement is refused.
func (s session) refused(sql string) string {
	s.t.Helper()
	_, err := s.conn.PgConn().Exec(context.Background(), sql).ReadAll()
	var e *pgconn.PgError
	if !errors.As(err, &e) {
		s.t.Errorf("%s: %v, it should be refused", sql, err)
		return ""
	}
	return e.Code
}

// TestServiceInAnotherLanguage does the whole of a task's work with SQL alone, with a writer's rights.
func TestServiceInAnotherLanguage(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.apply(`{"steps": [{"name": "reserve"}, {"name": "charge", "dependencies": ["reserve"]}]}`)
	w := as(f, "postrider_writer")
	w.ask(`select postrider.worker_heartbeat('default', 'ruby-1')`)
	task := w.ask(`select postrider.create_task('default', 'task', '{"order": 7}')`)
	w.ask(`begin`)
	if got := w.ask(`select task_uuid from postrider.get_next_ready_tasks(p_limit => 1)`); got != task {
		t.Fatalf("ready is %q, want %s", got, task)
	}
	step := w.ask(`select workflow_step_uuid from postrider.get_ready_steps('` + task + `')`)
	w.ask(`select postrider.enqueue_step('` + step + `')`)
	w.ask(`commit`)
	if got := w.ask(`select postrider.start_step('` + step + `', 'ruby-1')`); got != "1" {
		t.Errorf("started with the fencing number %s", got)
	}
	if got := w.ask(`select postrider.task_snapshot('` + task + `')->'task'->'context'->>'order'`); got != "7" {
		t.Errorf("the context has order %q", got)
	}
	w.ask(`select postrider.complete_step('` + step + `', '{"stock": 3}', 1)`)
	charge := w.ask(`select workflow_step_uuid from postrider.get_ready_steps('` + task + `')`)
	w.ask(`select postrider.start_step('` + charge + `')`)
	if got := w.ask(`select postrider.fail_step('` + charge + `', 'declined', p_retry_after => interval '0', p_fencing_number => 1)`); got != "waiting_for_retry" {
		t.Errorf("failed to %s", got)
	}
	w.ask(`select postrider.start_step('` + charge + `')`)
	w.ask(`select postrider.complete_step('` + charge + `')`)
	if got := w.ask(`select postrider.evaluate_task('` + task + `')`); got != "complete" {
		t.Errorf("the task is %s", got)
	}
	plain := w.ask(`select postrider.create_task('default', 'task', p_steps => '[]')`)
	if got := w.ask(`select postrider.transition_task_state_atomic('` + plain + `', 'pending', 'initializing', '{"actor": "ruby"}')`); got != "t" {
		t.Errorf("moved %s", got)
	}
	if got := w.ask(`select postrider.cancel_task('` + plain + `', 'ruby', 'not needed')`); got != "t" {
		t.Errorf("cancelled %s", got)
	}
}

// TestWriterTouchesNoTable: a service reaches the tables only through the functions, and cannot call internal functions.
func TestWriterTouchesNoTable(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.apply(`{"steps": [{"name": "a"}]}`)
	task := f.task().String()
	const noRight = "42501"
	writer := as(f, "postrider_writer")
	for _, table := range strings.Fields(f.answer(`select string_agg(tablename, ' ') from pg_tables where schemaname = 'postrider' and tablename like 'tasker%'`)) {
		for _, sql := range []string{"select from postrider." + table, "delete from postrider." + table, "insert into postrider." + table + " default values"} {
			if code := writer.refused(sql); code != noRight {
				t.Errorf("%s is refused with %s", sql, code)
			}
		}
	}
	for _, sql := range []string{
		`update postrider.tasker_tasks set state = 'complete'`,
		`select postrider.task_move('` + task + `', 'complete')`,
		`select postrider.task_event('` + task + `', 'made_up', '{}')`,
		`select postrider.task_dead_letter('` + task + `', 'manual_dlq', 'pending', 1, null, null)`,
		`select postrider.task_follow_steps('` + task + `', true)`,
		`select postrider.step_set(s, 'complete', null) from (select (null::postrider.tasker_workflow_steps).*) s`,
		`select postrider.step_action('` + task + `', gen_random_uuid(), 'retry')`,
	} {
		if code := writer.refused(sql); code != noRight {
			t.Errorf("%s is refused with %s", sql, code)
		}
	}

	operator := as(f, "postrider_operator")
	step := f.step(f.task(), "a")
	_ = operator.ask(`select postrider.step_action((select task_uuid from postrider.tasker_workflow_steps where workflow_step_uuid = '` + step.UUID.String() + `'), '` +
		step.UUID.String() + `', 'retry', 'by hand', 'kim')`)
	if got := operator.ask(`select status from postrider.tasker_workflow_steps where workflow_step_uuid = '` + step.UUID.String() + `'`); got != "enqueued" {
		t.Errorf("the operator's retry made the step %s", got)
	}
	for _, sql := range []string{`update postrider.tasker_tasks set state = 'complete'`, `delete from postrider.tasker_tasks`, `select postrider.task_move('` + task + `', 'complete')`} {
		if code := operator.refused(sql); code != noRight {
			t.Errorf("%s by an operator is refused with %s", sql, code)
		}
	}
}

// TestFunctionsOfTheLedgerAreNobodysByDefault: a function that was not granted cannot be called by a login without roles.
func TestFunctionsOfTheLedgerAreNobodysByDefault(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	open := f.answer(`select coalesce(string_agg(p.proname, ', '), '') from pg_proc p
		where p.pronamespace = 'postrider'::regnamespace and (p.proname ~ '^(task|step)_' or p.proname in ('create_task', 'transition_task_state_atomic',
			'evaluate_task', 'enqueue_step', 'start_step', 'complete_step', 'fail_step', 'cancel_task', 'worker_heartbeat', 'get_next_ready_tasks', 'get_ready_steps'))
		and has_function_privilege('public', p.oid, 'execute')`)
	if open != "" {
		t.Errorf("everybody may call %s", open)
	}
	unsafe := f.answer(`select coalesce(string_agg(p.proname, ', '), '') from pg_proc p
		where p.pronamespace = 'postrider'::regnamespace and p.prosecdef and not coalesce(p.proconfig @> '{"search_path=pg_catalog, pg_temp"}', false)`)
	if unsafe != "" {
		t.Errorf("with the owner's rights and a search path of the caller's run %s", unsafe)
	}
}

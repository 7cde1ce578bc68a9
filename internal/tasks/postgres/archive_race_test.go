package postgres_test

import (
	"errors"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/postrider/postrider/internal/tasks/ledger"
	"github.com/postrider/postrider/internal/tasks/ledgertest"
	"github.com/postrider/postrider/internal/tasks/postgres"
	"github.com/postrider/postrider/internal/testenv/pgtest"
)

func TestArchiversShareTheWork(t *testing.T) {
	t.Parallel()
	r := newArchiveRig(t)
	const tasks, archivers = 120, 4
	for range tasks {
		r.ended("complete", 40*day)
	}
	before := r.census()
	got := make([]ledger.Archived, archivers)
	errs := make([]error, archivers)
	var wg sync.WaitGroup
	for i := range archivers {
		wg.Go(func() {
			// Each goes on until nothing is left for it: what another has in hand is the other's.
			for {
				part, err := ledger.Archive(t.Context(), r.archive, ledger.ArchiveOptions{RetentionDays: 30, BatchSize: 7})
				got[i].Tasks += part.Tasks
				got[i].Steps += part.Steps
				if err != nil || part.Tasks == 0 {
					errs[i] = err
					return
				}
			}
		})
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	last := r.run() // whose rows were skipped at the end
	sum, steps := last.Tasks, last.Steps
	for _, g := range got {
		sum += g.Tasks
		steps += g.Steps
	}
	if sum != tasks || steps != 4*tasks {
		t.Errorf("%d archivers say that they moved %d tasks with %d steps, want %d: %+v", archivers, sum, steps, tasks, got)
	}
	if n := one[int](r, `select count(*) from postrider.tasker_tasks`); n != 0 {
		t.Errorf("%d tasks are left", n)
	}
	if after := r.census(); after != before {
		t.Errorf("before: %s, after: %s", before, after)
	}
	if n := one[int](r, `select sum(tasks_archived) from postrider.v_archive_statistics`); n != tasks {
		t.Errorf("the statistics count %d", n)
	}
	if n := one[int](r, `select count(*) from postrider.outbox_event where headers @> '[["ce_type", "postrider.task.archived.v1"]]'`); n != tasks {
		t.Errorf("%d events", n)
	}
}

// TestArchiveLeavesWhatIsLocked: a service has a failed task locked. The archiver does not wait for it, archives
// the others, and leaves the task when the service moved it.
func TestArchiveLeavesWhatIsLocked(t *testing.T) {
	t.Parallel()
	r := newArchiveRig(t)
	id, other := r.ended("error", 40*day), r.ended("error", 40*day)
	tx, err := r.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(t.Context()) }()
	var moved bool
	if err := tx.QueryRow(t.Context(), `select postrider.transition_task_state_atomic($1, 'error', 'pending')`, id).Scan(&moved); err != nil || !moved {
		t.Fatal(moved, err)
	}
	if got := r.run(); got.Tasks != 1 {
		t.Errorf("archived %+v beside a locked task", got)
	}
	r.want(other, "archive as error")
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := r.run(); got.Tasks != 0 {
		t.Errorf("archived %+v", got)
	}
	r.want(id, "live")
	if s := ledgertest.State(t, r.pool, id); s != "pending" {
		t.Errorf("the task is in %s", s)
	}
}

// TestArchiverLooksAgain: the archiver waits between finding tasks and locking them. Meanwhile another session moves one
// task, acts on a step of one, and dead-letters one: these three stay.
func TestArchiverLooksAgain(t *testing.T) {
	t.Parallel()
	r := newArchiveRig(t)
	moved, acted, lettered, alone := r.ended("error", 40*day), r.ended("error", 40*day), r.ended("error", 40*day), r.ended("error", 40*day)
	tx, err := r.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(t.Context()) }()
	pgtest.Exec(t, tx, `lock table postrider.tasker_tasks in exclusive mode`) // others may read, and lock no row
	conn := r.db.Conn(t)
	type result struct {
		tasks int
		err   error
	}
	archived := make(chan result, 1)
	go func() {
		var got result
		got.err = conn.QueryRow(t.Context(), `select tasks_archived from postrider.archive_completed_tasks(30, 100, false)`).Scan(&got.tasks)
		archived <- got
	}()
	r.until(`select exists (select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock')`)
	l := postgres.On(tx)
	if ok, err := l.Transition(t.Context(), moved, "error", "pending", nil); err != nil || !ok {
		t.Fatal(ok, err)
	}
	if _, err := l.Act(t.Context(), acted, ledgertest.Steps(t, r.pool, acted)["d"].UUID, ledger.StepAction{Action: ledger.ActionCancel}); err != nil {
		t.Fatal(err)
	}
	if _, err := l.DeadLetter(t.Context(), lettered, "why", ""); err != nil {
		t.Fatal(err)
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := <-archived; got.err != nil || got.tasks != 1 {
		t.Errorf("archived %d, %v", got.tasks, got.err)
	}
	r.want(alone, "archive as error")
	for _, id := range []uuid.UUID{moved, acted, lettered} {
		r.want(id, "live")
	}
}

// TestServiceWaitsForTheArchiver: the archiver was first. A session that wants the task waits until it is gone, and is
// told so. A session that creates a task with the same uuid waits, too.
func TestServiceWaitsForTheArchiver(t *testing.T) {
	t.Parallel()
	r := newArchiveRig(t)
	id := r.ended("error", 40*day)
	tx, err := r.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(t.Context()) }()
	if _, err := tx.Exec(t.Context(), `select postrider.archive_completed_tasks(30, 10, false)`); err != nil {
		t.Fatal(err)
	}
	const transition, create, step = `select postrider.transition_task_state_atomic($1, 'error', 'pending')`,
		`select postrider.create_task('default', 'task', p_task_uuid => $1)`,
		`insert into postrider.tasker_workflow_steps (task_uuid, step_name, position) values ($1, 'late', 9)`
	failures := map[string]error{transition: nil, create: nil, step: nil}
	var mu sync.Mutex
	var wg sync.WaitGroup
	for sql := range failures {
		conn := r.db.Conn(t) // a pool is too small for so many who wait
		wg.Go(func() {
			_, err := conn.Exec(t.Context(), sql, id)
			mu.Lock()
			defer mu.Unlock()
			failures[sql] = err
		})
	}
	r.until(`select count(*) = 3 from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`)
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	wg.Wait()
	for sql, code := range map[string]string{transition: "P0002", create: "23505", step: "23503"} {
		wantCode(t, failures[sql], code, "")
	}
	r.want(id, "archive as error")
}

// until looks until a query is true.
func (r *archiveRig) until(sql string, args ...any) {
	r.Helper()
	pgtest.WaitFor(r, r.pool, sql, args...)
}

// TestRetriedOrArchived: services put failed tasks back to work while archivers run. Each task is retried and
// live, or archived as it was; none is both, none is nowhere.
func TestRetriedOrArchived(t *testing.T) {
	t.Parallel()
	r := newArchiveRig(t)
	const tasks = 150
	ids := make([]uuid.UUID, tasks)
	for i := range ids {
		ids[i] = r.ended("error", 40*day)
	}
	before := r.census()
	retried := map[uuid.UUID]bool{}
	var mu sync.Mutex
	var services, archivers sync.WaitGroup
	done := make(chan struct{})
	for i := range 3 {
		services.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(i), 1))
			for _, n := range rng.Perm(tasks) {
				if n%3 != i {
					continue
				}
				var moved bool
				err := pgx.BeginFunc(t.Context(), r.pool, func(tx pgx.Tx) error {
					return tx.QueryRow(t.Context(), `select postrider.transition_task_state_atomic($1, 'error', 'pending')`, ids[n]).Scan(&moved)
				})
				var refused *pgconn.PgError
				if err != nil && (!errors.As(err, &refused) || refused.Code != "P0002") {
					t.Errorf("retry: %v", err)
				}
				mu.Lock()
				retried[ids[n]] = moved
				mu.Unlock()
			}
		})
	}
	for range 2 {
		archivers.Go(func() {
			for {
				if _, err := ledger.Archive(t.Context(), r.archive, ledger.ArchiveOptions{RetentionDays: 30, BatchSize: 2}); err != nil {
					t.Errorf("archive: %v", err)
					return
				}
				select {
				case <-done:
					return
				default:
				}
			}
		})
	}
	services.Wait()
	close(done)
	archivers.Wait()
	r.run()
	both := map[bool]int{}
	for id, moved := range retried {
		both[moved]++
		if moved {
			r.want(id, "live")
		} else {
			r.want(id, "archive as error")
		}
	}
	t.Logf("retried %d, archived %d", both[true], both[false])
	if len(retried) != tasks {
		t.Errorf("%d tasks were tried", len(retried))
	}
	// A retry adds one transition; nothing else changes the number of rows.
	r.exec(`delete from postrider.tasker_task_transitions where to_state = 'pending' and sort_key > 1`)
	if after := r.census(); after != before {
		t.Errorf("before: %s, after: %s", before, after)
	}
}

package postgres

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/tasks/ledger"
	"github.com/postrider/postrider/internal/tasks/ledgertest"
	"github.com/postrider/postrider/internal/testenv/pgtest"
)

// TestALongHistoryIsReadByThePage: what a page costs does not grow with the history, at its beginning and in the middle, with or
// without statistics, in the ledger and in the archive.
func TestALongHistoryIsReadByThePage(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	pool := db.Pool(t)
	ledgertest.Apply(t, pool, ledgertest.Template{Configuration: `{"steps": [{"name": "a"}]}`})
	task := ledgertest.Create(t, pool, ledgertest.New{})
	const long = 20_000
	ledgertest.Put(t, pool, task, "complete")
	pgtest.Exec(t, pool, `delete from postrider.tasker_task_transitions where sort_key > 1`)
	pgtest.Exec(t, pool, `update postrider.tasker_task_transitions set most_recent = false`)
	pgtest.Exec(t, pool, `insert into postrider.tasker_task_transitions (task_uuid, to_state, sort_key, most_recent, created_at)
		select $1, 'pending', n, n = $2::integer, now() + n * interval '1 second' from generate_series(2, $2::integer) n`, task, long)
	pgtest.Exec(t, pool, `insert into postrider.tasker_workflow_step_transitions (task_uuid, workflow_step_uuid, to_status, created_at)
		select task_uuid, workflow_step_uuid, 'pending', now() + n * interval '1 second' from postrider.tasker_workflow_steps, generate_series(2, $1::integer) n`, long)
	pgtest.Exec(t, pool, `update postrider.tasker_tasks set sort_key = $1`, long)
	newest, middle := ledger.HistoryPage{}, ledger.HistoryPage{After: fmt.Sprint(long / 2)}
	stepMiddle := ledger.HistoryPage{After: ledger.StepPlace{At: time.Now().Add(long / 2 * time.Second), UUID: uuid.Max}.String()}
	of := func(sql string, p ledger.HistoryPage) func(tx pgx.Tx) (int, error) {
		return func(tx pgx.Tx) (int, error) {
			found, _, err := transitions(t.Context(), tx, sql, task, p)
			return len(found), err
		}
	}
	ofSteps := func(sql string, p ledger.HistoryPage) func(tx pgx.Tx) (int, error) {
		return func(tx pgx.Tx) (int, error) {
			found, _, err := stepTransitions(t.Context(), tx, sql, task, p)
			return len(found), err
		}
	}
	for _, stage := range []string{"", "analyze", `select postrider.archive_completed_tasks(0, p_dry_run => false)`, "analyze"} {
		archive, list, listSteps := "", listTransitions, listStepTransitions
		if stage != "" {
			pgtest.Exec(t, pool, stage)
		}
		if pgtest.Value[bool](t, pool, `select exists (select from postrider.tasker_tasks_archive)`) {
			archive, list, listSteps = "_archive", archiveTransitions, archiveStepTransitions
		}
		for _, c := range []struct {
			table string
			read  func(tx pgx.Tx) (int, error)
		}{
			{"tasker_task_transitions", of(list, newest)}, {"tasker_task_transitions", of(list, middle)},
			{"tasker_workflow_step_transitions", ofSteps(listSteps, newest)}, {"tasker_workflow_step_transitions", ofSteps(listSteps, stepMiddle)},
		} {
			name, read := c.table+archive, c.read
			// A connection counts what it read until it reports it, a second later; so each has a new one.
			err := pgx.BeginFunc(t.Context(), db.Conn(t), func(tx pgx.Tx) error {
				n, err := read(tx)
				if err != nil {
					return err
				}
				var rows int
				if err := tx.QueryRow(t.Context(), `select pg_stat_get_xact_tuples_returned($1::regclass) + pg_stat_get_xact_tuples_fetched($1::regclass) +
					(select sum(pg_stat_get_xact_tuples_returned(i.indexrelid)) from pg_index i where i.indrelid = $1::regclass)`, "postrider."+name).Scan(&rows); err != nil {
					return err
				}
				if n != ledger.HistoryLimit || rows > 1000 {
					t.Errorf("%s after %q: %d of %d transitions with %d reads", name, stage, n, ledger.HistoryLimit, rows)
				}
				return nil
			})
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}

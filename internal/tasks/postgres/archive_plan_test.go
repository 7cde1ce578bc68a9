package postgres_test

import (
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/tasks/ledgertest"
)

// TestArchiveReadsAlongIndexes: with statistics from when the tables were empty, and after they were loaded at
// once, no table is read as a whole, neither to find nor to move.
func TestArchiveReadsAlongIndexes(t *testing.T) {
	t.Parallel()
	r := newArchiveRig(t)
	named := ledgertest.Apply(t, r.pool, ledgertest.Template{Name: "bulk"})
	r.exec(`analyze`)
	for _, table := range []string{"tasker_tasks", "tasker_workflow_steps", "tasker_task_transitions", "tasker_workflow_step_transitions"} {
		r.exec(`alter table postrider.` + table + ` set (autovacuum_enabled = off)`)
	}
	r.exec(`insert into postrider.tasker_tasks (named_task_uuid, state, live, state_entered_at)
		select $1, case when i % 2 = 0 then 'complete' else 'pending' end, i % 2 = 1, now() - interval '40 days' + i * interval '1 second' from generate_series(1, 5000) i`, named)
	r.exec(`insert into postrider.tasker_workflow_steps (task_uuid, step_name, position) select task_uuid, 's', 0 from postrider.tasker_tasks`)
	r.exec(`insert into postrider.tasker_task_transitions (task_uuid, to_state, sort_key, most_recent) select task_uuid, state, 1, true from postrider.tasker_tasks`)
	r.exec(`insert into postrider.tasker_workflow_step_transitions (task_uuid, workflow_step_uuid, to_status) select task_uuid, workflow_step_uuid, 'pending' from postrider.tasker_workflow_steps`)
	// A connection counts what it read until it reports it, a second later; so each count has a new one.
	for _, dry := range []bool{true, false} {
		err := pgx.BeginFunc(t.Context(), r.db.Conn(t), func(tx pgx.Tx) error {
			var tasks int
			if err := tx.QueryRow(t.Context(), `select tasks_archived from postrider.archive_completed_tasks(30, 500, $1)`, dry).Scan(&tasks); err != nil {
				return err
			}
			if tasks != 500 {
				t.Errorf("dry %v: %d tasks", dry, tasks)
			}
			rows, err := tx.Query(t.Context(), `select c.relname, pg_stat_get_xact_numscans(c.oid), pg_stat_get_xact_tuples_returned(c.oid)
				from pg_class c where c.relnamespace = 'postrider'::regnamespace and c.relname like 'tasker\_%' and c.relkind = 'r'
				and (pg_stat_get_xact_numscans(c.oid) > 0) and c.relname not in ('tasker_settings', 'tasker_archive_statistics')`)
			if err != nil {
				return err
			}
			var table string
			var scans, tuples int
			_, err = pgx.ForEachRow(rows, []any{&table, &scans, &tuples}, func() error {
				t.Errorf("dry %v: %s is read as a whole %d times, %d rows", dry, table, scans, tuples)
				return nil
			})
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	// Half of a batch's reads would be enough for a table of live tasks to show: none of them is looked at.
	err := pgx.BeginFunc(t.Context(), r.db.Conn(t), func(tx pgx.Tx) error {
		var fetched int
		if _, err := tx.Exec(t.Context(), `select postrider.archive_completed_tasks(30, 500, true)`); err != nil {
			return err
		}
		if err := tx.QueryRow(t.Context(), `select pg_stat_get_xact_tuples_fetched('postrider.tasker_tasks'::regclass)`).Scan(&fetched); err != nil {
			return err
		}
		if fetched > 600 {
			t.Errorf("finding 500 tasks fetches %d", fetched)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

package postgres

import (
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/tasks/ledgertest"
	"github.com/postrider/postrider/internal/testenv/pgtest"
)

// TestListsReadWhatTheyShow: a list of rare tasks is found without reading all the others.
func TestListsReadWhatTheyShow(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	pool := db.Pool(t)
	common := ledgertest.Apply(t, pool, ledgertest.Template{Name: "common"})
	rare := ledgertest.Apply(t, pool, ledgertest.Template{Namespace: "small", Name: "rare"})
	exec := func(sql string, args ...any) {
		t.Helper()
		if _, err := pool.Exec(t.Context(), sql, args...); err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
	}
	exec(`insert into postrider.tasker_tasks (named_task_uuid, state, live) select $1, case when i % 2 = 0 then 'pending' else 'complete' end, i % 2 = 0 from generate_series(1, 20000) i`, common)
	// The oldest of all, so that a walk from the newest would see them last.
	exec(`insert into postrider.tasker_tasks (task_uuid, named_task_uuid, state, live)
		select overlay(gen_random_uuid()::text placing '00000000' from 1 for 8)::uuid, case when i < 4 then $1::uuid else $2 end, case when i < 4 then 'error' else 'pending' end, i >= 4
		from generate_series(1, 8) i`, common, rare)
	exec(`insert into postrider.tasker_tasks_archive (task_uuid, named_task_uuid, state, live, state_entered_at, sort_key, context, priority, retry_count, metadata, dead_letters,
			created_at, updated_at, namespace_name, task_name, task_version, final_state, archived_at)
		select gen_random_uuid(), $1, 'complete', false, now(), 1, '{}', 0, 0, '{}', '{}', now(), now(), case when i <= 3 then 'small' else 'default' end,
			case when i <= 3 then 'rare' else 'common' end, '1.0.0', case when i between 4 and 6 then 'error' else 'complete' end, now() + i * interval '1 second'
		from generate_series(1, 20000) i`, common)
	exec(`vacuum (analyze) postrider.tasker_tasks, postrider.tasker_tasks_archive`)
	for name, c := range map[string]struct {
		table, sql string
		args       []any
		want       int
	}{
		"a rare state":                {"tasker_tasks", listSomeTasks, []any{nil, nil, nil, "error", 26, 0, uuid.Max, uuid.Nil}, 3},
		"a state that no task has":    {"tasker_tasks", listSomeTasks, []any{nil, nil, nil, "cancelled", 26, 0, uuid.Max, uuid.Nil}, 0},
		"a common state":              {"tasker_tasks", listSomeTasks, []any{nil, nil, nil, "pending", 26, 0, uuid.Max, uuid.Nil}, 26},
		"a small namespace":           {"tasker_tasks", listSomeTasks, []any{"small", nil, nil, nil, 26, 0, uuid.Max, uuid.Nil}, 5},
		"retryable ones":              {"tasker_tasks", listRetryableTasks, []any{nil, nil, nil, nil, 26, uuid.Nil, uuid.Max, uuid.Nil}, 3},
		"the end of a list":           {"tasker_tasks", listTasks, []any{26, 0, uuid.MustParse("00000000-ffff-ffff-ffff-ffffffffffff"), uuid.Nil}, 8},
		"the end of a state's":        {"tasker_tasks", listSomeTasks, []any{nil, nil, nil, "pending", 26, 0, uuid.MustParse("00000000-ffff-ffff-ffff-ffffffffffff"), uuid.Nil}, 5},
		"all":                         {"tasker_tasks", listTasks, []any{26, 0, uuid.Max, uuid.Nil}, 26},
		"a rare final state":          {"tasker_tasks_archive", archiveListSome, []any{nil, nil, "error", nil, nil, 25, 0}, 3},
		"a final state that none has": {"tasker_tasks_archive", archiveListSome, []any{nil, nil, "cancelled", nil, nil, 25, 0}, 0},
		"a small template":            {"tasker_tasks_archive", archiveListSome, []any{"small", "rare", nil, nil, nil, 25, 0}, 3},
		"a large namespace":           {"tasker_tasks_archive", archiveListSome, []any{"default", nil, nil, nil, nil, 25, 0}, 25},
		"all of the archive":          {"tasker_tasks_archive", archiveList, []any{nil, nil, 25, 0}, 25},
	} {
		// A connection counts what it read until it reports it, a second later; so each has a new one.
		err := pgx.BeginFunc(t.Context(), db.Conn(t), func(tx pgx.Tx) error {
			rows, err := tx.Query(t.Context(), c.sql, c.args...)
			if err != nil {
				return err
			}
			got, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (id uuid.UUID, err error) {
				values, err := row.Values()
				if err != nil {
					return id, err
				}
				return values[0].([16]byte), nil
			})
			if err != nil {
				return err
			}
			var read int
			if err := tx.QueryRow(t.Context(), `select pg_stat_get_xact_tuples_returned($1::regclass) + pg_stat_get_xact_tuples_fetched($1::regclass) +
				(select sum(pg_stat_get_xact_tuples_returned(i.indexrelid)) from pg_index i where i.indrelid = $1::regclass)`, "postrider."+c.table).Scan(&read); err != nil {
				return err
			}
			if len(got) != c.want || read > 500 {
				t.Errorf("%s: %d tasks, want %d, with %d reads", name, len(got), c.want, read)
			}
			return nil
		})
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

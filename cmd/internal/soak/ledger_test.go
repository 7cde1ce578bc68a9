package soak

import (
	"context"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/postrider/postrider/internal/tasks/ledgertest"
	"github.com/postrider/postrider/internal/testenv/buildtest"
	"github.com/postrider/postrider/internal/testenv/kafkatest"
	"github.com/postrider/postrider/internal/testenv/pgtest"
)

// ledgerKills is how often the product dies.
const ledgerKills = 20

// tasksOf are the tasks that a test made, by what must become of them.
type tasksOf struct{ ended, stuck, healthy []uuid.UUID }

// more makes tasks in one transaction: some ended long ago, some have been at work for two hours, some just begin.
func (all *tasksOf) more(t *testing.T, pool *pgxpool.Pool, n int) {
	t.Helper()
	err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
		for _, kind := range []struct {
			into      *[]uuid.UUID
			state, by string
		}{{&all.ended, "complete", "40 days"}, {&all.stuck, "steps_in_process", "2 hours"}, {&all.healthy, "", "0"}} {
			rows, err := tx.Query(t.Context(), `select postrider.create_task('default', 'task', '{"a": 1}') from generate_series(1, $1)`, n)
			if err != nil {
				return err
			}
			ids, err := pgx.CollectRows(rows, pgx.RowTo[uuid.UUID])
			if err != nil {
				return err
			}
			if kind.state != "" {
				if _, err := tx.Exec(t.Context(), `select postrider.task_move(id, $2, '{"reason": "test"}') from unnest($1::uuid[]) id`, ids, kind.state); err != nil {
					return err
				}
			}
			if _, err := tx.Exec(t.Context(), `update postrider.tasker_tasks set state_entered_at = state_entered_at - $2::text::interval, created_at = created_at - $2::text::interval
				where task_uuid = any ($1)`, ids, kind.by); err != nil {
				return err
			}
			*kind.into = append(*kind.into, ids...)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestLedgerKilled kills the whole product at random moments while its archiver and its detector have work. Live
// and archive together must have each task once, whole; each stuck task one pending investigation; and Kafka
// every event of every task.
func TestLedgerKilled(t *testing.T) {
	t.Parallel()
	db, b := pgtest.New(t), kafkatest.Kfake(t)
	pool := db.Pool(t)
	dlq, lifecycle := b.Topic(t, 3, nil), b.Topic(t, 3, nil)
	ledgertest.Apply(t, pool, ledgertest.Template{Configuration: `{"steps": [{"name": "a"}, {"name": "b", "dependencies": ["a"]}]}`})
	binary := buildtest.Program(t, "cmd/postrider")
	start := func() *process {
		return run(t, binary, []string{"serve", "--http", "127.0.0.1:0"}, db.URL, b, "DLQ_TOPIC="+dlq, "DLQ_GROUP="+dlq+".collector",
			"TASKS_LIFECYCLE_TOPIC="+lifecycle, "STALENESS_DETECTION_INTERVAL_SECONDS=1", "STALENESS_BATCH_SIZE=5", "ARCHIVE_BATCH_SIZE=5")
	}
	// The first start writes the topics' names into the database; a task made before would be bound elsewhere.
	first := start()
	first.said(t, "detector started")
	first.stop(t)

	rng := rand.New(rand.NewPCG(seed(t), 79))
	var all tasksOf
	midway := 0
	for range ledgerKills {
		all.more(t, pool, 15)
		p := start()
		p.said(t, "detector started")
		if p.killed(t.Context(), time.Duration(rng.Int64N(int64(600*time.Millisecond)))) {
			t.Fatalf("serve ended by itself:\n%s", p.log)
		}
		var unfinished bool
		if err := pool.QueryRow(t.Context(), `select exists (select from postrider.tasker_tasks where state in ('complete', 'steps_in_process'))
			and exists (select from postrider.tasker_tasks_archive)`).Scan(&unfinished); err != nil {
			t.Fatal(err)
		}
		if unfinished {
			midway++
		}
	}
	last := start()
	// Twenty deaths keep the last collector waiting for a session and two rebalances, 20 s in all (internal/dlq/kafka
	// TestManyDeaths), and not for one rebalance each. What takes three minutes is something else.
	last.lastWords(t, b, dlq+".collector")
	until(t, pool, "ended tasks are live", `select count(*) from postrider.tasker_tasks where state = 'complete'`)
	until(t, pool, "stuck tasks are not found", `select count(*) from postrider.tasker_tasks where state = 'steps_in_process'`)
	drained(t, pool)
	until(t, pool, "dead letters wait for the collector", `select count(*) from postrider.tasker_tasks t cross join unnest(t.dead_letters) d
		where not exists (select from postrider.dlq_letter l where l.letter_id = d)`)
	last.stop(t)
	t.Logf("%d tasks ended, %d stuck, %d healthy; of %d kills %d came in the middle of the work", len(all.ended), len(all.stuck), len(all.healthy), ledgerKills, midway)
	if midway < ledgerKills/4 {
		t.Error("nearly all kills came too late to test anything")
	}
	all.judge(t, pool)

	// Kafka has each event, at least once.
	got := map[string]bool{}
	for _, record := range b.ReadAll(t, lifecycle, 0) {
		for _, h := range record.Headers {
			if h.Key == "ce_id" {
				got[string(h.Value)] = true
			}
		}
	}
	rows, err := pool.Query(t.Context(), `select event_id::text from postrider.outbox_event where topic = $1`, lifecycle)
	if err != nil {
		t.Fatal(err)
	}
	written, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	missing := 0
	for _, id := range written {
		if !got[id] {
			missing++
		}
	}
	if missing > 0 || len(written) != len(got) {
		t.Errorf("of %d lifecycle events %d are not in Kafka, which has %d", len(written), missing, len(got))
	}
}

// judge compares the tasks in the database with the tasks that must be there.
func (all *tasksOf) judge(t *testing.T, pool *pgxpool.Pool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	none := func(what, sql string, args ...any) {
		t.Helper()
		rows, err := pool.Query(ctx, sql, args...)
		if err != nil {
			t.Fatal(err)
		}
		wrong, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			t.Fatal(err)
		}
		if len(wrong) > 0 {
			t.Errorf("%d times: %s: %s", len(wrong), what, strings.Join(wrong[:min(5, len(wrong))], ", "))
		}
	}
	for _, c := range []struct {
		name string
		ids  []uuid.UUID
		// where it is, how many investigations it has, and its events in their order.
		where, events  string
		investigations int
	}{
		{"ended", all.ended, "archive complete", "created transitioned archived", 0},
		{"stuck", all.stuck, "live error", "created transitioned task_staleness_detected transitioned dead_lettered", 1},
		{"healthy", all.healthy, "live pending", "created", 0},
	} {
		none(c.name+" task is not where it must be", `select id || ' in ' || coalesce(string_agg(concat_ws(' ', case when a.archived then 'archive' else 'live' end, a.state), ' and '), 'nowhere')
			from unnest($1::uuid[]) id left join postrider.tasker_all_tasks a on a.task_uuid = id group by id
			having string_agg(concat_ws(' ', case when a.archived then 'archive' else 'live' end, a.state), ' and ') is distinct from $2`, c.ids, c.where)
		none(c.name+" task lacks steps or history", `select id::text from unnest($1::uuid[]) id where
			(select count(*) from (select from postrider.tasker_workflow_steps s where s.task_uuid = id union all select from postrider.tasker_workflow_steps_archive s where s.task_uuid = id) s) <> 2
			or (select count(*) from (select from postrider.tasker_workflow_step_transitions s where s.task_uuid = id union all select from postrider.tasker_workflow_step_transitions_archive s where s.task_uuid = id) s) <> 2
			or (select string_agg(x.sort_key::text, ' ' order by x.sort_key) from (select sort_key from postrider.tasker_task_transitions x where x.task_uuid = id
				union all select sort_key from postrider.tasker_task_transitions_archive x where x.task_uuid = id) x)
			is distinct from (select string_agg(n::text, ' ' order by n) from postrider.tasker_all_tasks a, generate_series(1, a.sort_key) n where a.task_uuid = id)`, c.ids)
		none(c.name+" task has other events", `select task.id || ': ' || coalesce(e.types, 'none') from unnest($1::uuid[]) task(id) cross join lateral (
			select string_agg(split_part((select h->>1 from jsonb_array_elements(o.headers) h where h->>0 = 'ce_type'), '.', 3), ' ' order by o.id) as types
			from postrider.outbox_event o where o.key = convert_to(task.id::text, 'UTF8')) e where e.types is distinct from $2`, c.ids, c.events)
		none(c.name+" task has other investigations", `select id || ': ' || count(e.*) from unnest($1::uuid[]) id
			left join postrider.dlq_entry e on e.subject_type = 'task' and e.subject_id = id::text and e.resolution_status = 'pending' and e.occurrences = 1
			group by id having count(e.*) <> $2`, c.ids, c.investigations)
	}
	none("investigation is about something else", `select dlq_entry_uuid::text from postrider.dlq_entry where not subject_id = any ($1::text[])`, texts(all.stuck))
	none("row is in both places", `select workflow_step_uuid::text from postrider.tasker_workflow_steps join postrider.tasker_workflow_steps_archive using (workflow_step_uuid)
		union all select task_uuid::text from postrider.tasker_tasks join postrider.tasker_tasks_archive using (task_uuid)`)
	var tasks int
	if err := pool.QueryRow(ctx, `select count(*) from postrider.tasker_all_tasks`).Scan(&tasks); err != nil || tasks != len(all.ended)+len(all.stuck)+len(all.healthy) {
		t.Errorf("there are %d tasks, %v", tasks, err)
	}
	var counted int
	if err := pool.QueryRow(ctx, `select sum(tasks_archived) from postrider.v_archive_statistics`).Scan(&counted); err != nil || counted != len(all.ended) {
		t.Errorf("the statistics count %d archived tasks, %v", counted, err)
	}
}

func texts(ids []uuid.UUID) []string {
	out := make([]string, len(ids))
	for i, id := range ids {
		out[i] = id.String()
	}
	return out
}

package postgres_test

import (
	"encoding/json"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/tasks/ledger"
	"github.com/postrider/postrider/internal/tasks/ledgertest"
	"github.com/postrider/postrider/internal/tasks/postgres"
)

// effort is what a call read.
type effort struct {
	// found is what it returned, seqScans how often it walked over all of tasker_tasks, fetched how many tasks
	// it read along indexes.
	found, seqScans, fetched int
	// blocks are pages of all tables and indexes.
	blocks int
}

// effortOf makes one call and takes it back.
func (f *fixture) effortOf(d ledger.Detection) effort {
	f.t.Helper()
	conn := f.db.Conn(f.t)
	var e effort
	// The first call of a session reads the catalog.
	_, err := postgres.On(conn).DetectStale(f.t.Context(), ledger.Detection{DryRun: true, BatchSize: 1})
	f.must(err)
	tx, err := conn.Begin(f.t.Context())
	f.must(err)
	defer func() { _ = tx.Rollback(f.t.Context()) }()
	// What the session did before may be counted too.
	count := func() (seqScans, fetched int) {
		f.must(tx.QueryRow(f.t.Context(), `select seq_scan, coalesce(idx_tup_fetch, 0) from pg_stat_xact_user_tables where relname = 'tasker_tasks'`).Scan(&seqScans, &fetched))
		return seqScans, fetched
	}
	scansBefore, fetchedBefore := count()
	found, err := postgres.On(tx).DetectStale(f.t.Context(), d)
	f.must(err)
	e.found = len(found)
	e.seqScans, e.fetched = count()
	e.seqScans, e.fetched = e.seqScans-scansBefore, e.fetched-fetchedBefore
	f.must(tx.Rollback(f.t.Context()))
	tx, err = conn.Begin(f.t.Context())
	f.must(err)
	var plan []byte
	f.must(tx.QueryRow(f.t.Context(), `explain (analyze, buffers, format json, costs off, timing off)
		select * from postrider.detect_and_transition_stale_tasks($1, $2)`, pgx.QueryExecModeExec, d.DryRun, d.BatchSize).Scan(&plan))
	var read []struct {
		Plan struct {
			Hit  int `json:"Shared Hit Blocks"`
			Read int `json:"Shared Read Blocks"`
		}
	}
	f.must(json.Unmarshal(plan, &read))
	e.blocks = read[0].Plan.Hit + read[0].Plan.Read
	f.must(tx.Rollback(f.t.Context()))
	return e
}

// healthy writes n tasks over 20 templates and 4 states that are not stale.
func (f *fixture) healthy(n int) {
	f.t.Helper()
	f.exec(`
		insert into postrider.tasker_tasks (named_task_uuid, state, live, state_entered_at, created_at)
		select t.uuids[1 + i % 20], (array['pending', 'steps_in_process', 'waiting_for_dependencies', 'waiting_for_retry'])[1 + i / 20 % 4], true,
			clock_timestamp() - i % 600 * interval '1 second', clock_timestamp() - i % 3600 * interval '1 second'
		from generate_series(1, $1::int) i, (select array_agg(named_task_uuid order by name) as uuids from postrider.tasker_named_tasks) t`, n)
}

// TestDetectionReadsOnlyTheStale: whatever the statistics say, a pass walks along the indexes made for it, and
// what it reads does not grow with the healthy tasks.
func TestDetectionReadsOnlyTheStale(t *testing.T) {
	t.Parallel()
	for name, prepare := range map[string][]string{
		"no statistics":                nil,
		"statistics of an empty table": {`analyze postrider.tasker_tasks`},
		"statistics of ended tasks": {
			`insert into postrider.tasker_tasks (named_task_uuid, state, live) select named_task_uuid, 'complete', false from postrider.tasker_named_tasks, generate_series(1, 500)`,
			`analyze postrider.tasker_tasks`},
		"statistics of flagged tasks of one template": {
			`insert into postrider.tasker_tasks (named_task_uuid, state, live, state_entered_at, created_at, stale_flagged_at, stale_rule)
				select min(named_task_uuid::text)::uuid, 'pending', true, now() - interval '3 days', now() - interval '3 days', now(), 'state 1440, lifetime 1440: move_to_dlq'
				from postrider.tasker_named_tasks, generate_series(1, 5000) i group by i`,
			`analyze postrider.tasker_tasks`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			f.exec(`alter table postrider.tasker_tasks set (autovacuum_enabled = off)`)
			for i := range 20 {
				ledgertest.Apply(t, f.pool, ledgertest.Template{Name: "t-" + string(rune('a'+i))})
			}
			for _, sql := range prepare {
				f.exec(sql)
			}
			d := ledger.DefaultDetection()
			f.healthy(2000)
			few := f.effortOf(d)
			f.healthy(20_000)
			many := f.effortOf(d)
			t.Logf("2,000 healthy tasks: %+v; 22,000: %+v", few, many)
			if few.found != 0 || many.found != 0 {
				t.Fatal("healthy tasks are found")
			}
			// One task is read for each of the 80 states of templates, one for each of the 20 templates by each of the two
			// walks, and one for each template and state with flagged tasks.
			if many.seqScans != 0 || many.fetched > 2*20+80+2 || many.blocks > 2*few.blocks {
				t.Errorf("2,000 healthy tasks cost %+v, 22,000 cost %+v", few, many)
			}

			f.exec(`update postrider.tasker_tasks set state_entered_at = clock_timestamp() - interval '2 days' where task_uuid in
				(select task_uuid from postrider.tasker_tasks where live and stale_flagged_at is null order by task_uuid limit 30)`)
			for _, dry := range []bool{true, false} {
				d.DryRun = dry
				stale := f.effortOf(d)
				t.Logf("30 of them stale, dry run %v: %+v", dry, stale)
				// Each stale task is read to be found, looked at, changed, referred to by its history, and put into its letter.
				if stale.found != 30 || stale.seqScans != 0 || stale.fetched > many.fetched+30*5 {
					t.Errorf("with 30 stale tasks, dry run %v: %+v", dry, stale)
				}
			}
		})
	}
}

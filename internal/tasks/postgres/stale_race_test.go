package postgres_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/tasks/ledger"
	"github.com/postrider/postrider/internal/tasks/ledgertest"
	"github.com/postrider/postrider/internal/tasks/postgres"
)

// many writes n tasks of a template that are past the threshold of steps_in_process.
func (f *fixture) many(template string, n int) {
	f.t.Helper()
	f.exec(`
		with t as (
			insert into postrider.tasker_tasks (named_task_uuid, state, live, state_entered_at, sort_key, created_at)
			select named_task_uuid, 'steps_in_process', true, clock_timestamp() - interval '1 hour' - i * interval '1 ms', 1, clock_timestamp() - interval '2 hours'
			from postrider.tasker_named_tasks, generate_series(1, $2::int) i where name = $1
			returning task_uuid)
		insert into postrider.tasker_task_transitions (task_uuid, to_state, sort_key, most_recent) select task_uuid, 'steps_in_process', 1, true from t`, template, n)
}

// Several detectors at once: each task is one's, nothing is missed, nothing is written twice.
func TestDetectorsShareTheWork(t *testing.T) {
	t.Parallel()
	const tasks, detectors = 2000, 4
	f := newFixture(t)
	f.template("x", "{}")
	f.many("x", tasks)
	d := ledger.DefaultDetection()
	d.BatchSize = 50
	var mu sync.Mutex
	seen := map[uuid.UUID]int{}
	var wg sync.WaitGroup
	for range detectors {
		conn := f.db.Conn(t)
		wg.Go(func() {
			// A batch that is empty may only mean that the others have the rest in hand.
			for {
				found, err := postgres.On(conn).DetectStale(t.Context(), d)
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				for _, s := range found {
					seen[s.TaskUUID]++
				}
				all := len(seen)
				mu.Unlock()
				if len(found) == 0 && all >= tasks-detectors*d.BatchSize {
					return
				}
			}
		})
	}
	wg.Wait()
	for _, s := range f.detect(d) {
		t.Errorf("left behind: %+v", s)
	}
	for id, n := range seen {
		if n != 1 {
			t.Errorf("task %s was found %d times", id, n)
		}
	}
	if len(seen) != tasks {
		t.Errorf("%d tasks were found, want %d", len(seen), tasks)
	}
	got := f.answer(`select concat_ws(' ', (select count(*) from postrider.tasker_tasks where state = 'error' and sort_key = 2),
		(select count(*) from postrider.tasker_task_transitions where most_recent and to_state = 'error'), (select count(*) from postrider.tasker_task_transitions),
		(select count(*) from postrider.outbox_event), (select count(distinct idempotency_key) from postrider.outbox_event))`)
	if want := fmt.Sprintf("%d %d %d %d %d", tasks, tasks, 2*tasks, 3*tasks, tasks); got != want {
		t.Errorf("moved, new transitions, transitions, events, letters: %s, want %s", got, want)
	}
}

// A task that a service has locked is passed over, and found when it is free, if it still is stale.
func TestLockedTaskIsFoundLater(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.template("x", "{}")
	kept, moved, free := f.stuck("x", "steps_in_process", time.Hour), f.stuck("x", "steps_in_process", time.Hour), f.stuck("x", "steps_in_process", time.Hour)
	old := f.stuck("x", "pending", 25*time.Hour)
	tx, err := f.pool.Begin(t.Context())
	f.must(err)
	defer func() { _ = tx.Rollback(t.Context()) }()
	_, err = tx.Exec(t.Context(), `select from postrider.tasker_tasks where task_uuid = any ($1) for update`, []uuid.UUID{kept, moved, old})
	f.must(err)
	if found := f.detect(ledger.DefaultDetection()); len(found) != 1 || found[free].TaskUUID != free {
		t.Errorf("while three are locked: %+v", found)
	}
	if found := f.detect(func() ledger.Detection { d := ledger.DefaultDetection(); d.DryRun = true; return d }()); len(found) != 3 {
		t.Errorf("a dry run does not wait and sees all, but saw %+v", found)
	}
	_, err = postgres.On(tx).Transition(t.Context(), moved, "steps_in_process", "evaluating_results", nil)
	f.must(err)
	f.must(tx.Commit(t.Context()))
	found := f.detect(ledger.DefaultDetection())
	f.foundBy(found, kept, 30, "state", "default")
	f.foundBy(found, old, 1440, "state", "default")
	if len(found) != 2 {
		t.Errorf("found %+v", found)
	}
	f.in(moved, "evaluating_results")
}

// A dry run locks no row: a session that wants one does not wait for it.
func TestDryRunLocksNothing(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.template("x", "{}")
	id := f.stuck("x", "steps_in_process", time.Hour)
	tx, err := f.pool.Begin(t.Context())
	f.must(err)
	defer func() { _ = tx.Rollback(t.Context()) }()
	d := ledger.DefaultDetection()
	d.DryRun = true
	found, err := postgres.On(tx).DetectStale(t.Context(), d)
	f.must(err)
	if len(found) != 1 || found[0].MovedToDLQ || found[0].TransitionSuccess || found[0].ActionTaken != ledger.StaleMovedToDLQ {
		t.Errorf("%+v", found)
	}
	f.must(pgx.BeginFunc(t.Context(), f.pool, func(other pgx.Tx) error {
		_, err := other.Exec(t.Context(), `select from postrider.tasker_tasks where task_uuid = $1 for update nowait`, id)
		return err
	}))
	var xid *string
	f.must(tx.QueryRow(t.Context(), `select pg_current_xact_id_if_assigned()::text`).Scan(&xid))
	if xid != nil {
		t.Error("a dry run is a writing transaction")
	}
}

// Calls begin at different templates, so that detectors that work at once seldom want the same tasks; and going around
// each call finds them all.
func TestCallsBeginAtDifferentTemplates(t *testing.T) {
	t.Parallel()
	const templates, each = 8, 5
	f := newFixture(t)
	for i := range templates {
		name := fmt.Sprint("t", i)
		f.template(name, "{}")
		f.many(name, each)
	}
	d := ledger.DefaultDetection()
	first := func(batch int) (names map[string]int) {
		t.Helper()
		tx, err := f.pool.Begin(t.Context())
		f.must(err)
		defer func() { _ = tx.Rollback(t.Context()) }()
		d.BatchSize = batch
		found, err := postgres.On(tx).DetectStale(t.Context(), d)
		f.must(err)
		names = map[string]int{}
		for _, s := range found {
			names[s.TaskName]++
		}
		return names
	}
	began := map[string]int{}
	for range 40 {
		for name, n := range first(each) {
			began[name] += n
		}
	}
	if len(began) < 3 {
		t.Errorf("of 40 calls all began at %v", began)
	}
	if all := first(templates*each + 1); len(all) != templates {
		t.Errorf("one call that may have all found %v", all)
	}
}

// A pass that is rolled back leaves nothing.
func TestDetectionRollsBack(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.template("x", "{}")
	id := f.stuck("x", "steps_in_process", time.Hour)
	before := f.everything(id, "0")
	tx, err := f.pool.Begin(t.Context())
	f.must(err)
	_, err = postgres.On(tx).DetectStale(t.Context(), ledger.DefaultDetection())
	f.must(err)
	f.must(tx.Rollback(t.Context()))
	if after := f.everything(id, "0"); after != before {
		t.Errorf("left behind:\n%s", difference(after, before))
	}
	if n := len(ledgertest.Letters(t, f.pool, id)); n != 0 {
		t.Errorf("%d letters", n)
	}
	if len(f.detect(ledger.DefaultDetection())) != 1 {
		t.Error("it is not found any more")
	}
}

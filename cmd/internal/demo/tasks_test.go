package demo

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/postrider/postrider/internal/tasks/ledgertest"
	"github.com/postrider/postrider/internal/testenv/pgtest"
)

func newDemo(t *testing.T) (*Demo, *pgxpool.Pool) {
	t.Helper()
	pool := pgtest.New(t).Pool(t)
	d, err := New(t.Context(), Config{Pool: pool, Out: &strings.Builder{}})
	if err != nil {
		t.Fatal(err)
	}
	return d, pool
}

// Most tasks are finished, a lost parcel's gets stale and is found, a broken one's spends its retries; both are
// dead-lettered.
func TestWarehouse(t *testing.T) {
	t.Parallel()
	d, pool := newDemo(t)
	w := d.warehouse
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	const wanted = 14 // numbers 3 and 13 are lost, number 7 is broken
	const open = `select count(*) from postrider.tasker_tasks where live and not (context->>'carrier' = 'lost' and exists (
		select from postrider.tasker_workflow_steps s where s.task_uuid = tasker_tasks.task_uuid and s.step_name = 'ship' and s.status = 'in_progress'))`
	for w.created.Load() < wanted || count(t, pool, open) > 0 {
		if w.created.Load() == wanted {
			w.rounds = 1 // no more tasks
		}
		if err := w.runOnce(ctx); err != nil {
			t.Fatal(err)
		}
	}
	for len(w.inHand) > 0 {
		w.rounds = 1
		if err := w.runOnce(ctx); err != nil {
			t.Fatal(err)
		}
	}
	if got := w.finished.Load(); got != wanted-3 {
		t.Errorf("%d of %d tasks are finished, want all but 3", got, wanted)
	}
	if _, err := pool.Exec(ctx, `select postrider.detect_and_transition_stale_tasks(false)`); err != nil {
		t.Fatal(err)
	}
	for query, want := range map[string]int{
		`select count(*) from postrider.tasker_tasks where state = 'complete'`:                                                                     wanted - 3,
		`select count(*) from postrider.tasker_tasks where state = 'error' and context->>'carrier' = 'lost'`:                                       2,
		`select count(*) from postrider.tasker_tasks where state = 'error' and context->>'carrier' = 'broken'`:                                     1,
		`select count(*) from postrider.tasker_workflow_steps where status = 'error' and retry_count = 2 and last_error like 'the carrier%'`:       1,
		`select count(*) from postrider.outbox_event where topic = 'postrider.dlq' and idempotency_key like 'task:%:staleness_timeout'`:            2,
		`select count(*) from postrider.outbox_event where topic = 'postrider.dlq' and idempotency_key like 'task:%:max_retries_exceeded'`:         1,
		`select count(*) from postrider.tasker_workers where worker = 'warehouse'`:                                                                 1,
		`select count(*) from postrider.tasker_named_tasks where name = 'ship_order'`:                                                              1,
		`select count(*) from postrider.tasker_tasks where created_at < now() - interval '1 hour' and context->>'carrier' is distinct from 'lost'`: 0,
	} {
		if got := count(t, pool, query); got != want {
			t.Errorf("%s: %d, want %d", query, got, want)
		}
	}
	if _, err := New(ctx, Config{Pool: pool, Out: &strings.Builder{}}); err != nil {
		t.Errorf("a second start on the same data: %v", err)
	}
}

// When a person changes a task in the hands of the warehouse, the warehouse goes on.
func TestWarehouseGoesOn(t *testing.T) {
	t.Parallel()
	d, pool := newDemo(t)
	w := d.warehouse
	if err := w.runOnce(t.Context()); err != nil {
		t.Fatal(err)
	}
	if len(w.inHand) != 1 {
		t.Fatalf("%d steps in hand", len(w.inHand))
	}
	first := w.inHand[0].task
	if _, err := pool.Exec(t.Context(), `select postrider.cancel_task($1, 'ann', 'not needed')`, first); err != nil {
		t.Fatal(err)
	}
	for range createEvery {
		if err := w.runOnce(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if got := ledgertest.State(t, pool, first); got != "cancelled" || w.created.Load() != 2 {
		t.Errorf("the task is %s, %d were created", got, w.created.Load())
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := w.runOnce(ended); !errors.Is(err, context.Canceled) {
		t.Errorf("an error of the database: %v", err)
	}
}

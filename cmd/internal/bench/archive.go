package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/postrider/postrider/internal/loop"
	"github.com/postrider/postrider/internal/tasks/ledger"
	ledgerpostgres "github.com/postrider/postrider/internal/tasks/postgres"
)

const (
	// probeTasks are the live tasks that the probe reads and changes.
	probeTasks = 1000
)

// archive measures how fast ended tasks are archived, what others wait for meanwhile, and how long the views for
// dashboards take with many tasks.
func archive(ctx context.Context, r *rig, b *broker, t *table) error {
	var alone, beside []probeSample
	var rates, batches []float64
	for range r.o.runs {
		quiet, busy, rate, batch, err := r.archiveOnce(ctx)
		if err != nil {
			return err
		}
		alone, beside, rates, batches = append(alone, quiet), append(beside, busy), append(rates, rate), append(batches, batch)
		r.say("archive: %.0f tasks/s, longest wait of others %.1f ms (%.1f ms without)", rate, busy.longest, quiet.longest)
	}
	cells := func(of []probeSample) []cell {
		return []cell{{Name: "others' longest wait ms", Runs: pick(of, func(s probeSample) float64 { return s.longest })},
			{Name: "p99 ms", Runs: pick(of, func(s probeSample) float64 { return s.p99 })}}
	}
	t.add(b, fmt.Sprintf("%d tasks archived", r.o.archiveTasks), fmt.Sprintf("transactions of %d, rests of %v after 1000", ledger.MaxArchiveTransaction, r.o.archivePause),
		append([]cell{{Name: "tasks/s", Runs: rates}, {Name: "longest batch ms", Runs: batches}}, cells(beside)...)...)
	t.add(b, "nothing archived", "", cells(alone)...)
	t.note("Each archived task has 4 steps, 8 transitions and 12 changes of steps. Others are a client that reads a live task and moves another to its next state, each in a transaction that is on disk when it ends.")
	return r.archiveViews(ctx, b, t)
}

// probeSample is what the other client waited for.
type probeSample struct{ longest, p99 float64 }

// archiveOnce runs the probe alone, and then beside an archiver.
func (r *rig) archiveOnce(ctx context.Context) (alone, beside probeSample, rate, batch float64, err error) {
	d, err := r.newDatabase(ctx, "bench_archive", true)
	if err != nil {
		return alone, beside, 0, 0, err
	}
	defer d.drop()
	if err := d.loadTasks(ctx, r.o.archiveTasks, probeTasks); err != nil {
		return alone, beside, 0, 0, err
	}
	if alone, err = d.probe(ctx, func(ctx context.Context) error { return loop.Sleep(ctx, 3*time.Second) }); err != nil {
		return alone, beside, 0, 0, err
	}
	pool, err := pgxpool.New(ctx, d.url)
	if err != nil {
		return alone, beside, 0, 0, err
	}
	defer pool.Close()
	store := &timedArchive{ArchiveStore: ledgerpostgres.NewArchive(pool)}
	var took time.Duration
	beside, err = d.probe(ctx, func(ctx context.Context) error {
		began := time.Now()
		got, err := ledger.Archive(ctx, store, ledger.ArchiveOptions{RetentionDays: 30, Pause: r.o.archivePause})
		took = time.Since(began)
		if err == nil && got.Tasks != r.o.archiveTasks {
			err = fmt.Errorf("archived %d tasks of %d", got.Tasks, r.o.archiveTasks)
		}
		return err
	})
	return alone, beside, float64(r.o.archiveTasks) / took.Seconds(), milliseconds(store.longest), err
}

// timedArchive notes the longest batch.
type timedArchive struct {
	ledger.ArchiveStore
	longest time.Duration
}

func (a *timedArchive) ArchiveBatch(ctx context.Context, s ledger.ArchiveStep) (ledger.ArchivedBatch, error) {
	began := time.Now()
	b, err := a.ArchiveStore.ArchiveBatch(ctx, s)
	a.longest = max(a.longest, time.Since(began))
	return b, err
}

// probe reads and changes live tasks, one after the other, while work is done.
func (d *database) probe(ctx context.Context, work func(context.Context) error) (probeSample, error) {
	conn, err := pgx.Connect(ctx, d.url)
	if err != nil {
		return probeSample{}, err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	rows, err := conn.Query(ctx, `select task_uuid from postrider.tasker_tasks where live limit $1`, probeTasks)
	if err != nil {
		return probeSample{}, err
	}
	tasks, err := pgx.CollectRows(rows, pgx.RowTo[uuid.UUID])
	if err != nil {
		return probeSample{}, err
	}
	var waits histogram
	done := make(chan struct{})
	var failure error
	var wg sync.WaitGroup
	wg.Go(func() {
		rng := rand.New(rand.NewPCG(1, 1))
		for {
			select {
			case <-done:
				return
			default:
			}
			began := time.Now()
			if failure = change(ctx, conn, tasks[rng.IntN(len(tasks))], tasks[rng.IntN(len(tasks))]); failure != nil {
				return
			}
			waits.add(time.Since(began))
			if failure = loop.Sleep(ctx, time.Millisecond); failure != nil {
				return
			}
		}
	})
	err = work(ctx)
	close(done)
	wg.Wait()
	return probeSample{longest: waits.quantile(1), p99: waits.quantile(0.99)}, errors.Join(err, failure)
}

// change reads one task and moves another to and fro.
func change(ctx context.Context, conn *pgx.Conn, read, move uuid.UUID) error {
	var state string
	if err := conn.QueryRow(ctx, `select state from postrider.tasker_tasks where task_uuid = $1`, read).Scan(&state); err != nil {
		return err
	}
	_, err := conn.Exec(ctx, `select postrider.transition_task_state_atomic(task_uuid, state,
			case state when 'steps_in_process' then 'evaluating_results' else 'steps_in_process' end)
		from postrider.tasker_tasks where task_uuid = $1`, move)
	return err
}

// archiveViews measures the views with many live tasks, from their summaries and without.
func (r *rig) archiveViews(ctx context.Context, b *broker, t *table) error {
	d, err := r.newDatabase(ctx, "bench_views", true)
	if err != nil {
		return err
	}
	defer d.drop()
	r.say("archive: loading %d live tasks and %d investigations", r.o.viewTasks, r.o.viewTasks/10)
	if err := d.loadViews(ctx, r.o.viewTasks); err != nil {
		return err
	}
	timed := func(name, how, sql string) error {
		var runs []float64
		for range max(5, r.o.runs) {
			ms, err := d.timed(ctx, sql)
			if err != nil {
				return err
			}
			runs = append(runs, ms)
		}
		t.add(b, name, how, cell{Name: "ms", Runs: runs})
		return nil
	}
	if err := timed("v_archive_statistics", "always exact", "select * from postrider.v_archive_statistics"); err != nil {
		return err
	}
	for _, view := range []string{"v_dlq_dashboard", "v_task_staleness_monitoring"} {
		if err := timed(view, "no summary: counted at once", "select * from postrider."+view); err != nil {
			return err
		}
	}
	if err := timed("the summaries renewed", "once a minute, by one process", "select postrider.refresh_dashboards()"); err != nil {
		return err
	}
	for _, view := range []string{"v_dlq_dashboard", "v_task_staleness_monitoring"} {
		if err := timed(view, "summary of at most 5 minutes", "select * from postrider."+view); err != nil {
			return err
		}
	}
	t.note("The views are of %d live tasks of 50 templates in 8 states, %d archived tasks and %d investigations with a letter each.", r.o.viewTasks, r.o.viewTasks, r.o.viewTasks/10)
	return nil
}

// timed runs a query to its end and returns how long that took, in milliseconds.
func (d *database) timed(ctx context.Context, sql string) (float64, error) {
	began := time.Now()
	rows, err := d.conn.Query(ctx, sql)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", sql, err)
	}
	for rows.Next() {
	}
	if err := rows.Err(); err != nil {
		return 0, fmt.Errorf("%s: %w", sql, err)
	}
	return milliseconds(time.Since(began)), nil
}

package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/postrider/postrider/internal/tasks/ledger"
	"github.com/postrider/postrider/internal/tasks/postgres"
)

const (
	// emptyPasses are made in each run; their median counts.
	emptyPasses = 25
	// staleTemplates are the templates of the tasks, each with tasks in four states.
	staleTemplates = 100
)

// staleSide is a database with so many healthy tasks.
type staleSide struct {
	healthy int
	empty   []float64 // milliseconds of a pass that finds nothing
	cold    []float64 // of the first of a connection
	one     []float64 // seconds until all stale tasks are dealt with, by one detector
	longest []float64 // milliseconds of its longest batch
	many    []float64 // seconds, by several
	*database
}

// stale measures what it costs to find nothing, and how long it takes to find, move and dead-letter many stale
// tasks, while more and more healthy ones are there; and whether several detectors get in each other's way.
func stale(ctx context.Context, r *rig, b *broker, t *table) error {
	var sides []*staleSide
	defer func() {
		for _, s := range sides {
			s.drop()
		}
	}()
	for i, healthy := range r.o.staleHealthy {
		s := &staleSide{healthy: healthy}
		var err error
		if s.database, err = r.newDatabase(ctx, fmt.Sprintf("bench_stale_%d", i), true); err != nil {
			return err
		}
		sides = append(sides, s)
		r.say("stale: preparing %d healthy tasks", healthy)
		if err := s.loadHealthy(ctx); err != nil {
			return err
		}
	}
	for range r.o.runs {
		for i, s := range sides {
			// Several detectors are measured in one size only.
			if err := s.run(ctx, i == min(1, len(sides)-1)); err != nil {
				return fmt.Errorf("%d healthy tasks: %w", s.healthy, err)
			}
			r.say("stale: %d healthy tasks: nothing found in %.1f ms, %d stale dealt with in %.2f s", s.healthy, s.empty[len(s.empty)-1], r.o.staleTasks, s.one[len(s.one)-1])
		}
	}
	settings := fmt.Sprintf("batches of %d, 2 at once", ledger.DefaultDetection().BatchSize)
	for i, s := range sides {
		cells := []cell{{Name: "pass ms", Runs: s.empty}, {Name: "first of a connection ms", Runs: s.cold}}
		if i > 0 {
			cells = append(cells, cell{Name: "pass, of the smallest", Runs: paired(s.empty, sides[0].empty)})
		}
		t.add(b, fmt.Sprintf("%d healthy, none stale", s.healthy), settings, cells...)
	}
	for i, s := range sides {
		cells := []cell{{Name: "all passes s", Runs: s.one}, {Name: "longest batch ms", Runs: s.longest}}
		if i > 0 {
			cells = append(cells, cell{Name: "passes, of the smallest", Runs: paired(s.one, sides[0].one)})
		}
		t.add(b, fmt.Sprintf("%d healthy, %d stale", s.healthy, r.o.staleTasks), settings, cells...)
		if len(s.many) > 0 {
			t.add(b, fmt.Sprintf("%d healthy, %d stale, %d detectors", s.healthy, r.o.staleTasks, r.o.staleDetectors), settings,
				cell{Name: "all passes s", Runs: s.many}, cell{Name: "throughput, of one", Runs: paired(s.one, s.many)})
		}
	}
	t.note("Tasks are of %d templates, each with tasks in four states. A stale task has 4 steps and 3 transitions; it is moved to error, its dead letter has all that, and two lifecycle events are written. Nothing is analysed.", staleTemplates)
	return nil
}

// loadHealthy writes templates and tasks that are not stale.
func (s *staleSide) loadHealthy(ctx context.Context) error {
	if err := s.exec(ctx,
		`alter table postrider.tasker_tasks set (autovacuum_enabled = off)`,
		`insert into postrider.tasker_task_namespaces (name) values ('bench')`,
		fmt.Sprintf(`insert into postrider.tasker_named_tasks (task_namespace_uuid, name, version, configuration, state_machine_id)
			select n.task_namespace_uuid, 'template_' || i, '1.0.0',
				'{"lifecycle": {"max_steps_in_process_minutes": 45}, "steps": [{"name": "step_1"}, {"name": "step_2"}, {"name": "step_3"}, {"name": "step_4"}]}', m.state_machine_id
			from postrider.tasker_task_namespaces n, postrider.tasker_state_machines m, generate_series(1, %d) i where n.name = 'bench' and m.name = 'workflow'`, staleTemplates)); err != nil {
		return err
	}
	return s.bulk(ctx, func() error {
		_, err := s.conn.Exec(ctx, `
			insert into postrider.tasker_tasks (named_task_uuid, state, live, state_entered_at, sort_key, created_at, context)
			select t.uuids[1 + i % cardinality(t.uuids)], (array['pending', 'steps_in_process', 'waiting_for_dependencies', 'waiting_for_retry'])[1 + i / cardinality(t.uuids) % 4], true,
				clock_timestamp() + interval '1 hour' - i % 60 * interval '1 second', 3, clock_timestamp() + interval '1 hour' - i % 3600 * interval '1 second', '{"order": 42}'
			from generate_series(1, $1::int) i, (select array_agg(named_task_uuid) as uuids from postrider.tasker_named_tasks) t`, s.healthy)
		return err
	}, "postrider.tasker_tasks")
}

// loadStale writes the stale tasks, with steps and history, in the place of the tasks of the run before.
func (s *staleSide) loadStale(ctx context.Context) error {
	if err := s.exec(ctx,
		`truncate postrider.outbox_event, postrider.outbox_idempotency_key`,
		`delete from postrider.tasker_tasks where not live`); err != nil {
		return err
	}
	if _, err := s.conn.Exec(ctx, `
		with t as (
			insert into postrider.tasker_tasks (named_task_uuid, state, live, state_entered_at, sort_key, created_at, context)
			select t.uuids[1 + i % cardinality(t.uuids)], (array['steps_in_process', 'waiting_for_dependencies', 'waiting_for_retry'])[1 + i % 3], true,
				clock_timestamp() - interval '2 hours', 3, clock_timestamp() - interval '3 hours', '{"order": 42, "customer": "a customer of ours"}'
			from generate_series(1, $1::int) i, (select array_agg(named_task_uuid) as uuids from postrider.tasker_named_tasks) t
			returning task_uuid, state
		), steps as (
			insert into postrider.tasker_workflow_steps (task_uuid, step_name, handler_name, position, inputs, results, status)
			select task_uuid, 'step_' || n, 'handler_' || n, n, '{"amount": 100}', '{"ok": true}', case when n < 3 then 'complete' else 'pending' end from t, generate_series(1, 4) n
		)
		insert into postrider.tasker_task_transitions (task_uuid, from_state, to_state, sort_key, most_recent, metadata)
		select task_uuid, case when n > 1 then 'pending' end, state, n, n = 3, '{"actor": "bench"}' from t, generate_series(1, 3) n`, s.rig.o.staleTasks); err != nil {
		return err
	}
	return s.exec(ctx, `vacuum postrider.tasker_tasks`, `vacuum postrider.tasker_workflow_steps`, `vacuum postrider.tasker_task_transitions`, `checkpoint`)
}

// run measures once.
func (s *staleSide) run(ctx context.Context, several bool) error {
	if err := s.exec(ctx, `delete from postrider.tasker_tasks where not live`, `vacuum postrider.tasker_tasks`, `checkpoint`); err != nil {
		return err
	}
	if err := s.findNothing(ctx); err != nil {
		return err
	}
	took, longest, err := s.findAll(ctx, 1)
	if err != nil {
		return err
	}
	s.one, s.longest = append(s.one, took.Seconds()), append(s.longest, milliseconds(longest))
	if !several {
		return nil
	}
	if took, _, err = s.findAll(ctx, s.rig.o.staleDetectors); err != nil {
		return err
	}
	s.many = append(s.many, took.Seconds())
	return nil
}

// findNothing makes passes while nothing is stale.
func (s *staleSide) findNothing(ctx context.Context) error {
	conn, err := pgx.Connect(ctx, s.url)
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	var passes []float64
	for range emptyPasses {
		began := time.Now()
		found, err := postgres.On(conn).DetectStale(ctx, ledger.DefaultDetection())
		if err != nil {
			return err
		}
		if len(found) > 0 {
			return fmt.Errorf("%d healthy tasks were found to be stale", len(found))
		}
		passes = append(passes, milliseconds(time.Since(began)))
	}
	s.cold, s.empty = append(s.cold, passes[0]), append(s.empty, median(passes[1:]))
	return nil
}

// findAll has detectors work until nothing is stale, and looks whether each task was found, moved, told of and
// dead-lettered once.
func (s *staleSide) findAll(ctx context.Context, detectors int) (took, longest time.Duration, err error) {
	if err := s.loadStale(ctx); err != nil {
		return 0, 0, err
	}
	var wg sync.WaitGroup
	var errs []error
	stores := make([]*watchedStore, detectors)
	seen := &sightings{tasks: map[uuid.UUID]bool{}}
	for i := range stores {
		pool, err := pgxpool.New(ctx, s.url)
		if err != nil {
			return 0, 0, err
		}
		defer pool.Close()
		stores[i] = &watchedStore{Ledger: postgres.On(pool), seen: seen}
		if err := stores[i].warm(ctx); err != nil {
			return 0, 0, err
		}
	}
	began := time.Now()
	for _, store := range stores {
		wg.Go(func() { store.run(ctx) })
	}
	wg.Wait()
	for _, store := range stores {
		took, longest = max(took, store.ended.Sub(began)), max(longest, store.longest)
		errs = append(errs, store.errs...)
	}
	var moved, letters, events int
	if err := s.conn.QueryRow(ctx, `select (select count(*) from postrider.tasker_task_transitions where most_recent and to_state = 'error'),
		(select count(distinct idempotency_key) from postrider.outbox_event), (select count(*) from postrider.outbox_event)`).Scan(&moved, &letters, &events); err != nil {
		return 0, 0, err
	}
	if n := s.rig.o.staleTasks; len(seen.tasks) != n || moved != n || letters != n || events != 3*n {
		errs = append(errs, fmt.Errorf("of %d stale tasks %d were found, %d moved, %d dead-lettered, with %d events in all", n, len(seen.tasks), moved, letters, events))
	}
	return took, longest, errors.Join(errs...)
}

// sightings are the tasks that any detector found.
type sightings struct {
	mu    sync.Mutex
	tasks map[uuid.UUID]bool
}

// watchedStore is the store of one detector, which makes one pass on it.
type watchedStore struct {
	postgres.Ledger
	seen *sightings

	mu      sync.Mutex
	longest time.Duration
	errs    []error
	ended   time.Time
	stop    context.CancelFunc
}

// warm opens the connections, which are not new in a detector that has been there for a while.
func (w *watchedStore) warm(ctx context.Context) error {
	d := ledger.DefaultDetection()
	d.DryRun = true
	var wg sync.WaitGroup
	errs := make([]error, 2)
	for n := range errs {
		wg.Go(func() { _, errs[n] = w.Ledger.DetectStale(ctx, d) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

// run has a detector make one pass.
func (w *watchedStore) run(ctx context.Context) {
	ctx, w.stop = context.WithCancel(ctx)
	defer w.stop()
	d, err := ledger.NewDetector(ledger.DetectorConfig{Store: w})
	if err == nil {
		err = d.Run(ctx)
	}
	if err != nil {
		w.errs = append(w.errs, err)
	}
	if w.ended.IsZero() {
		w.errs = append(w.errs, errors.New("a detector did not come to the end of its pass"))
	}
}

func (w *watchedStore) DetectStale(ctx context.Context, d ledger.Detection) ([]ledger.StaleTask, error) {
	from := time.Now()
	found, err := w.Ledger.DetectStale(ctx, d)
	took := time.Since(from)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.longest = max(w.longest, took)
	if err != nil {
		w.errs = append(w.errs, err)
		w.stop()
	}
	w.seen.mu.Lock()
	defer w.seen.mu.Unlock()
	for _, f := range found {
		if w.seen.tasks[f.TaskUUID] {
			w.errs = append(w.errs, fmt.Errorf("task %s was found twice", f.TaskUUID))
		}
		w.seen.tasks[f.TaskUUID] = true
	}
	return found, err
}

func (w *watchedStore) RecordPass(context.Context, ledger.Pass) error {
	w.ended = time.Now()
	w.stop()
	return nil
}

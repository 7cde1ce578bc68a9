package postgres_test

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/tasks/ledger"
	"github.com/postrider/postrider/internal/tasks/ledgertest"
	"github.com/postrider/postrider/internal/tasks/postgres"
	"github.com/postrider/postrider/internal/testenv/pgtest"
)

// plainReady is what get_next_ready_tasks means, without any thought of what it costs: all that is due, not stale
// and not locked, by the formula.
const plainReady = `
	with c as materialized (select clock_timestamp() as now), due as (
		select k.*, k.priority * power(0.5::double precision, least(greatest(extract(epoch from c.now - k.created_at) / 60 / $3, 0), 1000)::double precision) as weight
		from postrider.tasker_tasks k
		cross join c
		join postrider.tasker_named_tasks n using (named_task_uuid)
		join postrider.tasker_task_namespaces ns using (task_namespace_uuid)
		where k.live and k.ready_at <= c.now and ($1::text is null or ns.name = $1)
		  and k.state_entered_at >= c.now - make_interval(mins => case k.state when 'pending' then 1440 when 'waiting_for_retry' then 30 else 60 end)
		  and coalesce(k.resumed_at, k.created_at) >= c.now - make_interval(mins => coalesce((n.configuration->'lifecycle'->>'max_duration_minutes')::integer, 1440))
		  and (k.state = 'pending' or exists (select from postrider.tasker_workflow_steps s where s.task_uuid = k.task_uuid))
		  and k.task_uuid <> all ($2::uuid[])
	)
	select task_uuid from due order by weight desc, created_at, task_uuid limit $4`

// disorder writes n tasks of three templates that differ in all that decides about their turn.
func (f *fixture) disorder(r *rand.Rand, n int, priorities []int) {
	f.t.Helper()
	var names []uuid.UUID
	for _, tpl := range []ledgertest.Template{{Name: "plain"}, {Name: "short", Configuration: `{"lifecycle": {"max_duration_minutes": 300}}`}, {Namespace: "other"}} {
		names = append(names, ledgertest.Apply(f.t, f.pool, tpl))
	}
	var now time.Time
	f.must(f.pool.QueryRow(f.t.Context(), "select clock_timestamp()").Scan(&now))
	// Half a minute from every border, and often the same time.
	ago := func(minutes int) time.Time { return now.Add(-time.Duration(minutes)*time.Minute - 30*time.Second) }
	var rows [][]any
	for range n {
		state, entered, created := pick(r, "pending", "pending", "waiting_for_dependencies", "waiting_for_retry"), ago(r.IntN(40)), ago(r.IntN(500))
		if r.IntN(20) == 0 {
			created = ago(r.IntN(1600))
		}
		ready, resumed, flagged := pick(r, &now, &now, &now, new(now.Add(time.Hour)), nil), pick(r, nil, nil, &now), (*time.Time)(nil)
		if r.IntN(30) == 0 {
			flagged = &now
		}
		// No two priorities weigh the same by chance, which rounding would decide anew at each moment.
		priority := pick(r, priorities...)
		created = created.Add(-time.Duration(priority) * time.Millisecond)
		if r.IntN(50) == 0 {
			// The clock was put back. Such a task keeps its weight while the others lose theirs: with a lower priority
			// its place would depend on the moment of the question.
			created, priority = now.Add(time.Hour), slices.Max(priorities)
		}
		rows = append(rows, []any{names[r.IntN(len(names))], state, true, entered, created, ready, resumed, flagged, priority})
	}
	_, err := f.pool.CopyFrom(f.t.Context(), pgx.Identifier{"postrider", "tasker_tasks"},
		[]string{"named_task_uuid", "state", "live", "state_entered_at", "created_at", "ready_at", "resumed_at", "stale_flagged_at", "priority"}, pgx.CopyFromRows(rows))
	f.must(err)
	f.exec(`insert into postrider.tasker_workflow_steps (task_uuid, step_name, position)
		select task_uuid, 'a', 0 from postrider.tasker_tasks where hashtext(task_uuid::text) % 5 <> 0`)
}

// TestReadyInTheOrderOfTheFormula: NextReady returns the same tasks as the plain formula, in the same order. This holds
// for few and many tasks and priorities, for every half life, and whatever other transactions have locked.
func TestReadyInTheOrderOfTheFormula(t *testing.T) {
	t.Parallel()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 1))
	var many []int
	for i := range 300 {
		many = append(many, i-20)
	}
	for _, c := range []struct {
		tasks      int
		priorities []int
	}{{300, []int{0, 5}}, {2500, []int{0}}, {2500, []int{7}}, {2500, []int{-3, 0, 0, 0, 1, 10, 1000}}, {2500, many}} {
		f := newFixture(t)
		f.disorder(r, c.tasks, c.priorities)
		for range 6 {
			q := ledger.ReadyQuery{Limit: pick(r, 1, 7, 10, 100, 400), Namespace: pick(r, "", "", "default", "other"), PriorityHalfLifeMinutes: pick(r, 1, 10, 60, 1000)}
			var locked []uuid.UUID
			other, err := f.pool.Begin(t.Context())
			f.must(err)
			if held := pick(r, 0, 0, 5, 150); held > 0 {
				ready, err := postgres.On(other).NextReady(t.Context(), ledger.ReadyQuery{Limit: held, PriorityHalfLifeMinutes: q.PriorityHalfLifeMinutes})
				f.must(err)
				for _, task := range ready {
					locked = append(locked, task.TaskUUID)
				}
			}
			want := pgtest.Column[uuid.UUID](t, f.pool, plainReady, ptrTo(q.Namespace), append([]uuid.UUID{}, locked...), q.PriorityHalfLifeMinutes, q.Limit)
			ready, err := f.NextReady(t.Context(), q)
			f.must(err)
			got := make([]uuid.UUID, len(ready))
			for i, task := range ready {
				got[i] = task.TaskUUID
			}
			f.must(other.Rollback(t.Context()))
			if !slices.Equal(got, want) {
				at := 0
				for at < min(len(got), len(want)) && got[at] == want[at] {
					at++
				}
				t.Errorf("%d tasks of %d priorities, %+v, %d locked: %d are ready, want %d; they differ from the %dth", c.tasks, len(c.priorities), q, len(locked), len(got), len(want), at+1)
			}
		}
	}
}

// ptrTo is nil for an empty text.
func ptrTo(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// TestReadyLooksAtTheFirstOnly: what it reads does not grow with the ready tasks, whatever the statistics say.
func TestReadyLooksAtTheFirstOnly(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.exec(`alter table postrider.tasker_tasks set (autovacuum_enabled = off)`)
	f.exec(`analyze postrider.tasker_tasks`)
	f.apply(`{}`)
	f.exec(`insert into postrider.tasker_tasks (named_task_uuid, state, live, ready_at, priority)
		select named_task_uuid, 'pending', true, now(), i % 7 - 2 from postrider.tasker_named_tasks, generate_series(1, 30000) i`)
	conn := f.db.Conn(t)
	tx, err := conn.Begin(t.Context())
	f.must(err)
	defer func() { _ = tx.Rollback(t.Context()) }()
	count := func() (scans, fetched int) {
		t.Helper()
		f.must(tx.QueryRow(t.Context(), `select seq_scan, coalesce(idx_tup_fetch, 0) from pg_stat_xact_user_tables where relname = 'tasker_tasks'`).Scan(&scans, &fetched))
		return scans, fetched
	}
	scansBefore, before := count()
	ready, err := postgres.On(tx).NextReady(t.Context(), ledger.ReadyQuery{})
	if err != nil || len(ready) != 10 || ready[0].Priority != 4 {
		t.Fatalf("ready are %+v, %v", ready, err)
	}
	// A thousand to see that there are many, a window of thirty of each of seven priorities, and the ten that are locked.
	scans, fetched := count()
	t.Logf("ten of 30,000 take %d reads", fetched-before)
	if scans != scansBefore || fetched-before > 1001+3*7*31+40 {
		t.Errorf("ten of 30,000 ready tasks take %d reads and %d scans", fetched-before, scans-scansBefore)
	}
}

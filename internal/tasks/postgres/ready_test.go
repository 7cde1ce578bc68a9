package postgres_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/tasks/ledger"
	"github.com/postrider/postrider/internal/tasks/ledgertest"
	"github.com/postrider/postrider/internal/tasks/postgres"
)

const twoSteps = `{"steps": [{"name": "a"}, {"name": "b", "dependencies": ["a"], "max_retries": 1}]}`

// TestReadyByPriority: priority decays with age; among equals the oldest goes first.
func TestReadyByPriority(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.apply(twoSteps)
	names := map[uuid.UUID]string{}
	create := func(name string, priority int, age time.Duration) {
		task := ledgertest.Create(t, f.pool, ledgertest.New{Priority: priority})
		ledgertest.Age(t, f.pool, task, age)
		names[task] = name
	}
	create("fresh, 10", 10, 0)
	create("an hour, 16", 16, time.Hour)
	create("two hours, 100", 100, 2*time.Hour)
	create("fresh, 0", 0, 0)
	create("a minute, 0", 0, time.Minute)
	create("fresh, -5", -5, 0)
	ready, err := f.NextReady(t.Context(), ledger.ReadyQuery{})
	f.must(err)
	var got []string
	for _, r := range ready {
		got = append(got, fmt.Sprintf("%s: %.0f", names[r.TaskUUID], r.ComputedPriority))
		if r.State != "pending" || r.ReadySteps != 1 || r.Namespace != "default" || r.Name != "task" {
			t.Errorf("a ready task is %+v", r)
		}
	}
	want := []string{"two hours, 100: 25", "fresh, 10: 10", "an hour, 16: 8", "a minute, 0: 0", "fresh, 0: 0", "fresh, -5: -5"}
	if !slices.Equal(got, want) {
		t.Errorf("ready are %q, want %q", got, want)
	}
	ready, err = f.NextReady(t.Context(), ledger.ReadyQuery{Limit: 1, PriorityHalfLifeMinutes: 15})
	if err != nil || len(ready) != 1 || names[ready[0].TaskUUID] != "fresh, 10" {
		t.Errorf("with a half life of 15 minutes the first is %+v, %v", ready, err)
	}
}

// TestReadyWhenTheClockIsPutBack: a task that was created, or came to its next step, while the clock was an hour ahead is
// handed out at once and not in an hour.
func TestReadyWhenTheClockIsPutBack(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.apply(twoSteps)
	begun, created := f.task(), f.task()
	f.do(begun, "a")
	for _, task := range []uuid.UUID{begun, created} {
		ledgertest.Age(t, f.pool, task, -time.Hour)
	}
	ready, err := f.NextReady(t.Context(), ledger.ReadyQuery{})
	f.must(err)
	if len(ready) != 2 {
		t.Errorf("ready are %+v, want %s and %s", ready, begun, created)
	}
}

// TestReadyIsWorkable, as a task goes its way.
func TestReadyIsWorkable(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.apply(twoSteps)
	task := f.task()
	ready := func(want int, when string) {
		t.Helper()
		got, err := f.NextReady(t.Context(), ledger.ReadyQuery{})
		f.must(err)
		steps, err := f.ReadySteps(t.Context(), task)
		f.must(err)
		if len(got) != min(want, 1) || len(steps) != want || want > 0 && got[0].ReadySteps != want {
			t.Errorf("%s ready are %+v with the steps %+v, want %d", when, got, steps, want)
		}
	}
	ready(1, "new")
	f.must(f.EnqueueStep(t.Context(), f.step(task, "a").UUID))
	ready(0, "with its step enqueued")
	f.do(task, "a")
	ready(1, "with the first step done")
	b := f.step(task, "b").UUID
	f.must(f.StartStep(t.Context(), b, ""))
	if _, err := f.FailStep(t.Context(), b, ledger.Failure{Error: "x", RetryAfter: time.Hour}); err != nil {
		t.Fatal(err)
	}
	ready(0, "before its retry is due")
	ledgertest.RetryNow(t, f.pool, task)
	ready(1, "with its retry due")
	f.fails(task, "b", "y")
	f.in(task, "error")
	ready(0, "failed")
	if _, err := f.Act(t.Context(), task, b, ledger.StepAction{Action: ledger.ActionResetRetryCount}); err != nil {
		t.Fatal(err)
	}
	ready(1, "with its retries reset")
	f.do(task, "b")
	ready(0, "complete")

	// A task without steps is ready until a worker begins it.
	ledgertest.Apply(t, f.pool, ledgertest.Template{Namespace: "plain", Name: "plain"})
	plain := ledgertest.Create(t, f.pool, ledgertest.New{Namespace: "plain", Name: "plain"})
	for state, want := range map[string]int{"pending": 1, "initializing": 0} {
		if f.state(plain) != state {
			ledgertest.Put(t, f.pool, plain, state)
		}
		if got, err := f.NextReady(t.Context(), ledger.ReadyQuery{}); err != nil || len(got) != want {
			t.Errorf("a task without steps in %s: ready are %+v, %v", state, got, err)
		}
		ledgertest.Put(t, f.pool, plain, "pending")
	}
}

// TestReadyIsLocked: two sessions share the ready tasks; the second passes over the tasks that the first has locked.
func TestReadyIsLocked(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.apply(twoSteps)
	tasks := map[uuid.UUID]bool{}
	for range 6 {
		tasks[f.task()] = true
	}
	take := func(n int) (pgx.Tx, []ledger.Ready) {
		t.Helper()
		tx, err := f.pool.Begin(t.Context())
		f.must(err)
		t.Cleanup(func() { _ = tx.Rollback(t.Context()) })
		ready, err := postgres.On(tx).NextReady(t.Context(), ledger.ReadyQuery{Limit: n})
		f.must(err)
		return tx, ready
	}
	first, mine := take(4)
	_, theirs := take(4)
	if len(mine) != 4 || len(theirs) != 2 {
		t.Fatalf("the sessions got %d and %d of 6", len(mine), len(theirs))
	}
	for _, r := range append(mine, theirs...) {
		if !tasks[r.TaskUUID] {
			t.Errorf("task %s was given twice", r.TaskUUID)
		}
		delete(tasks, r.TaskUUID)
	}
	f.must(first.Rollback(t.Context()))
	if _, again := take(10); len(again) != 4 {
		t.Errorf("after the first gave up, %d are there again", len(again))
	}
}

// TestReadyLeavesStaleOnesOut, by the template's threshold, the namespace's, or the one that was given.
func TestReadyLeavesStaleOnesOut(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	steps := `"steps": [{"name": "a"}]`
	for namespace, tpl := range map[string]ledgertest.Template{
		"default": {Configuration: `{` + steps + `}`},
		"strict":  {NamespaceLifecycle: `{"max_pending_minutes": 5}`, Configuration: `{` + steps + `}`},
		"patient": {NamespaceLifecycle: `{"max_pending_minutes": 5, "max_duration_minutes": 5}`,
			Configuration: `{` + steps + `, "lifecycle": {"max_pending_minutes": 3000, "max_duration_minutes": 3000}}`},
		"short": {Configuration: `{` + steps + `, "lifecycle": {"max_duration_minutes": 1.5}}`},
	} {
		tpl.Namespace = namespace
		ledgertest.Apply(t, f.pool, tpl)
	}
	for _, c := range []struct {
		namespace, state string
		age              time.Duration
		query            ledger.ReadyQuery
		ready            bool
	}{
		{"default", "pending", 23 * time.Hour, ledger.ReadyQuery{}, true},
		{"default", "pending", 25 * time.Hour, ledger.ReadyQuery{}, false},
		{"default", "pending", 25 * time.Hour, ledger.ReadyQuery{TaskMaxLifetimeHours: 48}, false}, // 1440 minutes in a state
		{"default", "pending", 3 * time.Hour, ledger.ReadyQuery{TaskMaxLifetimeHours: 2}, false},
		{"default", "waiting_for_dependencies", 59 * time.Minute, ledger.ReadyQuery{}, true},
		{"default", "waiting_for_dependencies", 61 * time.Minute, ledger.ReadyQuery{}, false},
		{"default", "waiting_for_dependencies", 61 * time.Minute, ledger.ReadyQuery{WaitingForDependenciesMinutes: 62}, true},
		{"default", "waiting_for_retry", 31 * time.Minute, ledger.ReadyQuery{}, false},
		{"default", "waiting_for_retry", 31 * time.Minute, ledger.ReadyQuery{WaitingForRetryMinutes: 32}, true},
		{"default", "steps_in_process", 31 * time.Minute, ledger.ReadyQuery{}, false},
		{"default", "steps_in_process", 31 * time.Minute, ledger.ReadyQuery{StepsInProcessMinutes: 32}, true},
		{"strict", "pending", 4 * time.Minute, ledger.ReadyQuery{}, true},
		{"strict", "pending", 6 * time.Minute, ledger.ReadyQuery{}, false},
		{"patient", "pending", 49 * time.Hour, ledger.ReadyQuery{}, true},
		{"patient", "pending", 51 * time.Hour, ledger.ReadyQuery{}, false},
		{"short", "pending", time.Minute, ledger.ReadyQuery{}, true},
		{"short", "pending", 2 * time.Minute, ledger.ReadyQuery{}, false},
	} {
		f.exec(`delete from postrider.tasker_tasks`)
		task := ledgertest.Create(t, f.pool, ledgertest.New{Namespace: c.namespace})
		if c.state != "pending" {
			ledgertest.Put(t, f.pool, task, c.state)
		}
		ledgertest.Age(t, f.pool, task, c.age)
		got, err := f.NextReady(t.Context(), c.query)
		if err != nil || (len(got) == 1) != c.ready {
			t.Errorf("%+v: ready are %+v, %v", c, got, err)
		}
	}
	// The thresholds alone decide: a flag that they do not uphold withholds no task.
	f.exec(`delete from postrider.tasker_tasks`)
	f.task()
	f.exec(`update postrider.tasker_tasks set stale_flagged_at = now(), stale_rule = 'of another day'`)
	if got, err := f.NextReady(t.Context(), ledger.ReadyQuery{}); err != nil || len(got) != 1 {
		t.Errorf("flagged, ready are %+v, %v", got, err)
	}
}

func TestReadyByNamespace(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for _, namespace := range []string{"north", "south"} {
		ledgertest.Apply(t, f.pool, ledgertest.Template{Namespace: namespace, Configuration: twoSteps})
		ledgertest.Create(t, f.pool, ledgertest.New{Namespace: namespace})
	}
	for namespace, want := range map[string]string{"": "north south", "south": "south", "west": ""} {
		got, err := f.NextReady(t.Context(), ledger.ReadyQuery{Namespace: namespace})
		f.must(err)
		var names []string
		for _, r := range got {
			names = append(names, r.Namespace)
		}
		if strings.Join(names, " ") != want {
			t.Errorf("of namespace %q ready are %v", namespace, names)
		}
	}
}

func TestReadyRefuses(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for mention, q := range map[string]ledger.ReadyQuery{
		"p_limit is -1, it must be from 1 to 10000":                  {Limit: -1},
		"p_limit is 10001":                                           {Limit: 10001},
		"p_waiting_for_dependencies_minutes is -5":                   {WaitingForDependenciesMinutes: -5},
		"p_priority_half_life_minutes is -1, it must be from 1 to 5": {PriorityHalfLifeMinutes: -1},
	} {
		_, err := f.NextReady(t.Context(), q)
		refused(t, err, ledger.ErrInvalid, mention)
	}
	if _, err := f.pool.Exec(t.Context(), `select postrider.get_next_ready_tasks(p_limit => null)`); err == nil || !strings.Contains(err.Error(), "p_limit is null") {
		t.Errorf("a limit of null: %v", err)
	}
}

package postgres_test

import (
	"encoding/json"
	"fmt"
	"reflect"
	"testing"

	"pgregory.net/rapid"

	"github.com/postrider/postrider/internal/tasks/ledger"
	"github.com/postrider/postrider/internal/tasks/postgres"
	"github.com/postrider/postrider/internal/tasks/task"
	"github.com/postrider/postrider/internal/testenv/pgtest"
)

// drawTemplate draws a template as JSON may have it. Many templates with states of their own are not valid.
func drawTemplate(t *rapid.T) map[string]any {
	tpl := map[string]any{
		"name": rapid.StringMatching(`[A-Za-z0-9_.-]{1,4}`).Draw(t, "name"), "namespace_name": "ns",
		"version":  rapid.SampledFrom([]string{"1.0.0", "1.0.1", "0.0.0", "10.20.999999999"}).Draw(t, "version"),
		"metadata": map[string]any{rapid.String().Draw(t, "key"): rapid.Float64().Draw(t, "number")},
	}
	states := []string{"a", "b", "c", "d"}
	if rapid.Bool().Draw(t, "own states") {
		var all, moves []any
		kinds := append([]task.Kind{task.KindInitial}, rapid.SliceOfN(rapid.SampledFrom(task.Kinds()[1:]), 3, 3).Draw(t, "kinds")...)
		for i, s := range states {
			all = append(all, map[string]any{"name": s, "kind": kinds[i]})
			if to := rapid.SliceOfNDistinct(rapid.SampledFrom(states), 0, 3, rapid.ID[string]).Draw(t, "to"); len(to) > 0 && kinds[i] != task.KindTerminal {
				moves = append(moves, map[string]any{"from": s, "to": to})
			}
		}
		roles := map[string]any{}
		for _, role := range rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"complete", "failed", "cancelled", "dead_letter", "archived"}), 0, 2, rapid.ID[string]).Draw(t, "roles") {
			roles[role] = rapid.SampledFrom(states).Draw(t, role)
		}
		tpl["states"], tpl["transitions"], tpl["roles"] = all, moves, roles
		tpl["retryable"] = rapid.SliceOfNDistinct(rapid.SampledFrom(states), 0, 1, rapid.ID[string]).Draw(t, "retryable")
	} else {
		states = []string{"pending", "waiting_for_retry", "blocked_by_failures"}
	}
	lifecycle := map[string]any{"max_duration_minutes": rapid.SampledFrom([]int{1, 30, 5256000}).Draw(t, "lifetime"),
		"staleness_action": rapid.SampledFrom(task.StalenessActions()).Draw(t, "action"), "auto_fail_on_timeout": rapid.Bool().Draw(t, "fail")}
	if rapid.Bool().Draw(t, "bounded") {
		lifecycle["max_"+rapid.SampledFrom(states).Draw(t, "state")+"_minutes"] = rapid.IntRange(1, 100).Draw(t, "minutes")
	}
	tpl["lifecycle"] = lifecycle
	var steps []any
	for i := range rapid.IntRange(0, 4).Draw(t, "steps") {
		depends := []string{}
		for _, j := range rapid.SliceOfNDistinct(rapid.IntRange(0, 4), 0, 2, rapid.ID[int]).Draw(t, "depends") {
			if j >= i {
				continue
			}
			depends = append(depends, fmt.Sprintf("step %d", j))
		}
		steps = append(steps, map[string]any{"name": fmt.Sprintf("step %d", i), "dependencies": depends, "inputs": rapid.String().Draw(t, "inputs"),
			"max_retries": rapid.SampledFrom([]int{0, 1, 1000}).Draw(t, "retries"), "retry_base_seconds": rapid.SampledFrom([]float64{0.001, 0.5, 1, 31536000}).Draw(t, "base")})
	}
	tpl["steps"] = steps
	tpl["input_schema"] = map[string]any{"type": "object", "properties": map[string]any{"x": map[string]any{"pattern": `^[a-z]{1,3}\d*$`}, "pattern": true}}
	return tpl
}

// What Parse takes, the database takes: it is stored, comes back the same, is there already the second time, and
// a task of it can be created.
func TestWhatIsValidCanBeAppliedProperty(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t).Pool(t)
	valid := 0
	rapid.Check(t, func(t *rapid.T) {
		text, err := json.Marshal(drawTemplate(t))
		if err != nil {
			t.Fatal(err)
		}
		tpl, err := task.Parse("drawn", text)
		if err != nil {
			return
		}
		valid++
		tx, err := pool.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = tx.Rollback(t.Context()) }()
		l := postgres.On(tx)
		for _, want := range []ledger.Applied{ledger.AppliedNew, ledger.AppliedSame} {
			if _, applied, err := l.ApplyTemplate(t.Context(), tpl); err != nil || applied != want {
				t.Fatalf("%s: %s, %v, want %s", text, applied, err, want)
			}
		}
		stored, err := l.Template(t.Context(), tpl.Namespace, tpl.Name, tpl.Version)
		if err != nil {
			t.Fatal(err)
		}
		m, _ := tpl.Machine()
		machine, err := l.StoredMachine(t.Context(), stored.Machine)
		if err != nil || !reflect.DeepEqual(sortedMachine(machine), sortedMachine(m)) {
			t.Fatalf("the machine of %s is %+v, %v", text, machine, err)
		}
		back, err := task.Parse("stored", stored.Configuration)
		if err != nil {
			t.Fatalf("%s came back as %s: %v", text, stored.Configuration, err)
		}
		if _, applied, err := l.ApplyTemplate(t.Context(), back); err != nil || applied != ledger.AppliedSame {
			t.Fatalf("%s came back as %s: it is %s, %v", text, stored.Configuration, applied, err)
		}
		id, err := l.Create(t.Context(), ledger.NewTask{Namespace: tpl.Namespace, Name: tpl.Name})
		if err != nil {
			t.Fatalf("no task of %s: %v", text, err)
		}
		steps, err := l.Steps(t.Context(), id)
		if err != nil || len(steps) != len(tpl.Steps) {
			t.Fatalf("%d steps of %s, %v", len(steps), text, err)
		}
	})
	if valid < 5 {
		t.Errorf("only %d of the drawn templates were valid", valid)
	}
	t.Logf("%d of the drawn templates were valid", valid)
}

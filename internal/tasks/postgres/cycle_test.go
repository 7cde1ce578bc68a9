package postgres_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// TestCyclesAgainstModel: the steps on cycles, and between them, of random graphs.
func TestCyclesAgainstModel(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	rapid.Check(t, func(rt *rapid.T) {
		n := rapid.IntRange(1, 7).Draw(rt, "steps")
		type step struct {
			Name         string   `json:"name"`
			Dependencies []string `json:"dependencies"`
		}
		steps, reach := make([]step, n), make([][]bool, n)
		for i := range n {
			steps[i], reach[i] = step{Name: fmt.Sprint("s", i), Dependencies: []string{}}, make([]bool, n)
			for j := range n {
				if rapid.IntRange(0, n).Draw(rt, "depends") == 0 {
					steps[i].Dependencies, reach[i][j] = append(steps[i].Dependencies, fmt.Sprint("s", j)), true
				}
			}
		}
		for k := range n {
			for i := range n {
				for j := range n {
					reach[i][j] = reach[i][j] || reach[i][k] && reach[k][j]
				}
			}
		}
		var want []string
		for v := range n {
			var from, to bool
			for c := range n {
				if reach[c][c] {
					from, to = from || reach[c][v], to || reach[v][c]
				}
			}
			if from && to {
				want = append(want, steps[v].Name)
			}
		}
		raw, err := json.Marshal(steps)
		f.must(err)
		got := strings.Fields(f.answer(`select array_to_string(postrider.task_cycle($1::jsonb), ' ')`, string(raw)))
		if !slices.Equal(got, want) {
			rt.Fatalf("the cycle of %s is %q, want %q", raw, got, want)
		}
	})
}

// TestCycleOfAsManyStepsAsATaskMayHave: the worst order to write a chain in is looked at in reasonable time.
func TestCycleOfAsManyStepsAsATaskMayHave(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	const chain = `(select jsonb_agg(jsonb_build_object('name', 's' || i, 'dependencies', jsonb_build_array('s' || %s)) order by i)
		from generate_series(1, 5000) i)`
	for dependsOn, want := range map[string]string{"least(i + 1, 5000)": "1", "i % 5000 + 1": "5000"} {
		if got := f.answer(`select cardinality(postrider.task_cycle(` + fmt.Sprintf(chain, dependsOn) + `))::text`); got != want {
			t.Errorf("of a chain with %s, %s steps are on a cycle, want %s", dependsOn, got, want)
		}
	}
}

// TestCycleOfManySteps: a list without a cycle is looked at once, not once for each of its steps.
func TestCycleOfManySteps(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for _, dependencies := range []string{`'[]'::jsonb`, `case when i > 1 then jsonb_build_array('s' || (i - 1)) else '[]' end`} {
		if got := f.answer(`select cardinality(postrider.task_cycle((select jsonb_agg(jsonb_build_object('name', 's' || i, 'dependencies', ` + dependencies + `) order by i)
			from generate_series(1, 20000) i)))::text`); got != "0" {
			t.Errorf("with the dependencies %s, %s steps are on a cycle", dependencies, got)
		}
	}
}

package postgres_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/postrider/postrider/internal/tasks/ledgertest"
)

// wayTo is the shortest way from one state to another through active states. Of several it is the first by name; if
// there is none, it is nil. It tries the ways by their length.
func wayTo(m ledgertest.Machine, from, to string) []string {
	ways := [][]string{{from}}
	for range m.States {
		var longer [][]string
		for _, way := range ways {
			next := slices.Sorted(slices.Values(m.Transitions[way[len(way)-1]]))
			for _, state := range next {
				if !slices.Contains(way, state) && (state == to || m.States[state] == "active") {
					longer = append(longer, append(slices.Clone(way), state))
				}
			}
		}
		slices.SortFunc(longer, slices.Compare)
		for _, way := range longer {
			if way[len(way)-1] == to {
				return way[1:]
			}
		}
		ways = longer
	}
	return nil
}

func (f *fixture) path(machine, from, to string) string {
	f.t.Helper()
	return f.answer(`select coalesce(array_to_string(postrider.task_path(state_machine_id, $2, $3), ' '), 'none') from postrider.tasker_state_machines where name = $1`, machine, from, to)
}

// TestPathAgainstModel: the way through random machines is the shortest one.
func TestPathAgainstModel(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	n := 0
	rapid.Check(t, func(rt *rapid.T) {
		n++
		m := ledgertest.Machine{Name: fmt.Sprint("m", n), Initial: "s0", States: map[string]string{"s0": "initial"}, Transitions: map[string][]string{}}
		states := []string{"s0"}
		for i := range rapid.IntRange(1, 6).Draw(rt, "states") {
			name := fmt.Sprint("s", i+1)
			states = append(states, name)
			m.States[name] = rapid.SampledFrom([]string{"active", "active", "active", "waiting", "failed"}).Draw(rt, "kind")
		}
		for _, from := range states {
			for _, to := range states {
				if from != to && rapid.IntRange(0, 2).Draw(rt, "way") == 0 {
					m.Transitions[from] = append(m.Transitions[from], to)
				}
			}
		}
		ledgertest.AddMachine(t, f.pool, m)
		for _, to := range states[1:] {
			want := strings.Join(wayTo(m, "s0", to), " ")
			if want == "" {
				want = "none"
			}
			if got := f.path(m.Name, "s0", to); got != want {
				rt.Fatalf("from s0 to %s of %+v: %s, want %s", to, m, got, want)
			}
		}
	})
}

// TestPathOfOddMachines: one in which every state leads to every other, and one that is a single long way.
func TestPathOfOddMachines(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	const states = 60
	knot := ledgertest.Machine{Name: "knot", Initial: "new", States: map[string]string{"new": "initial", "done": "terminal", "lost": "terminal"}, Transitions: map[string][]string{}}
	long := ledgertest.Machine{Name: "long", Initial: "new", States: map[string]string{"new": "initial", "done": "terminal"}, Transitions: map[string][]string{"new": {"s00"}}}
	var all []string
	for i := range states {
		all = append(all, fmt.Sprintf("s%02d", i))
	}
	for i, name := range all {
		knot.States[name], long.States[name] = "active", "active"
		knot.Transitions[name] = slices.DeleteFunc(slices.Clone(all), func(other string) bool { return other == name })
		if i+1 < states {
			long.Transitions[name] = all[i+1 : i+2]
		} else {
			long.Transitions[name] = []string{"done"}
		}
	}
	knot.Transitions["new"] = all
	knot.Transitions["s59"] = append(knot.Transitions["s59"], "done")
	ledgertest.AddMachine(t, f.pool, knot)
	ledgertest.AddMachine(t, f.pool, long)
	for _, c := range []struct{ machine, to, want string }{
		{"knot", "done", "s59 done"}, {"knot", "lost", "none"}, {"long", "done", strings.Join(all, " ") + " done"},
	} {
		if got := f.path(c.machine, "new", c.to); got != c.want {
			t.Errorf("%s to %s: %s, want %s", c.machine, c.to, got, c.want)
		}
	}
}

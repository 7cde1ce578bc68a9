package task

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func TestOrder(t *testing.T) {
	t.Parallel()
	steps := []Step{{Name: "ship", Dependencies: []string{"pay", "pick"}}, {Name: "pay"}, {Name: "pick", Dependencies: []string{"pay", "elsewhere"}}, {Name: "rate"}}
	if got, cycles := order(steps); len(cycles) > 0 || !slices.Equal(got, []string{"pay", "pick", "ship", "rate"}) {
		t.Errorf("order %v, cycles %v", got, cycles)
	}
	steps[1].Dependencies = []string{"ship"}
	if _, cycles := order(steps); len(cycles) != 1 || arrows(cycles[0]) != "ship -> pay -> ship" {
		t.Errorf("cycles %v", cycles)
	}
	if got, cycles := order(nil); len(got)+len(cycles) > 0 {
		t.Errorf("order of nothing %v, cycles %v", got, cycles)
	}
}

// Cycles are found if and only if a step reaches itself, and each is one.
func TestOrderFindsCyclesProperty(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(0, 9).Draw(t, "steps")
		steps := make([]Step, n)
		depends := map[string]map[string]bool{}
		for i := range steps {
			steps[i].Name = fmt.Sprintf("s%d", i)
			depends[steps[i].Name] = map[string]bool{}
			for _, j := range rapid.SliceOfNDistinct(rapid.IntRange(0, n), 0, 3, rapid.ID[int]).Draw(t, "dependencies") {
				d := fmt.Sprintf("s%d", j) // the last is no step
				steps[i].Dependencies = append(steps[i].Dependencies, d)
				depends[steps[i].Name][d] = true
			}
		}
		// Which step reaches which, by Warshall.
		reaches := map[[2]string]bool{}
		for _, s := range steps {
			for _, d := range s.Dependencies {
				reaches[[2]string{s.Name, d}] = true
			}
		}
		for _, k := range steps {
			for _, i := range steps {
				for _, j := range steps {
					if reaches[[2]string{i.Name, k.Name}] && reaches[[2]string{k.Name, j.Name}] {
						reaches[[2]string{i.Name, j.Name}] = true
					}
				}
			}
		}
		knotted := slices.ContainsFunc(steps, func(s Step) bool { return reaches[[2]string{s.Name, s.Name}] })
		sorted, cycles := order(steps)
		if knotted != (len(cycles) > 0) {
			t.Fatalf("cycles %v of %+v", cycles, steps)
		}
		used := map[string]bool{}
		for _, c := range cycles {
			if len(c) < 2 || c[0] != c[len(c)-1] {
				t.Fatalf("%v does not come back", c)
			}
			for i := range len(c) - 1 {
				if !depends[c[i]][c[i+1]] || used[c[i]] {
					t.Fatalf("%v is no cycle of its own of %+v", c, steps)
				}
				used[c[i]] = true
			}
		}
		// Of every knot at least one cycle is told.
		for _, s := range steps {
			if !reaches[[2]string{s.Name, s.Name}] {
				continue
			}
			told := slices.ContainsFunc(cycles, func(c []string) bool {
				return c[0] == s.Name || reaches[[2]string{s.Name, c[0]}] && reaches[[2]string{c[0], s.Name}]
			})
			if !told {
				t.Fatalf("nothing is told about the knot of %s: %v of %+v", s.Name, cycles, steps)
			}
		}
		if knotted {
			return
		}
		if len(sorted) != n {
			t.Fatalf("order %v of %d steps", sorted, n)
		}
		for i, s := range sorted {
			for _, later := range sorted[i+1:] {
				if depends[s][later] {
					t.Fatalf("%s comes before %s in %v, and depends on it", s, later, sorted)
				}
			}
		}
	})
}

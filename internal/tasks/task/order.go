package task

import "strings"

func arrows(cycle []string) string { return strings.Join(cycle, " -> ") }

// order returns the names of steps in an order in which each comes after its dependencies, and otherwise as they are
// listed. Dependencies on steps that are not there are passed over. Steps of a cycle depend each on the next, and the last
// is the first again: of each knot at least one cycle is returned, and no two that share a step.
func order(steps []Step) (sorted []string, cycles [][]string) {
	index := map[string]int{}
	for i := len(steps) - 1; i >= 0; i-- { // of two with one name, the first
		index[steps[i].Name] = i
	}
	left := make([]bool, len(steps)) // neither sorted nor in a cycle
	for i := range left {
		left[i] = true
	}
	// waits returns a dependency of a step that is left.
	waits := func(i int) (int, bool) {
		for _, d := range steps[i].Dependencies {
			if j, ok := index[d]; ok && left[j] {
				return j, true
			}
		}
		return 0, false
	}
	for {
		first := -1
		for i := 0; i < len(steps); i++ {
			if !left[i] {
				continue
			}
			if _, waiting := waits(i); waiting {
				if first < 0 {
					first = i
				}
				continue
			}
			left[i] = false
			sorted = append(sorted, steps[i].Name)
			if first >= 0 { // an earlier one may have waited for it
				i, first = first-1, -1
			}
		}
		if first < 0 {
			return sorted, cycles
		}
		// Everything left waits for something left, so following it comes to a step again.
		met := map[int]int{}
		var walk []int
		for i := first; ; {
			if start, again := met[i]; again {
				cycle := make([]string, 0, len(walk)-start+1)
				for _, j := range walk[start:] {
					left[j] = false
					cycle = append(cycle, steps[j].Name)
				}
				cycles = append(cycles, append(cycle, steps[i].Name))
				break
			}
			met[i] = len(walk)
			walk = append(walk, i)
			i, _ = waits(i)
		}
	}
}

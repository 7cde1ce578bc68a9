package task

// maxCompared bounds the work for a name that is no name at all.
const maxCompared = 80

// nearest returns the candidate that takes the fewest insertions, deletions and replacements to reach from
// name, empty if none is near.
func nearest[T ~string](name string, candidates []T) string {
	name = name[:min(len(name), maxCompared)]
	best, fewest := "", len(name)/2+1
	for _, c := range candidates {
		if len(c)-len(name) >= fewest || len(name)-len(c) >= fewest {
			continue
		}
		if d := distance(name, string(c)); d < fewest {
			best, fewest = string(c), d
		}
	}
	return best
}

func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			replaced := diagonal
			if a[i] != b[j] {
				replaced++
			}
			diagonal = row[j+1]
			row[j+1] = min(replaced, row[j]+1, diagonal+1)
		}
	}
	return row[len(b)]
}

// meant ends a message about an unknown name: the nearest known one, and what there is.
func meant[T ~string](ps *problems, name string, what string, known []T) string {
	if len(*ps) >= maxProblems {
		return "" // it would not be shown
	}
	if near := nearest(name, known); near != "" {
		return "; the nearest " + what + " is " + near
	}
	if len(known) == 0 {
		return "; there is no " + what
	}
	return "; there are " + shown(join(known))
}

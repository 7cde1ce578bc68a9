// Package nearest finds what a misspelt name was probably meant to be, for errors about unknown names.
package nearest

// MaxCompared is how much of a name is compared, in bytes: it bounds the work for a name that is no name at all.
const MaxCompared = 80

// Of returns the candidate that takes the fewest edits to reach from name, and how many: insertions, deletions,
// replacements, and swaps of neighbours. Of several it is the first. It is empty if there is no candidate.
func Of[T ~string](name string, candidates []T) (best T, edits int) {
	name = name[:min(len(name), MaxCompared)]
	edits = -1
	for _, candidate := range candidates {
		c := string(candidate[:min(len(candidate), 2*MaxCompared)])
		if edits >= 0 && max(len(c)-len(name), len(name)-len(c)) >= edits {
			continue // the lengths alone differ by more
		}
		if d := distance(name, c); edits < 0 || d < edits {
			best, edits = candidate, d
		}
	}
	return best, edits
}

// distance counts the edits that turn a into b.
func distance(a, b string) int {
	rows := make([][]int, len(a)+1)
	for i := range rows {
		rows[i] = make([]int, len(b)+1)
		rows[i][0] = i
	}
	for j := range rows[0] {
		rows[0][j] = j
	}
	for i := 1; i <= len(a); i++ {
		for j := 1; j <= len(b); j++ {
			replaced := rows[i-1][j-1]
			if a[i-1] != b[j-1] {
				replaced++
			}
			rows[i][j] = min(replaced, rows[i-1][j]+1, rows[i][j-1]+1)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				rows[i][j] = min(rows[i][j], rows[i-2][j-2]+1)
			}
		}
	}
	return rows[len(a)][len(b)]
}

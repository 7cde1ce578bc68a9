// Package plural writes numbers with the words that fit them.
package plural

import "fmt"

// Of is a number with its words: one is what stands behind a 1, many what stands behind every other number.
func Of[N ~int | ~int64](n N, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

package console

import "strconv"

const (
	// listed is how many topics, groups, partitions or templates a page lists.
	listed = 50
	// stepsShown is how many steps a page lists.
	stepsShown = 100
)

// slicePage is the page of a list that is here as a whole: it begins where a parameter of the address says. more and first
// are the addresses of the next page and of the first; empty for none. They do not have the parameters in without.
func slicePage[T any](v *visit, all []T, size int, name, anchor string, without ...string) (page []T, more, first string) {
	from, _ := strconv.Atoi(v.param(name)) // anything else is the beginning
	from = max(0, min(from, len(all)))
	end := min(from+size, len(all))
	at := func(place string) string {
		pairs := []string{name, place}
		for _, other := range without {
			pairs = append(pairs, other, "")
		}
		return v.with(pairs...) + anchor
	}
	if end < len(all) {
		more = at(strconv.Itoa(end))
	}
	if from > 0 {
		first = at("")
	}
	return all[from:end], more, first
}

package task

import "github.com/postrider/postrider/internal/nearest"

// meant ends a message about an unknown name: the nearest known one, and what there is. A name that only half of its
// letters would remain of is not near.
func meant[T ~string](ps *problems, name string, what string, known []T) string {
	if len(*ps) >= maxProblems {
		return "" // it would not be shown
	}
	if near, edits := nearest.Of(name, known); near != "" && edits <= min(len(name), nearest.MaxCompared)/2 {
		return "; the nearest " + what + " is " + string(near)
	}
	if len(known) == 0 {
		return "; there is no " + what
	}
	return "; there are " + shown(join(known))
}

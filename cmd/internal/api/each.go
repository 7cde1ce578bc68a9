package api

import "time"

// All is a list of everything there is, each as show makes it.
func All[D, T any](show func(D) T, things []D) List[T] { return ListOf(each(show, things), "") }

// each is show of every thing; never nil.
func each[D, T any](show func(D) T, things []D) []T {
	out := make([]T, len(things))
	for i, thing := range things {
		out[i] = show(thing)
	}
	return out
}

// inYears brings times into the years that JSON can say, each where it stands. Nil stays nil.
func inYears(times ...*time.Time) {
	for _, t := range times {
		if t != nil {
			*t = Time(*t)
		}
	}
}

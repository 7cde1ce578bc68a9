package api

// List is a page of things of one kind. Every list has this shape.
type List[T any] struct {
	// Items are the things, in the order of the list; never null.
	Items []T `json:"items"`
	// Next is the place behind the last item, for the parameter after or the flag --after; null at the end.
	Next *string `json:"next"`
	// Total is how many there are in all. It is left out where nothing counts them.
	Total *int64 `json:"total,omitempty"`
	// TotalExact is false when Total is an estimate. It is left out together with Total.
	TotalExact *bool `json:"total_exact,omitempty"`
	// Page and PageSize are the numbers of a page that was asked for by number; otherwise they are left out.
	Page     *int `json:"page,omitempty"`
	PageSize *int `json:"page_size,omitempty"`
}

// ListOf is a page with these items, also when there are none; next is empty at the end.
func ListOf[T any](items []T, next string) List[T] {
	if items == nil {
		items = []T{}
	}
	return List[T]{Items: items, Next: OrNull(next)}
}

// All is a list of everything there is, each as show makes it.
func All[D, T any](show func(D) T, things []D) List[T] { return ListOf(each(show, things), "") }

// PageOf is a page of at most size things, each as show makes it. found has one more where the list goes on; place is where
// it does behind a thing.
func PageOf[D, T any](show func(D) T, found []D, size int, place func(D) string) List[T] {
	next := ""
	if len(found) > size {
		found, next = found[:size], place(found[size-1])
	}
	return ListOf(each(show, found), next)
}

// each is show of every thing; never nil.
func each[D, T any](show func(D) T, things []D) []T {
	out := make([]T, len(things))
	for i, thing := range things {
		out[i] = show(thing)
	}
	return out
}

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

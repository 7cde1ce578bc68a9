package api

// PageOf is a page of at most size things. found has one more where the list goes on; place is where it does behind a thing.
func PageOf[D, T any](found []D, size int, view func(D) T, place func(D) string) List[T] {
	next := ""
	if len(found) > size {
		found, next = found[:size], place(found[size-1])
	}
	return ListOf(each(view, found), next)
}

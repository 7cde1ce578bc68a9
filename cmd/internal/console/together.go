package console

import (
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
)

// together reads parts of a page side by side that do not need one another: most of a page's time is waiting for answers. It
// returns the error of the first part that failed, as parts one after the other would. A part that panics fails, as a page does.
func together(parts ...func() error) error {
	errs := make([]error, len(parts))
	var wg sync.WaitGroup
	for i, part := range parts {
		wg.Go(func() {
			defer func() {
				if failed := recover(); failed != nil {
					errs[i] = fmt.Errorf("%w: %v\n%s", errPanicked, failed, debug.Stack())
				}
			}()
			errs[i] = part()
		})
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// errPanicked is wrapped by the error of a part of a page that panicked. Its person is told that the page could not be made.
var errPanicked = errors.New("a part of a page panicked")

// into is a part that reads a value into its place.
func into[T any](place *T, read func() (T, error)) func() error {
	return func() (err error) {
		*place, err = read()
		return err
	}
}

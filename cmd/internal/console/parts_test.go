package console

import (
	"errors"
	"testing"

	"github.com/postrider/postrider/cmd/internal/httpapi"
)

// TestTogether: all parts run, at once, the error of the first in order is the page's, and a part that panics takes no process
// with it.
func TestTogether(t *testing.T) {
	t.Parallel()
	first, second := errors.New("first"), errors.New("second")
	met := make(chan struct{})
	var n int
	err := together(
		func() error { <-met; return first }, // it waits for the others
		func() error { return second },
		into(&n, func() (int, error) { close(met); return 7, nil }),
	)
	if !errors.Is(err, first) || n != 7 {
		t.Errorf("the error is %v, the value %d", err, n)
	}
	if err := together(); err != nil {
		t.Errorf("no part: %v", err)
	}
	err = together(func() error { var none *visit; return none.ctx.Err() })
	if !errors.Is(err, errPanicked) || told(err).Code != httpapi.Internal {
		t.Errorf("a part that panics: %v, told as %q", err, told(err).Code)
	}
}

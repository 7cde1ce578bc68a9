package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"
)

// endLimit is how long a part may take that has nothing to finish. It ends at once, but for a machine that is slow.
const endLimit = 5 * time.Second

// part is something that works until it is asked to stop.
type part struct {
	name string
	// limit is how long it may take to finish what it has in hand. Defaults to endLimit.
	limit time.Duration
	// run works until its context ends, and returns nil then.
	run func(context.Context) error
}

// start runs a part, and has it stopped with the rest.
func (a *App) start(ctx context.Context, p part) {
	// A part ends when it is asked to and not with ctx: Run decides when the stop begins.
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan error, 1)
	added := a.lifecycle.add(step{name: p.name, limit: cmp.Or(p.limit, endLimit), ask: cancel, stop: func(patience context.Context) error {
		select {
		case err := <-ended:
			return err
		case <-patience.Done():
		}
		select {
		case err := <-ended: // it ended in time, while others were waited for
			return err
		default:
			return context.Cause(patience)
		}
	}})
	if !added {
		cancel()
		return
	}
	go func() {
		err := p.run(ctx)
		if ctx.Err() == nil {
			a.fail(p.name, err)
			err = nil // reported
		}
		ended <- err
	}()
}

// fail makes Run stop everything, because a part ended without being asked to.
func (a *App) fail(name string, err error) {
	if err == nil {
		err = errors.New("it ended by itself")
	}
	select {
	case a.failed <- fmt.Errorf("the %s failed: %w", name, err):
	default: // the first failure is the one to report
	}
}

package relay

import (
	"context"
	"errors"
	"time"

	"github.com/cenkalti/backoff/v4"

	"github.com/postrider/postrider/internal/loop"
)

// cycleTimeout bounds what a cycle waits for the database before it has something in hand. It is more
// than the database's own statement_timeout, and there for a database that does not answer at all.
const cycleTimeout = 65 * time.Second

// loop runs one cycle after the other: at once while there is work, with growing pauses while there
// is none or while it fails. A failure ends only its own cycle.
func (r *Relay) loop(ctx context.Context, name string, runOnce func(context.Context) (int, error), idle *idle) {
	failing := backoff.NewExponentialBackOff(backoff.WithInitialInterval(50*time.Millisecond),
		backoff.WithMaxInterval(5*time.Second), backoff.WithMaxElapsedTime(0))
	failed := false
	for ctx.Err() == nil {
		bounded, cancel := context.WithTimeout(ctx, cycleTimeout)
		n, err := runOnce(bounded)
		cancel()
		var lost *brokersLost
		switch {
		case err != nil && ctx.Err() != nil:
			return
		case errors.As(err, &lost):
			r.endure(ctx, lost)
			idle.wait(ctx)
		case err != nil:
			r.metrics.failed(name, err)
			pause := failing.NextBackOff()
			r.cfg.Logger.Error("cycle failed", append([]any{"loop", name, "err", err, "retry_in", pause.String()}, storeFields(err)...)...)
			r.cfg.Observer.Worked(name, err)
			failed = true
			_ = loop.Sleep(ctx, pause)
		default:
			if failed {
				failing.Reset()
				failed = false
				r.cfg.Observer.Worked(name, nil)
				r.cfg.Logger.Info("cycle works again", "loop", name)
			}
			if n > 0 {
				idle.busy(n)
				idle.after(ctx, n)
			} else {
				idle.wait(ctx)
			}
		}
	}
}

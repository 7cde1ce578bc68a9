package relay

import (
	"context"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v4"
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
		switch {
		case err != nil && ctx.Err() != nil:
			return
		case err != nil:
			r.metrics.failed(name, err)
			pause := failing.NextBackOff()
			r.cfg.Logger.Error("cycle failed", append([]any{"loop", name, "err", err, "retry_in", pause.String()}, storeFields(err)...)...)
			failed = true
			sleep(ctx, pause)
		default:
			if failed {
				failing.Reset()
				failed = false
				r.cfg.Logger.Info("cycle works again", "loop", name)
			}
			if n > 0 {
				idle.busy(n)
			} else {
				idle.wait(ctx)
			}
		}
	}
}

func sleep(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}

// idle paces workers that find nothing. Only one of them polls, with pauses from min growing to max;
// the others sleep until that one finds work, and wake one after the other as long as there is more.
// So ten idle workers cost what one costs.
type idle struct {
	min, max time.Duration
	full     int           // so much work at once that another worker is worth waking
	polling  chan struct{} // holds a token: whoever has it polls
	wake     chan struct{}

	mu    sync.Mutex
	pause time.Duration
}

func newIdle(lowest, highest time.Duration, full int) *idle {
	i := &idle{min: lowest, max: highest, full: full, pause: lowest, polling: make(chan struct{}, 1), wake: make(chan struct{}, 1)}
	i.polling <- struct{}{}
	return i
}

// busy says that there was this much work: poll fast again, and, if it was much, let one more worker look
// at once. After a little the one that polls is enough: more would only share it in smaller batches, each
// of which costs the same.
func (i *idle) busy(n int) {
	i.mu.Lock()
	i.pause = i.min
	i.mu.Unlock()
	if n < i.full {
		return
	}
	select {
	case i.wake <- struct{}{}:
	default:
	}
}

// wait returns when it is this worker's time to look.
func (i *idle) wait(ctx context.Context) {
	select {
	case <-ctx.Done():
	case <-i.wake:
	case <-i.polling:
		i.mu.Lock()
		d := i.pause
		i.pause = min(i.pause*3/2+time.Microsecond, i.max)
		i.mu.Unlock()
		sleep(ctx, d)
		i.polling <- struct{}{}
	}
}

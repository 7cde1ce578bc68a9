package relay

import (
	"context"
	"sync"
	"time"
)

// idle paces workers that find nothing. Only one of them polls, with pauses from min growing to max, or,
// while writers ring, to slow; the others sleep until that one finds work, and wake one after the other as
// long as there is more. So ten idle workers cost what one costs.
type idle struct {
	min, max, slow time.Duration
	full           int           // so much work at once that another worker is worth waking
	polling        chan struct{} // holds a token: whoever has it polls
	wake           chan struct{}
	bell           bell

	mu    sync.Mutex
	pause time.Duration
	last  time.Time // when there was work
	armed bool      // at the last poll
	// resting says that nothing is due before rested.
	resting bool
	rested  time.Time
}

func newIdle(lowest, highest time.Duration, full int) *idle {
	i := &idle{min: lowest, max: highest, slow: highest, full: full, pause: lowest, polling: make(chan struct{}, 1), wake: make(chan struct{}, 1)}
	i.polling <- struct{}{}
	return i
}

// withBell has writers wake whoever polls. Pauses then grow to slow.
func (i *idle) withBell(d Doorbell, slow time.Duration) *idle {
	i.bell.Doorbell, i.slow = d, max(slow, i.max)
	return i
}

// busy says that there was this much work: poll fast again, unless writers ring, and, if it was much, let
// one more worker look at once. After a little the one that polls is enough: more would only share it in
// smaller batches, each of which costs the same.
func (i *idle) busy(n int) {
	i.mu.Lock()
	i.last, i.resting = time.Now(), false
	if !i.bell.armed() {
		i.pause = i.min
	}
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
		i.poll(ctx)
		i.polling <- struct{}{}
	}
}

// poll is the wait of the one that polls.
func (i *idle) poll(ctx context.Context) {
	armed := i.bell.armed()
	i.mu.Lock()
	quiet := time.Since(i.last)
	i.mu.Unlock()
	if !armed && i.bell.arm(ctx, quiet) {
		return
	}
	i.mu.Lock()
	if i.armed && !armed {
		i.pause = i.min // writers were told to stop because there is much to do
	}
	i.armed = armed
	limit := i.max
	if armed {
		limit = i.slow
	}
	d := min(i.pause, limit)
	// The pause grows with the time that nothing came, so an event that was written before writers rang and
	// committed long after waits no longer than a part of that.
	i.pause = min(d*3/2+time.Microsecond, limit)
	if i.resting {
		d = i.untilRested()
	}
	i.mu.Unlock()
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	case <-i.wake:
	case <-i.bell.rung():
	}
}

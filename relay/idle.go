package relay

import (
	"context"
	"sync"
	"time"
)

// idle paces workers that find nothing. Only one of them polls, with pauses from min growing to max, or,
// while writers ring, to slow; the others sleep until that one finds work, and wake one after the other as
// long as there is more. So ten idle workers cost what one costs.
//
// Workers that find little take turns like this too, min apart from each other, or more where much comes (pace):
// looks that come closer would share the same events in smaller batches, each of which costs the same, and together
// they take the processor from whoever writes and sends.
type idle struct {
	min, max, slow time.Duration
	full           int           // so much work at once that another worker is worth waking
	polling        chan struct{} // holds a token: whoever has it polls
	wake           chan struct{}
	sooner         chan struct{} // whoever polls is in a pause that is too long by now
	bell           bell

	mu    sync.Mutex
	pause time.Duration
	last  time.Time // when there was work
	pace  pace
	due   time.Time // the next look, while there is little to do
	until time.Time // when the pause of whoever polls ends
	armed bool      // at the last poll
}

// little is fewer events than are worth looking again at once, where looks are min apart.
const little = 64

func newIdle(lowest, highest time.Duration, full int) *idle {
	i := &idle{min: lowest, max: highest, slow: highest, full: full, pause: lowest,
		polling: make(chan struct{}, 1), wake: make(chan struct{}, 1), sooner: make(chan struct{}, 1)}
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
	i.last = time.Now()
	if !i.bell.armed() {
		i.pause = i.min
		if time.Until(i.until) > i.min {
			select {
			case i.sooner <- struct{}{}:
			default:
			}
		}
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

// wait returns when it is this worker's time to look, after it found nothing.
func (i *idle) wait(ctx context.Context) { i.turn(ctx, i.poll) }

// after returns when it is this worker's time to look, after it found so much: at once after much, and while
// writers ring, because whoever waits for a ring waits long. What was written to the shards of the last batch
// while it was in work is found by this look only.
func (i *idle) after(ctx context.Context, n int) {
	if n < i.enough(n) && !i.bell.armed() {
		i.turn(ctx, i.space)
		return
	}
	i.look()
}

// enough is so much that it is worth looking again at once, by the pace that n more make.
func (i *idle) enough(n int) int {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.pace.add(time.Now(), n)
	return min(i.full, int(little*i.pace.factor()))
}

// turn waits for what the one that polls waits for, or to be woken.
func (i *idle) turn(ctx context.Context, pause func(context.Context)) {
	select {
	case <-ctx.Done():
	case <-i.wake:
		i.look()
	case <-i.polling:
		pause(ctx)
		i.mu.Lock()
		i.until = time.Time{}
		i.mu.Unlock()
		i.look()
		i.polling <- struct{}{}
	}
}

// look notes that a look begins: the next is due min later, or more where much comes. One that comes late brings
// it forward, by half at most, because timers are late by up to a millisecond.
func (i *idle) look() {
	i.mu.Lock()
	defer i.mu.Unlock()
	now, apart := time.Now(), i.pace.apart(i.min)
	next := i.due.Add(apart)
	if earliest := now.Add(apart / 2); next.Before(earliest) {
		next = earliest
	}
	if latest := now.Add(apart); next.After(latest) {
		next = latest
	}
	i.due = next
}

// space is the pause until the next look is due, whoever had the last.
func (i *idle) space(ctx context.Context) {
	i.mu.Lock()
	d := time.Until(i.due)
	i.mu.Unlock()
	if d > 0 {
		i.sleep(ctx, d)
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
	for i.sleep(ctx, i.next(armed)) {
	}
}

// next is the pause of the one that polls.
func (i *idle) next(armed bool) time.Duration {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.armed && !armed {
		i.pause = i.min // writers were told to stop because there is much to do
	}
	i.armed = armed
	limit := i.max
	if armed {
		limit = i.slow
	}
	select {
	case <-i.sooner: // known by now
	default:
	}
	d := min(i.pause, limit)
	// The pause grows with the time that nothing came, so an event that was written before writers rang and
	// committed long after waits no longer than a part of that.
	i.pause = min(d*3/2+time.Microsecond, limit)
	i.until = time.Now().Add(d)
	return d
}

// sleep waits, at most for d. It reports whether that turned out to be too long.
func (i *idle) sleep(ctx context.Context, d time.Duration) (tooLong bool) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	case <-i.wake:
	case <-i.bell.rung():
	case <-i.sooner:
		return true
	}
	return false
}

package relay

import (
	"context"
	"sync"
	"time"
)

// idle paces a loop that finds little or nothing: with pauses from min growing to max, or, while writers notify, to armedMax.
// After a little work, looks are min apart, or more where much comes (pace). Closer looks would share the same events in
// smaller batches. Each batch costs the same, so they would take processor time from the writers.
type idle struct {
	min, max, armedMax time.Duration
	full               int // so much work at once is a reason to look again at once
	wake               chan struct{}
	notifier           notifier
	rest               *rest // while the relay rests, only what wakes the loop ends a pause; nil where it does not rest
	crowd              *Crowd

	mu    sync.Mutex
	pause time.Duration
	last  time.Time // when there was work
	pace  pace
	due   time.Time // the next look, while there is little to do
	among bool      // it is in the crowd
	armed bool      // at the last poll
}

// little is the number of events from which it is worth looking again at once, where looks are min apart.
const little = 64

func newIdle(lowest, highest time.Duration, full int) *idle {
	return &idle{min: lowest, max: highest, armedMax: highest, full: full, pause: lowest, wake: make(chan struct{}, 1)}
}

// withNotifier has writers end a pause. Pauses then grow to armedMax.
func (i *idle) withNotifier(d Notifier, longest time.Duration) *idle {
	i.notifier.Notifier, i.armedMax = d, max(longest, i.max)
	return i
}

// busy says that there was this much work: poll fast again, unless writers notify, and, if it was much, look at once. Any
// goroutine may say so.
func (i *idle) busy(n int) {
	i.mu.Lock()
	i.last = time.Now()
	i.join()
	if !i.notifier.armed() {
		i.pause = i.least()
	}
	i.mu.Unlock()
	if n >= i.full {
		i.wakeUp()
	}
}

// least is the shortest pause: min, or more in a crowd. The caller holds mu.
func (i *idle) least() time.Duration {
	return min(i.min*time.Duration(i.crowd.size()), max(i.min, paceLongest))
}

// join and leave say whether the loop finds something these days. The caller holds mu.
func (i *idle) join() {
	if i.crowd != nil && !i.among {
		i.among = true
		i.crowd.busy.Add(1)
	}
}

func (i *idle) leave() {
	if i.among {
		i.among = false
		i.crowd.busy.Add(-1)
	}
}

// quit says that the loop has ended.
func (i *idle) quit() {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.leave()
}

// wakeUp ends the pause.
func (i *idle) wakeUp() {
	select {
	case i.wake <- struct{}{}:
	default:
	}
}

// slowed reports whether nothing came for so long that looks are this far apart.
func (i *idle) slowed(apart time.Duration) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.pause >= apart
}

// wait returns when it is time to look again after nothing was found.
func (i *idle) wait(ctx context.Context) {
	i.poll(ctx)
	i.setDue()
}

// after returns when it is time to look again after n events were found. That is at once if n is large, and also
// while writers notify, because a notification that came meanwhile is not to wait.
func (i *idle) after(ctx context.Context, n int) {
	if n < i.enough(n) && !i.notifier.armed() {
		i.space(ctx)
	}
	i.setDue()
}

// enough is the number of events from which it is worth looking again at once, by the pace that n more make.
func (i *idle) enough(n int) int {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.pace.add(time.Now(), n)
	return min(i.full, int(little*i.pace.factor()))
}

// setDue is called when a look begins: the next is due min later, or more where much comes. A look that comes late
// brings the next one forward, by half at most, because timers are late by up to a millisecond.
func (i *idle) setDue() {
	i.mu.Lock()
	defer i.mu.Unlock()
	now, apart := time.Now(), i.pace.apart(i.least())
	next := i.due.Add(apart)
	if earliest := now.Add(apart / 2); next.Before(earliest) {
		next = earliest
	}
	if latest := now.Add(apart); next.After(latest) {
		next = latest
	}
	i.due = next
}

// space is the pause until the next look is due.
func (i *idle) space(ctx context.Context) {
	i.mu.Lock()
	d := time.Until(i.due)
	i.mu.Unlock()
	if d > 0 {
		i.sleep(ctx, d)
	}
}

// poll is the pause after nothing was found.
func (i *idle) poll(ctx context.Context) {
	armed := i.notifier.armed()
	i.mu.Lock()
	quiet := time.Since(i.last)
	if quiet > crowdLeave {
		i.leave()
	}
	i.mu.Unlock()
	if !armed && i.notifier.arm(ctx, quiet) {
		return
	}
	if i.rest.resting() {
		i.sleep(ctx, restLongest)
		return
	}
	i.sleep(ctx, i.next(armed))
}

// next is the pause of a poll.
func (i *idle) next(armed bool) time.Duration {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.armed && !armed {
		i.pause = i.least() // writers were told to stop because there is much to do
	}
	i.armed = armed
	limit := i.max
	if armed {
		limit = i.armedMax
	}
	d := min(i.pause, limit)
	// The pause grows with the time that nothing came, so an event that was written before writers notified and
	// committed long after waits no longer than a part of that.
	i.pause = min(d*3/2+time.Microsecond, limit)
	return d
}

// sleep waits for d, or until there is a reason to look.
func (i *idle) sleep(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	case <-i.wake:
	case <-i.notifier.notified():
	}
}

// pace is how fast events have come lately.
type pace struct {
	since time.Time
	n     int
	rate  float64 // a second
}

const (
	// paceOver is the least time that a rate is taken over. It is also how long a change goes unnoticed.
	paceOver = 50 * time.Millisecond
	// paceQuick is the rate, in events a second, above which looks may be further apart. Below it latency counts.
	paceQuick = 3000
	// paceMost is how many times further apart they may be, at most paceLongest.
	paceMost    = 10
	paceLongest = 20 * time.Millisecond
)

// add notes that a look that ended now found n events.
func (p *pace) add(now time.Time, n int) {
	p.n += n
	if d := now.Sub(p.since); d >= paceOver {
		p.rate = float64(p.n) / d.Seconds()
		p.since, p.n = now, 0
	}
}

// factor is how many times further apart looks should be. The cost of a look does not depend on what it finds, and the
// writers pay for it: 500 looks a second are a third of two cores. The factor grows with the square of the rate. So the
// more events there are, the more a look finds, and the cost of looking falls while that of sending grows.
func (p *pace) factor() float64 {
	f := p.rate / paceQuick
	return min(max(1, f*f), paceMost)
}

// apart is how far apart looks should be, if they are least apart at a low rate.
func (p *pace) apart(least time.Duration) time.Duration {
	return min(time.Duration(float64(least)*p.factor()), max(least, paceLongest))
}

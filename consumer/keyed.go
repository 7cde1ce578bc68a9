package consumer

import (
	"slices"
	"time"
)

// keyed is a lane that handles messages of different keys at once or out of turn, and messages of one key in order.
type keyed struct {
	*state
	c *Consumer
	s *scheduler

	// The rest is under s.mu.
	track  *tracker
	keys   map[string]*keyQueue
	parked map[*keyQueue]*time.Timer
	live   int // queues that exist
	// started is the highest number that was ever handed to a handler, if any was. A retired lane goes on up to that
	// number, so that no later message has to be handled again elsewhere.
	started   uint64
	any       bool
	abandoned bool
	closed    bool // done is
}

func newKeyed(c *Consumer, st *state, s *scheduler) *keyed {
	return &keyed{state: st, c: c, s: s, track: newTracker(), keys: map[string]*keyQueue{}, parked: map[*keyQueue]*time.Timer{}}
}

func (l *keyed) push(b Batch) {
	l.s.mu.Lock()
	if l.retired.Load() {
		l.s.mu.Unlock()
		return
	}
	bytes := int64(0)
	for i := range b.Messages {
		m := &b.Messages[i]
		if l.route.retry {
			m.readPast(l.c.cfg.Group)
		}
		bytes += m.size()
		l.add(m, l.track.add(m.Offset, b.LeaderEpoch))
	}
	l.hold(len(b.Messages), bytes)
	l.ahead.Store(int64(l.track.ahead()))
	l.s.spawn()
	l.s.mu.Unlock()
	l.c.flow(l.state)
}

// add puts a message behind the others of its key.
func (l *keyed) add(m *Message, number uint64) {
	if m.Key != nil {
		if q := l.keys[string(m.Key)]; q != nil {
			q.items = append(q.items, item{m: m, number: number})
			if _, waits := l.parked[q]; waits {
				q.own()
			}
			return
		}
	}
	q := &keyQueue{lane: l, items: []item{{m: m, number: number}}}
	if m.Key != nil {
		q.key, q.hasKey = string(m.Key), true
		l.keys[q.key] = q
	}
	l.live++
	l.s.ready = append(l.s.ready, q)
}

func (l *keyed) position() (Position, bool) {
	l.s.mu.Lock()
	defer l.s.mu.Unlock()
	offset, epoch, ok := l.track.position()
	return Position{Partition: l.part, Offset: offset, LeaderEpoch: epoch}, ok
}

// retire lets the messages that were begun end, and all before them, and drops the rest.
func (l *keyed) retire() {
	l.s.mu.Lock()
	defer l.s.mu.Unlock()
	if l.retired.Load() {
		return
	}
	l.retired.Store(true)
	close(l.stopping)
	for q, t := range l.parked {
		t.Stop()
		l.drop(q)
	}
	clear(l.parked)
	l.s.ready = slices.DeleteFunc(l.s.ready, func(q *keyQueue) bool {
		if q.lane != l || !l.over(q) {
			return false
		}
		l.drop(q)
		return true
	})
	l.endIfEmpty()
}

// over reports whether the first message of a key is none that is to be handled here any more. l.s.mu is held.
func (l *keyed) over(q *keyQueue) bool {
	return l.retired.Load() && (l.abandoned || !l.any || q.items[0].number > l.started)
}

// abandon gives up the messages in hand. The lane's context has ended.
func (l *keyed) abandon() {
	l.s.mu.Lock()
	defer l.s.mu.Unlock()
	l.abandoned = true
}

// outcome is the result of an attempt.
type outcome struct {
	handled, aborted bool
	v                verdict
	allowed          bool // by the circuit breaker, to be given up
}

// try hands a message to the handler.
func (l *keyed) try(m *Message, probe bool) outcome {
	began := time.Now()
	err := l.c.call(l.ctx, timeout(l.route.policy.HandleTimeout), m)
	now := time.Now()
	l.route.counts.seconds.Add(now.Sub(began).Seconds())
	if err == nil {
		l.route.counts.handled.Inc()
		if probe {
			l.probed(true, now)
		}
		l.route.breaker.handled(1)
		return outcome{handled: true}
	}
	if l.ctx.Err() != nil {
		if probe {
			l.releaseProbe()
		}
		return outcome{aborted: true}
	}
	v, ok := l.c.failed(l.route, m, err, probe)
	switch {
	case probe && v.early:
		l.releaseProbe()
	case probe:
		l.probed(false, now)
	}
	return outcome{v: v, allowed: ok}
}

// apply puts a key where its message's outcome says. l.s.mu is held.
func (l *keyed) apply(q *keyQueue, out outcome) {
	switch {
	case out.handled:
		l.finish(q)
	case out.aborted:
		l.drop(q)
	case !out.allowed:
		l.park(q, recheck)
	case out.v.leaves(): // only the key waits for the broker
		go func(m *Message) {
			left, again := l.c.leave(l.state, l.route, m, out.v)
			l.s.mu.Lock()
			switch {
			case left:
				l.finish(q)
			case again > 0:
				l.park(q, again)
			default:
				l.drop(q)
			}
			l.s.spawn()
			l.s.mu.Unlock()
			if l.paused.Load() {
				l.c.flow(l.state)
			}
		}(q.items[0].m)
	default:
		l.park(q, out.v.again)
	}
}

// finish ends a key's first message. l.s.mu is held.
func (l *keyed) finish(q *keyQueue) {
	first := q.items[0]
	q.items[0] = item{}
	q.items = q.items[1:]
	l.track.done(first.number)
	l.ahead.Store(int64(l.track.ahead()))
	l.release(1, first.m.size())
	l.c.letGo()
	if len(q.items) == 0 || l.over(q) {
		l.drop(q)
		return
	}
	l.s.ready = append(l.s.ready, q)
}

// park lets a key wait. l.s.mu is held.
func (l *keyed) park(q *keyQueue, d time.Duration) {
	if l.retired.Load() {
		l.drop(q)
		return
	}
	q.own()
	l.parked[q] = time.AfterFunc(d, func() {
		l.s.mu.Lock()
		defer l.s.mu.Unlock()
		if _, still := l.parked[q]; !still {
			return
		}
		delete(l.parked, q)
		l.s.ready = append(l.s.ready, q)
		l.s.spawn()
	})
}

// own makes a key's messages copies: a message that waits would keep its whole fetch in memory.
func (q *keyQueue) own() {
	for i := len(q.items) - 1; i >= 0 && !q.items[i].own; i-- {
		q.items[i].m, q.items[i].own = q.items[i].m.clone(), true
	}
}

// drop ends a key, with whatever of it is not done. l.s.mu is held.
func (l *keyed) drop(q *keyQueue) {
	if q.hasKey {
		delete(l.keys, q.key)
	}
	l.live--
	l.endIfEmpty()
}

func (l *keyed) endIfEmpty() {
	if l.retired.Load() && l.live == 0 && !l.closed {
		l.closed = true
		close(l.done)
	}
}

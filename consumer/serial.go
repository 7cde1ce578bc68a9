package consumer

import (
	"sync"
	"sync/atomic"
	"time"
)

// serial is a lane that handles one message, or one batch, after the other. Work for a healthy message is work for
// every message, so nothing is locked, sent, allocated or timed for each.
type serial struct {
	*state
	c *Consumer
	// next is the offset behind the last message that is done, -1 before that; epoch that of its batch.
	next  atomic.Int64
	epoch atomic.Int32
	wake  chan struct{}

	mu    sync.Mutex
	queue []Batch

	pointers []*Message // of a batch for a BatchHandler
}

func newSerial(c *Consumer, s *state) *serial {
	l := &serial{state: s, c: c, wake: make(chan struct{}, 1)}
	l.next.Store(-1)
	go l.run()
	return l
}

func (l *serial) push(b Batch) {
	l.hold(len(b.Messages), b.Bytes)
	l.mu.Lock()
	l.queue = append(l.queue, b)
	l.mu.Unlock()
	select {
	case l.wake <- struct{}{}:
	default:
	}
	l.c.flow(l.state)
}

func (l *serial) retire() {
	if l.retired.CompareAndSwap(false, true) {
		close(l.stopping)
	}
}

func (l *serial) position() (Position, bool) {
	next := l.next.Load() // first: an epoch older than the offset would look as if the log had been cut off before it
	epoch := l.epoch.Load()
	return Position{Partition: l.part, Offset: next, LeaderEpoch: epoch}, next >= 0
}

func (l *serial) run() {
	defer close(l.done)
	for {
		b, ok := l.take()
		if !ok || !l.work(&b) {
			return
		}
		l.release(len(b.Messages), b.Bytes)
		l.c.letGo()
		if l.paused.Load() {
			l.c.flow(l.state)
		}
	}
}

func (l *serial) take() (Batch, bool) {
	for !l.retired.Load() {
		l.mu.Lock()
		if len(l.queue) > 0 {
			b := l.queue[0]
			l.queue[0] = Batch{}
			l.queue = l.queue[1:]
			l.mu.Unlock()
			return b, true
		}
		l.mu.Unlock()
		select {
		case <-l.wake:
		case <-l.stopping:
		}
	}
	return Batch{}, false
}

// work handles a batch, and returns false when the lane is to end.
func (l *serial) work(b *Batch) bool {
	l.epoch.Store(b.LeaderEpoch)
	r, limit := l.route, timeout(l.route.policy.HandleTimeout)
	var s span
	defer s.end(r)
	s.begin()
	for ms := b.Messages; len(ms) > 0; {
		if l.retired.Load() {
			return false
		}
		if r.retry && !l.ready(&ms[0], &s) {
			return false
		}
		if l.c.batch != nil {
			n, ok := l.together(ms, &s)
			if !ok {
				return false
			}
			ms = ms[n:]
			continue
		}
		m := &ms[0]
		if r.breaker.open.Load() {
			if !l.careful(m, &s) {
				return false
			}
		} else if err := l.c.call(l.ctx, limit, m); err == nil {
			s.handled++
		} else if !l.see(m, err, false, &s) {
			return false
		}
		l.next.Store(m.Offset + 1)
		ms = ms[1:]
	}
	return true
}

// ready reads what a message of a retry topic says and waits until it is due.
func (l *serial) ready(m *Message, s *span) bool {
	if m.past == nil {
		m.readPast(l.c.cfg.Group)
	}
	if d := l.dueIn(m, time.Now()); d > 0 {
		s.end(l.route)
		defer s.begin()
		return l.sleep(d)
	}
	return true
}

// together gives messages to a BatchHandler, and returns how many are done with.
func (l *serial) together(ms []Message, s *span) (int, bool) {
	now := time.Now()
	l.pointers = l.pointers[:0]
	for i := range ms[:min(len(ms), l.c.cfg.Batch)] {
		if i > 0 && l.route.retry {
			ms[i].readPast(l.c.cfg.Group)
			if l.dueIn(&ms[i], now) > 0 {
				break
			}
		}
		l.pointers = append(l.pointers, &ms[i])
	}
	all := l.pointers
	if l.route.breaker.open.Load() { // one after the other, until the topic goes on
		all = all[:1]
		if !l.careful(all[0], s) {
			return 0, false
		}
		l.next.Store(all[0].Offset + 1)
		return 1, true
	}
	err := l.c.callBatch(l.ctx, timeout(l.route.policy.HandleTimeout), all)
	be, some := partial(err, len(all))
	for i, m := range all {
		ok := true
		switch {
		case err == nil || some && be.Failed[i] == nil:
			s.handled++
		case some:
			ok = l.see(m, be.Failed[i], false, s)
		case len(all) == 1:
			ok = l.see(m, err, false, s)
		default: // nothing has failed until it failed alone
			ok = l.ctx.Err() == nil && l.careful(m, s)
		}
		if !ok {
			return 0, false
		}
		l.next.Store(m.Offset + 1)
	}
	return len(all), true
}

// careful handles one message, when the circuit breaker lets it.
func (l *serial) careful(m *Message, s *span) bool {
	probe, ok := l.enter(s)
	if !ok {
		return false
	}
	if err := l.c.call(l.ctx, timeout(l.route.policy.HandleTimeout), m); err != nil {
		return l.see(m, err, probe, s)
	}
	l.succeeded(probe, s)
	return true
}

func (l *serial) succeeded(probe bool, s *span) {
	s.handled++
	if probe {
		l.probed(true, time.Now())
	}
}

// see deals with a failed message until it is done with. It returns false when the lane is to end first.
func (l *serial) see(m *Message, err error, probe bool, s *span) bool {
	for {
		s.end(l.route)
		if l.ctx.Err() != nil { // that is why it failed
			if probe {
				l.releaseProbe()
			}
			return false
		}
		v, ok := l.c.failed(l.route, m, err, probe)
		switch {
		case probe && v.early:
			l.releaseProbe()
		case probe:
			l.probed(false, time.Now())
		}
		if ok && v.leaves() {
			var left bool
			if left, v.again = l.c.leave(l.state, l.route, m, v); v.again == 0 {
				s.begin()
				return left
			}
		}
		if ok && !l.sleep(v.again) {
			return false
		}
		s.begin()
		if probe, ok = l.enter(s); !ok {
			return false
		}
		if err = l.c.call(l.ctx, timeout(l.route.policy.HandleTimeout), m); err == nil {
			l.succeeded(probe, s)
			return true
		}
	}
}

// enter waits until the circuit breaker lets a message be tried.
func (l *serial) enter(s *span) (probe, ok bool) {
	for {
		ok, probe, wait := l.route.breaker.enter(time.Now())
		if ok {
			return probe, !probe || l.probes()
		}
		s.end(l.route)
		ok = l.sleep(wait)
		s.begin()
		if !ok {
			return false, false
		}
	}
}

// span is a stretch of work between waits: what was handled in it, and how long it took.
type span struct {
	handled int
	began   time.Time
}

func (s *span) begin() { s.began = time.Now() }

// end counts the stretch.
func (s *span) end(r *route) {
	r.counts.seconds.Add(time.Since(s.began).Seconds())
	if s.handled > 0 {
		r.counts.handled.Add(float64(s.handled))
		r.breaker.handled(s.handled)
		s.handled = 0
	}
	s.began = time.Now()
}

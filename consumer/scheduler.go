package consumer

import (
	"sync"
	"time"
)

// scheduler lets up to max messages be handled at once, the oldest ready key first. Its lock is that of its lanes.
type scheduler struct {
	c   *Consumer
	max int

	mu      sync.Mutex
	running int
	ready   []*keyQueue
}

// keyQueue is the messages of a key that are not done, in order; of a message without a key, that one alone. It is
// ready, running, parked or leaving, and only its first message ever is.
type keyQueue struct {
	lane   *keyed
	key    string
	hasKey bool
	items  []item
	probe  bool // the circuit breaker's
}

type item struct {
	m      *Message
	number uint64 // the tracker's
	own    bool   // m is a copy, and keeps no fetch in memory
}

// spawn starts as many workers as there is work for. s.mu is held.
func (s *scheduler) spawn() {
	for range min(s.max-s.running, len(s.ready)) {
		s.running++
		go s.work()
	}
}

// work handles ready keys until there are none.
func (s *scheduler) work() {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer func() { s.running-- }()
	for {
		q := s.pop()
		if q == nil {
			return
		}
		l, m := q.lane, q.items[0].m
		s.mu.Unlock()
		out := l.try(m, q.probe)
		s.mu.Lock()
		l.apply(q, out)
		if l.paused.Load() {
			s.mu.Unlock()
			s.c.flow(l.state)
			s.mu.Lock()
		}
	}
}

// pop returns the next key whose first message may be handled now. s.mu is held.
func (s *scheduler) pop() *keyQueue {
	for len(s.ready) > 0 {
		q := s.ready[0]
		s.ready[0] = nil
		s.ready = s.ready[1:]
		l, first := q.lane, q.items[0]
		if l.over(q) {
			l.drop(q)
			continue
		}
		now := time.Now()
		if d := l.dueIn(first.m, now); d > 0 {
			first.m.past.due = time.Time{} // it waits once; the time of another clock would hold it again and again
			l.park(q, d)
			continue
		}
		ok, probe, wait := l.route.breaker.enter(now)
		if !ok {
			l.park(q, wait)
			continue
		}
		if probe && !l.probes() {
			l.drop(q)
			continue
		}
		q.probe = probe
		if !l.any || first.number > l.started {
			l.any, l.started = true, first.number
		}
		return q
	}
	return nil
}

package relay

import (
	"sync"
	"time"
)

// breakers count, per topic and code, the events that would be given up lately, in this process. A bad deployment or a
// changed limit can make a great many events fail in one way. Then a circuit breaker keeps these events, and no others,
// and people decide about them once.
type breakers struct {
	now func() time.Time

	mu     sync.Mutex
	counts map[subject]*failureCount
}

type failureCount struct {
	since  time.Time
	events int
}

func newBreakers() *breakers { return &breakers{now: time.Now, counts: map[subject]*failureCount{}} }

// failed counts an event that would be given up, and reports whether that is one too many.
func (b *breakers) failed(topic, code string, s *TopicSettings) bool {
	if b == nil || s.BreakerEvents < 0 {
		return false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	name := failureSubject(topic, code)
	c := b.counts[name]
	now := b.now()
	if c == nil || now.Sub(c.since) > s.BreakerWindow {
		c = &failureCount{since: now}
		b.counts[name] = c
	}
	c.events++
	return c.events > s.BreakerEvents
}

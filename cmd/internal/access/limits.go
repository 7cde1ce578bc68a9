package access

import (
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// maxRemembered is how many clients a Limiter remembers. Beyond it, clients that have their whole burst again are
// forgotten, which changes nothing for them.
const maxRemembered = 10_000

// Limiter limits how often each of many clients may do something.
type Limiter struct {
	perSecond rate.Limit
	burst     int
	now       func() time.Time

	mu      sync.Mutex
	clients map[string]*rate.Limiter
}

// NewLimiter lets each client do perSecond things a second on average, and burst at once. perSecond 0 does not
// limit.
func NewLimiter(perSecond float64, burst int) *Limiter {
	return &Limiter{perSecond: rate.Limit(perSecond), burst: max(burst, 1), now: time.Now, clients: map[string]*rate.Limiter{}}
}

// Take counts n things of a client. It returns 0, or after how long the client may try again; then nothing
// was counted. More than the burst counts as the burst, because it could never be had.
func (l *Limiter) Take(client string, n int) time.Duration {
	if l.perSecond <= 0 {
		return 0
	}
	now := l.now()
	l.mu.Lock()
	defer l.mu.Unlock()
	c := l.clients[client]
	if c == nil {
		l.forget(now)
		c = rate.NewLimiter(l.perSecond, l.burst)
		l.clients[client] = c
	}
	r := c.ReserveN(now, min(max(n, 1), l.burst))
	if wait := r.DelayFrom(now); wait > 0 {
		r.CancelAt(now)
		return wait
	}
	return 0
}

// forget makes room for one more client. When too many clients are busy at once, a person tries many addresses;
// then all clients begin anew rather than the memory growing.
func (l *Limiter) forget(now time.Time) {
	if len(l.clients) < maxRemembered {
		return
	}
	for name, c := range l.clients {
		if c.TokensAt(now) >= float64(l.burst) {
			delete(l.clients, name)
		}
	}
	if len(l.clients) >= maxRemembered {
		clear(l.clients)
	}
}

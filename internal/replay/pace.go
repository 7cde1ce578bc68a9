package replay

import (
	"context"
	"math"
	"time"

	"github.com/postrider/postrider/internal/loop"
)

const (
	// paceTick is how much of a rate is sent at once: small enough to be even, large enough to cost little.
	paceTick = 100 * time.Millisecond
	// paceArrears is how far behind its rate a replay makes up; the backlog of a longer outage is not sent in a rush.
	paceArrears = time.Second
)

// pace keeps a rate on average, from when it is first waited for.
type pace struct {
	rate float64 // 0 does not limit
	due  time.Time
}

// most is how many messages are sent at once, of at most limit.
func (p *pace) most(limit int) int {
	if p.rate <= 0 {
		return limit
	}
	return min(max(int(math.Ceil(p.rate*paceTick.Seconds())), 1), limit)
}

// wait returns when the next n messages are due, or with the error of ctx.
func (p *pace) wait(ctx context.Context, n int) error {
	if p.rate <= 0 || n == 0 {
		return ctx.Err()
	}
	now := time.Now()
	if p.due.IsZero() || now.Sub(p.due) > paceArrears {
		p.due = now
	}
	if loop.Sleep(ctx, p.due.Sub(now)) != nil {
		return ctx.Err()
	}
	p.due = p.due.Add(time.Duration(float64(n) / p.rate * float64(time.Second)))
	return nil
}

package consumer

import (
	"context"
	"fmt"
	"time"
)

// NotBefore is what a handler returns for a message that it is too early for, before it has done anything. The message
// comes again at that time; no attempt is spent, nothing is logged, and the circuit breaker does not look at it. The topic's
// Mode says what waits until then. Tiers: the message waits in retry topics, and later messages of its key overtake it.
// Ordered: its key waits. Blocking: its partition waits. In Tiers, if the time is longer than the longest delay, the message
// goes through that retry topic repeatedly: give the Policy a long delay where messages wait for long.
func NotBefore(at time.Time) error { return &earlyError{at} }

// earlyError is the error of NotBefore.
type earlyError struct{ at time.Time }

func (e *earlyError) Error() string {
	return fmt.Sprintf("the message is not due before %s", e.at.UTC().Format(time.RFC3339Nano))
}

// Delay returns a handler that gives next each message when it is due, and not before; see NotBefore. due says when that
// is, from the message's headers or its content; the zero time, or one that has passed, is at once.
func Delay(due func(m *Message) time.Time, next Handler) Handler {
	return HandlerFunc(func(ctx context.Context, m *Message) error {
		if at := due(m); time.Until(at) > 0 {
			return NotBefore(at)
		}
		return next.Handle(ctx, m)
	})
}

// early decides what becomes of a message that is not due yet.
func (c *Consumer) early(r *route, m *Message, at, now time.Time) verdict {
	wait := max(at.Sub(now), time.Millisecond)
	if len(r.tiers) == 0 {
		return verdict{early: true, again: wait}
	}
	tier := 0
	for i, d := range r.policy.Delays {
		if d <= wait && d >= r.policy.Delays[tier] || r.policy.Delays[tier] > wait && d < r.policy.Delays[tier] {
			tier = i
		}
	}
	wait = min(wait, r.policy.Delays[tier])
	if m.past == nil {
		m.past = &past{origin: m.Origin()}
	}
	return verdict{early: true, wait: wait, record: retryRecord(m, r.tiers[tier], c.cfg.Group, failure{}, now.Add(wait))}
}

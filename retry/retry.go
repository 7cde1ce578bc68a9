// Package retry says when a failed attempt is followed by another, and when by none.
package retry

import (
	"fmt"
	"time"

	"github.com/cenkalti/backoff/v4"
)

// Policy decides when a failed event is tried again and when it is given up.
type Policy struct {
	// MaxAttempts is how many failed attempts an event has; after the last it is given up.
	// Defaults to 5.
	MaxAttempts int
	// Base is the delay after the first failed attempt. Defaults to 1s.
	Base time.Duration
	// Max caps the delay, before jitter. Defaults to 60s.
	Max time.Duration
	// Jitter is the largest share of the delay added to it at random, 0 to 1. Defaults to 0.2.
	Jitter float64
}

// Default returns 5 attempts, 1 s doubling to 60 s, and up to 20 % added at random.
func Default() Policy {
	return Policy{MaxAttempts: 5, Base: time.Second, Max: time.Minute, Jitter: 0.2}
}

// Validate returns an error that names the first field out of range.
func (p Policy) Validate() error {
	switch {
	case p.MaxAttempts < 1:
		return fmt.Errorf("max attempts is %d, it must be at least 1", p.MaxAttempts)
	case p.Base <= 0:
		return fmt.Errorf("retry base is %v, it must be positive", p.Base)
	case p.Max < p.Base:
		return fmt.Errorf("retry max is %v, it must be at least the base of %v", p.Max, p.Base)
	case !(p.Jitter >= 0 && p.Jitter <= 1): // also refuses NaN
		return fmt.Errorf("retry jitter is %v, it must be between 0 and 1", p.Jitter)
	}
	return nil
}

// Delay returns how long to wait after the given failed attempt (1 is the first):
// Base × 2^(attempt-1), at most Max, plus random × Jitter of it. random is in [0, 1); the function is
// pure, so the caller draws it.
func (p Policy) Delay(attempt int, random float64) time.Duration {
	b := backoff.NewExponentialBackOff(
		backoff.WithInitialInterval(p.Base),
		backoff.WithMaxInterval(p.Max),
		backoff.WithMultiplier(2),
		backoff.WithRandomizationFactor(0), // the library's jitter is symmetric; ours only adds
		backoff.WithMaxElapsedTime(0))
	d := b.NextBackOff()
	for i := 1; i < attempt && d < p.Max; i++ {
		d = b.NextBackOff()
	}
	d = min(d, p.Max)
	return d + time.Duration(float64(d)*p.Jitter*random)
}

// Exhausted reports whether an event with this many failed attempts is given up. own is the event's own
// limit, 0 for none.
func (p Policy) Exhausted(attempts, own int) bool {
	if own > 0 {
		return attempts >= own
	}
	return attempts >= p.MaxAttempts
}

// Package loop holds how background work repeats and waits until its context ends.
package loop

import (
	"context"
	"time"
)

// Sleep waits for d. It returns nil, or the cause of ctx's end as soon as ctx has ended.
func Sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 || ctx.Err() != nil {
		return context.Cause(ctx)
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
	return context.Cause(ctx)
}

// Every calls do at once and then at every interval, until ctx ends. Calls never overlap: one that takes longer than an
// interval is followed by the next call at once, and then by calls at the old pace. The interval must be positive.
func Every(ctx context.Context, interval time.Duration, do func(context.Context)) {
	every(ctx, interval, true, do)
}

// AfterEvery is Every with its first call after one interval.
func AfterEvery(ctx context.Context, interval time.Duration, do func(context.Context)) {
	every(ctx, interval, false, do)
}

func every(ctx context.Context, interval time.Duration, now bool, do func(context.Context)) {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for ctx.Err() == nil {
		if now {
			do(ctx)
		}
		now = true
		select {
		case <-ctx.Done():
		case <-tick.C:
		}
	}
}

// Repeat calls do until ctx ends: at once, and then each time after the pause that the call before returned.
func Repeat(ctx context.Context, do func(context.Context) (pause time.Duration)) {
	for ctx.Err() == nil {
		_ = Sleep(ctx, do(ctx)) // the condition of the loop sees that ctx ended
	}
}

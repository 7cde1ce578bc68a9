package main

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/postrider/postrider/internal/loop"
)

// pace does things at exact times: thing n is due at n divided by the rate after the start, whatever became of the
// ones before it. A client that is free takes the next one. How late they were begun is counted too: with enough
// clients it is next to nothing.
type pace struct {
	rate, clients int
	late          *histogram
}

// run does n things and returns the first error, after which no more are begun.
func (p pace) run(ctx context.Context, n int, do func(ctx context.Context, i int, due time.Time) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var next atomic.Int64
	var wg sync.WaitGroup
	start := time.Now()
	for range p.clients {
		wg.Go(func() {
			for {
				i := int(next.Add(1)) - 1
				if i >= n {
					return
				}
				due := start.Add(time.Duration(i) * time.Second / time.Duration(p.rate))
				if loop.Sleep(ctx, time.Until(due)) != nil {
					return
				}
				p.late.add(time.Since(due))
				if err := do(ctx, i, due); err != nil {
					cancel(err)
					return
				}
			}
		})
	}
	wg.Wait()
	return context.Cause(ctx)
}

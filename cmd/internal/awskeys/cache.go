package awskeys

import (
	"context"
	"sync"
	"time"
)

const (
	// askTimeout bounds one question for keys, with its answer.
	askTimeout = 5 * time.Second
	// keep is how long keys that were asked for are used before they are asked for again. Connections are made in
	// rushes, after an outage; endpoints have limits, and roles are changed.
	keep = 5 * time.Minute
	// spare is what keys must live at least, so that they do not end between here and the broker.
	spare = 30 * time.Second
)

// cache asks for keys, at most once at a time, and keeps them a while. If new keys cannot be had, the kept keys are used
// while they are known to live.
type cache struct {
	ask func(context.Context) (Keys, error)

	mu    sync.Mutex
	keys  Keys
	asked time.Time // when keys were asked for; zero is never
	under *question // nil when no question is under way
}

// question is one that is under way. The fields are set before done is closed.
type question struct {
	done chan struct{}
	keys Keys
	err  error
}

func (c *cache) get(ctx context.Context) (Keys, error) {
	c.mu.Lock()
	if !c.asked.IsZero() && time.Since(c.asked) < keep && c.live() {
		defer c.mu.Unlock()
		return c.keys, nil
	}
	q := c.under
	if q == nil {
		q = &question{done: make(chan struct{})}
		c.under = q
		// The context is not the first caller's: if that caller goes away, the others still get their keys.
		go c.run(context.WithoutCancel(ctx), q)
	}
	c.mu.Unlock()
	select {
	case <-q.done:
		return q.keys, q.err
	case <-ctx.Done():
		return Keys{}, context.Cause(ctx)
	}
}

func (c *cache) run(ctx context.Context, q *question) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	now := time.Now()
	keys, err := c.ask(ctx)
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case err == nil:
		c.keys, c.asked = keys, now
	case !c.asked.IsZero() && !c.keys.Expires.IsZero() && c.live():
		keys, err = c.keys, nil
	}
	q.keys, q.err, c.under = keys, err, nil
	close(q.done)
}

// live reports whether the keys that are there have time left.
func (c *cache) live() bool {
	return c.keys.Expires.IsZero() || time.Until(c.keys.Expires) > spare
}

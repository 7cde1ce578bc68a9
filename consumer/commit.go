package consumer

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/postrider/postrider/internal/loop"
)

// commitTimeout bounds a commit. One that fails is made again at the next turn.
const commitTimeout = 10 * time.Second

// commitPeriodically commits now and then until ctx ends.
func (c *Consumer) commitPeriodically(ctx context.Context) {
	loop.AfterEvery(ctx, c.cfg.CommitInterval, func(context.Context) {
		_ = c.commit(nil, commitTimeout) // counted and said there; the next one has it all
	})
}

// commit stores where lanes stand, if that is new; nil is all of this member's. A commit that Lost ends, or that takes
// longer than timeout, has failed.
func (c *Consumer) commit(lanes []lane, timeout time.Duration) error {
	c.committing.Lock()
	defer c.committing.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	c.mu.Lock()
	c.cancelCommit = cancel
	if lanes == nil {
		for _, l := range c.lanes {
			lanes = append(lanes, l)
		}
	}
	c.mu.Unlock()
	var positions []Position
	var advanced []*state
	for _, l := range lanes {
		if p, ok := l.position(); ok && p.Offset != l.base().committed {
			positions = append(positions, p)
			advanced = append(advanced, l.base())
		}
	}
	if len(positions) == 0 {
		return nil
	}
	if err := c.cfg.Client.Commit(ctx, positions); err != nil {
		c.m.commits.WithLabelValues(commitFailed).Inc()
		c.log.Warn("offsets were not committed", slog.Int("partitions", len(positions)), slog.Any("err", err))
		return fmt.Errorf("commit offsets: %w", err)
	}
	for i, s := range advanced {
		s.committed = positions[i].Offset
	}
	c.m.commits.WithLabelValues(commitDone).Inc()
	return nil
}

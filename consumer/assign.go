package consumer

import (
	"log/slog"
	"time"
)

// Assigned implements Events.
func (c *Consumer) Assigned(partitions []Partition) {
	c.m.changes.WithLabelValues(changeAssigned).Add(float64(len(partitions)))
	c.mu.Lock()
	defer c.mu.Unlock()
	anew := c.remove(partitions) // of a recreated topic; the messages in hand are of the old one
	if len(anew) > 0 && c.cancelCommit != nil {
		c.cancelCommit() // it may have their positions
	}
	for _, l := range anew {
		c.abandon(l)
		c.forget(l.base())
	}
	if c.stopped {
		return
	}
	for _, p := range partitions {
		if r := c.routeOf(p.Topic); r != nil {
			c.lanes[p] = c.newLane(p, r)
		}
	}
	c.assigned.Store(int64(len(c.lanes)))
}

// newLane is a lane of the kind that its topic's mode needs.
func (c *Consumer) newLane(p Partition, r *route) lane {
	s := newState(p, r)
	switch {
	case r.policy.Mode == Blocking || r.policy.Mode == Tiers && c.shared == nil:
		return newSerial(c, s)
	case c.shared != nil:
		return newKeyed(c, s, c.shared)
	}
	return newKeyed(c, s, &scheduler{c: c, max: 1})
}

// remove takes lanes off the list, all of them for nil. c.mu is held.
func (c *Consumer) remove(partitions []Partition) []lane {
	var gone []lane
	if partitions == nil {
		for p := range c.lanes {
			partitions = append(partitions, p)
		}
	}
	for _, p := range partitions {
		if l := c.lanes[p]; l != nil {
			gone = append(gone, l)
			delete(c.lanes, p)
		}
	}
	c.assigned.Store(int64(len(c.lanes)))
	return gone
}

// Revoked implements Events: messages in hand may end, and the messages that are done are committed.
func (c *Consumer) Revoked(partitions []Partition) {
	c.m.changes.WithLabelValues(changeRevoked).Add(float64(len(partitions)))
	c.mu.Lock()
	lanes := c.remove(some(partitions))
	c.mu.Unlock()
	c.end(lanes, c.cfg.RevokeTimeout)
	if len(lanes) == 0 {
		return
	}
	_ = c.commit(lanes, commitTimeout) // counted and logged there; on failure the next member handles some messages again
	for _, l := range lanes {
		c.forget(l.base())
	}
}

// Lost implements Events: no offset of these partitions may be committed any more.
func (c *Consumer) Lost(partitions []Partition) {
	c.m.changes.WithLabelValues(changeLost).Add(float64(len(partitions)))
	c.mu.Lock()
	lanes := c.remove(some(partitions))
	if c.cancelCommit != nil {
		c.cancelCommit()
	}
	c.mu.Unlock()
	for _, l := range lanes {
		l.retire()
		c.abandon(l)
		c.forget(l.base())
	}
	if len(lanes) > 0 {
		c.log.Warn("partitions were lost: their messages will be handled again elsewhere", slog.Int("partitions", len(lanes)))
	}
}

// some is never nil, which would be all.
func some(partitions []Partition) []Partition { return append([]Partition{}, partitions...) }

// grace is how long handlers have to end after their contexts have.
const grace = time.Second

// end retires lanes and waits for their messages in hand, first patiently, and then with the contexts of handlers
// ended. It returns how many lanes were left behind.
func (c *Consumer) end(lanes []lane, patience time.Duration) (abandoned int) {
	for _, l := range lanes {
		l.retire()
	}
	patient := time.NewTimer(patience)
	defer patient.Stop()
	rest := await(lanes, patient.C)
	if len(rest) > 0 {
		c.log.Warn("handlers are told to end", slog.Int("partitions", len(rest)), slog.String("after", patience.String()))
	}
	for _, l := range rest {
		l.base().cancel()
	}
	last := time.NewTimer(grace)
	defer last.Stop()
	rest = await(rest, last.C)
	for _, l := range lanes {
		c.abandon(l)
	}
	return len(rest)
}

// await returns the lanes that have not ended when the time is over.
func await(lanes []lane, over <-chan time.Time) []lane {
	for i, l := range lanes {
		select {
		case <-l.ended():
			continue
		default:
		}
		select {
		case <-l.ended():
		case <-over:
			var rest []lane
			for _, l := range lanes[i:] {
				select {
				case <-l.ended():
				default:
					rest = append(rest, l)
				}
			}
			return rest
		}
	}
	return nil
}

// abandon ends the contexts of a lane's handlers, and gives up its messages. A probe of the circuit breaker goes back
// even while its handler hangs: it would keep the topic's other partitions waiting.
func (c *Consumer) abandon(l lane) {
	l.retire()
	l.base().cancel()
	l.base().releaseProbe()
	if k, ok := l.(*keyed); ok {
		k.abandon()
	}
}

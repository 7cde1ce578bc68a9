package consumer

import (
	"cmp"
	"slices"
	"time"
)

// PartitionStatus is how a partition of this member stands.
type PartitionStatus struct {
	Partition
	// Source is the topic of Config.Topics that it belongs to.
	Source string
	// Next is the offset to read on from; -1 while nothing was done.
	Next int64
	// Lag is how many offsets lie between Next and the partition's end, as of the last fetch.
	Lag int64
	// InFlight and InFlightBytes are the number and the size of the messages that were read and are not done.
	InFlight, InFlightBytes int64
	// Paused says that it is not fetched, because it has used up its share of the memory, or MaxAhead.
	Paused bool
	// Standing says why a failed message can neither be tried again nor be given up, so that its offset cannot move;
	// empty when there is no such message. Since is when that began.
	Standing string
	Since    time.Time
	// BreakerOpen says that its topic pauses, see Breaker.
	BreakerOpen bool
}

// Status returns the partitions of this member, in order.
func (c *Consumer) Status() []PartitionStatus {
	c.mu.Lock()
	lanes := make([]lane, 0, len(c.lanes))
	for _, l := range c.lanes {
		lanes = append(lanes, l)
	}
	c.mu.Unlock()
	out := make([]PartitionStatus, 0, len(lanes))
	for _, l := range lanes {
		s := l.base()
		p := PartitionStatus{Partition: s.part, Source: s.route.source, Next: -1, InFlight: s.held.Load(), InFlightBytes: s.heldBytes.Load(),
			Paused: s.paused.Load(), BreakerOpen: s.route.breaker.open.Load()}
		if at, ok := l.position(); ok {
			p.Next = at.Offset
			p.Lag = max(s.end.Load()-at.Offset, 0)
		} else {
			p.Lag = p.InFlight
		}
		p.Standing, p.Since = s.standing()
		out = append(out, p)
	}
	slices.SortFunc(out, func(a, b PartitionStatus) int {
		return cmp.Or(cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.ID, b.ID))
	})
	return out
}

// Resume lets a topic that pauses because its breaker is open try its next message now; see Breaker. It returns false
// when the topic does not pause.
func (c *Consumer) Resume(topic string) bool {
	r := c.routes[topic]
	return r != nil && r.breaker.resume()
}

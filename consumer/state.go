package consumer

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"
)

// lane is a partition that this member has: its messages in hand, and how far they are done.
type lane interface {
	base() *state
	// push takes over the messages of a fetch. It does not wait.
	push(b Batch)
	// retire takes up no new message; ended is closed when the messages in hand are done.
	retire()
	ended() <-chan struct{}
	// position is where the partition is to be read on from; not ok while nothing is known to be done.
	position() (Position, bool)
}

// state is common to all lanes.
type state struct {
	part  Partition
	route *route
	// ctx is the context of handlers; it ends when the lane is abandoned.
	ctx    context.Context
	cancel context.CancelFunc
	// stopping is closed by retire; retired says the same faster.
	stopping chan struct{}
	retired  atomic.Bool
	done     chan struct{}

	held, heldBytes atomic.Int64 // read and not done with
	ahead           atomic.Int64 // from the oldest that is not done on; lanes in order of offset leave it 0
	end             atomic.Int64 // behind the newest record that may be read

	flowMu sync.Mutex
	paused atomic.Bool // set under flowMu
	gone   bool        // under flowMu: it is not this member's any more

	committed int64 // under Consumer.committing

	probing atomic.Bool // one of its messages is the circuit breaker's probe

	troubleMu sync.Mutex
	troubles  map[*trouble]struct{} // of messages that cannot leave
}

// trouble is why a message cannot leave, so that its partition stands. Its fields are under state.troubleMu.
type trouble struct {
	why   string
	since time.Time
	over  bool // it left, or is given up here; a timer may tell of it late
}

func newState(p Partition, r *route) *state {
	s := &state{part: p, route: r, stopping: make(chan struct{}), done: make(chan struct{}), committed: -1, troubles: map[*trouble]struct{}{}}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	return s
}

func (s *state) base() *state           { return s }
func (s *state) ended() <-chan struct{} { return s.done }

// sleep waits, and returns false when the lane is to end instead.
func (s *state) sleep(d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return !s.retired.Load()
	case <-s.stopping:
	case <-s.ctx.Done():
	}
	return false
}

// dueIn is how long the message is to wait yet, at most the longest delay of a tier: a later time comes from a clock
// that differs.
func (s *state) dueIn(m *Message, now time.Time) time.Duration {
	if m.past == nil || m.past.due.IsZero() {
		return 0
	}
	return min(m.past.due.Sub(now), s.route.longest)
}

// probes takes note that a message is the circuit breaker's probe. It returns false when the lane was abandoned before.
func (s *state) probes() bool {
	s.probing.Store(true)
	if s.ctx.Err() != nil {
		s.releaseProbe()
		return false
	}
	return true
}

// probed ends the probe, unless the lane was abandoned with it.
func (s *state) probed(handled bool, now time.Time) {
	if s.probing.CompareAndSwap(true, false) {
		s.route.breaker.probed(handled, now)
	}
}

// releaseProbe lets another partition's message be the probe.
func (s *state) releaseProbe() {
	if s.probing.CompareAndSwap(true, false) {
		s.route.breaker.release()
	}
}

// stands takes note that a message cannot leave for a topic, so that the partition stands.
func (s *state) stands(c *Consumer, t *trouble, topic string, err error) {
	s.troubleMu.Lock()
	if t.over {
		s.troubleMu.Unlock()
		return
	}
	if t.why == "" {
		t.since = time.Now()
		s.troubles[t] = struct{}{}
	}
	t.why = "topic " + topic + " does not take a failed message: " + err.Error()
	s.troubleMu.Unlock()
	c.log.Error("a partition stands: a failed message can neither be tried again nor be given up", slog.String("topic", s.part.Topic),
		slog.Int("partition", int(s.part.ID)), slog.String("to", topic), slog.Any("err", err))
}

// goesOn ends what stands began, for this message.
func (s *state) goesOn(t *trouble) {
	s.troubleMu.Lock()
	defer s.troubleMu.Unlock()
	t.over = true
	delete(s.troubles, t)
}

// standing is the oldest trouble.
func (s *state) standing() (why string, since time.Time) {
	s.troubleMu.Lock()
	defer s.troubleMu.Unlock()
	for t := range s.troubles {
		if why == "" || t.since.Before(since) {
			why, since = t.why, t.since
		}
	}
	return why, since
}

func (s *state) hold(n int, bytes int64) {
	s.held.Add(int64(n))
	s.heldBytes.Add(bytes)
}

// release is the reverse of hold.
func (s *state) release(n int, bytes int64) { s.hold(-n, -bytes) }

// flow pauses the fetching of a partition that has used up its share of the memory, and resumes it at half of that. A
// pause throws away records that were fetched and not read, so it must not come and go with every record.
func (c *Consumer) flow(s *state) {
	s.flowMu.Lock()
	defer s.flowMu.Unlock()
	if s.gone {
		return
	}
	if c.use(s) >= 1 && !s.paused.Load() {
		s.paused.Store(true)
		c.cfg.Client.Pause(s.part)
	}
	// Also for a partition that was paused just now: a worker that released its last message meanwhile did not see the
	// pause, and will not come again.
	if s.paused.Load() && c.use(s) <= 0.5 {
		s.paused.Store(false)
		c.cfg.Client.Resume(s.part)
	}
}

// use is how much of its share a partition has used up.
func (c *Consumer) use(s *state) float64 {
	share, shareBytes := c.share()
	return max(float64(s.held.Load())/float64(share), float64(s.heldBytes.Load())/float64(shareBytes),
		float64(s.ahead.Load())/float64(c.cfg.MaxAhead))
}

// forget ends the flow control of a partition that the lane no longer has, and resumes its fetching where it was
// paused.
func (c *Consumer) forget(s *state) {
	s.flowMu.Lock()
	defer s.flowMu.Unlock()
	s.gone = true
	if s.paused.Load() {
		s.paused.Store(false)
		c.cfg.Client.Resume(s.part)
	}
}

// share is how many messages and bytes each partition may hold.
func (c *Consumer) share() (records, bytes int64) {
	n := max(c.assigned.Load(), 1)
	return max(int64(c.cfg.MaxInFlight)/n, 1), max(c.cfg.MaxInFlightBytes/n, 1)
}

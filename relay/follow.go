package relay

import "time"

const (
	// lettersPause is the longest pause before exhausted events are looked for that another relay left.
	lettersPause = 250 * time.Millisecond
	// restAtMost is the longest pause before it is looked whether another relay left something that is due.
	restAtMost = 500 * time.Millisecond
)

func newReturning() *idle {
	i := newIdle(20*time.Millisecond, 50*time.Millisecond, 0)
	i.slow = restAtMost
	return i
}

// follow wakes the loops that go on with what a settlement leaves: dead letters, and what is due later. What
// other relays leave is theirs, as long as they live.
func (r *Relay) follow(s *Settlement) {
	if len(s.Exhausted) > 0 {
		r.letters.busy(1)
	}
	if len(s.Holds)+len(s.Parked)+len(s.Scheduled)+len(s.Proven) > 0 {
		r.returning.busy(1)
	}
}

// rest says that nothing is due for d; 0 says nothing. Whatever is busy before that ends the rest.
func (i *idle) rest(d time.Duration) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.resting = d != 0; i.resting {
		i.rested = time.Now().Add(d)
	}
}

// untilRested is the pause of a loop that knows when something is due. Call it with mu held.
func (i *idle) untilRested() time.Duration {
	return min(max(time.Until(i.rested), i.min), i.slow)
}

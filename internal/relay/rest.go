package relay

import (
	"context"
	"sync"
	"time"
)

const (
	// restFrom is the pause of the reader from which on a relay rests that may rest.
	restFrom = 100 * time.Millisecond
	// restLongest is the longest pause of a loop while the relay rests: what there is to do wakes it.
	restLongest = time.Hour
	// fullGlance is how many glances there are to one that looks at more than the log, while nothing waits: then the relay itself
	// leaves nothing else to do, and only people do.
	fullGlance = 10
	// restingPurge is the pause between two looks for rows that are kept no longer, of a relay that rests, and the longest one before
	// the first. It grows to restingPurgeMost while there are none: each look takes a connection of its own.
	restingPurge     = 10 * time.Minute
	restingPurgeMost = time.Hour
)

// rest is whether a relay rests. Its loops do not look for themselves then: the reader glances at the outbox, and wakes those
// that have something to do.
type rest struct {
	mu    sync.Mutex
	rests bool
	bare  bool // the last glance saw nothing that waits
}

// resting reports whether the reader looks for all loops. A nil rest never does.
func (r *rest) resting() bool {
	if r == nil {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.rests
}

// empty reports whether nothing waits in the outbox, as a glance has just seen.
func (r *rest) empty() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.bare
}

// stir says that something may wait.
func (r *rest) stir() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.bare = false
}

func (r *rest) set(rests, bare bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.rests, r.bare = rests, bare
}

// mayRest reports whether a glance would find all that a read would, and nothing came for a while.
func (t *term) mayRest() bool {
	return t.cfg.Rests && t.once == nil && t.gaps.empty() && !t.waitsForLook && t.idle.slowed(restFrom)
}

// takeRest returns when there is something to read, or ctx ended. A glance that fails is no reason to end the term: the loops
// look for themselves, and say what is wrong.
func (t *term) takeRest(ctx context.Context) {
	t.rest.set(true, false)
	defer func() {
		t.rest.set(false, false)
		t.letters.wakeUp()
		t.wakeHolds()
	}()
	for n := 1; ; n++ {
		t.idle.wait(ctx)
		all := n%fullGlance == 0 || !t.rest.empty()
		bounded, cancel := context.WithTimeout(ctx, cycleTimeout)
		g, err := t.leader.Glance(bounded, t.position, all)
		cancel()
		if err != nil || g.Events {
			return
		}
		if !all {
			continue
		}
		t.rest.set(true, !g.Tend && !g.Letters && !g.Waits)
		if g.Letters {
			t.letters.wakeUp()
		}
		if g.Tend {
			t.wakeHolds()
		}
	}
}

package relay

import (
	"sync/atomic"
	"time"
)

// crowdLeave is the time without events after which a relay counts as quiet.
const crowdLeave = 100 * time.Millisecond

// Crowd is the relays of one process, which share its processor and mostly a database server. The more of them find events,
// the further apart each looks, so that all together look about as often as one would.
type Crowd struct{ busy atomic.Int64 }

// size is how many relays find events, at least 1. A nil Crowd is one relay.
func (c *Crowd) size() int64 {
	if c == nil {
		return 1
	}
	return max(1, c.busy.Load())
}

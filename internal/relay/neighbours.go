package relay

import (
	"sync/atomic"
	"time"
)

// quietAfter is the time without events after which a relay counts as quiet.
const quietAfter = 100 * time.Millisecond

// Neighbours are the relays of one process, which share its processor and mostly a database server. The more of them find events,
// the further apart each looks, so that all together look about as often as one would.
type Neighbours struct{ busy atomic.Int64 }

// size is how many relays find events, at least 1. A nil *Neighbours is one relay.
func (n *Neighbours) size() int64 {
	if n == nil {
		return 1
	}
	return max(1, n.busy.Load())
}

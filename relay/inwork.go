package relay

import (
	"context"
	"sync"

	"github.com/postrider/postrider/relay/outbox"
)

// inWork knows the shards that the workers of this process work on. When a worker loses its connection, or
// fails to settle, the database has freed its shards already, and another worker of the process could claim
// them before what was acknowledged is remembered, and send it again.
type inWork struct {
	mu     sync.Mutex
	shards [outbox.Shards]chan struct{} // closed when the work is over
}

// begin marks the shards of a batch; the function it returns ends that.
func (s *inWork) begin(b *Batch) (end func()) {
	over := make(chan struct{})
	s.mu.Lock()
	for i := range b.Events {
		s.shards[b.Events[i].Shard&(outbox.Shards-1)] = over
	}
	s.mu.Unlock()
	return func() {
		s.mu.Lock()
		for n := range s.shards {
			if s.shards[n] == over {
				s.shards[n] = nil
			}
		}
		s.mu.Unlock()
		close(over)
	}
}

// await waits until no other worker of this process works on a shard of the batch. As long as its lock is
// held nobody does; so this waits for one that lost its lock. After an error, which is that of ctx, somebody may
// still be sending the batch.
func (s *inWork) await(ctx context.Context, b *Batch) error {
	var last chan struct{}
	s.mu.Lock()
	var waits []chan struct{}
	for i := range b.Events {
		if c := s.shards[b.Events[i].Shard&(outbox.Shards-1)]; c != nil && c != last {
			waits, last = append(waits, c), c
		}
	}
	s.mu.Unlock()
	for _, c := range waits {
		select {
		case <-c:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

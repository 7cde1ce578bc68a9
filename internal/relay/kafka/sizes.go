package kafka

import (
	"errors"
	"sync"
	"sync/atomic"
	"time"
)

// metadataMaxAge is how long a client goes on with what it knows of topics. Of several relays each learns of added
// partitions by itself, and until the last one has, the events of a key that moves go to its old partition and to its
// new one in turn.
const metadataMaxAge = 30 * time.Second

// oldSizeFor is how long brokers may go on naming the old number of partitions after one has named a larger one.
const oldSizeFor = 10 * time.Second

// errPartitionsChanged is the error of records that a client would put by a number of partitions that their topic has no
// more.
var errPartitionsChanged = errors.New("the topic has another number of partitions than this client knew; a new client sends it")

// sizes are the numbers of partitions by which this process puts keys. Each client has its own view of the topics, and
// takes its turn with batches: without sizes, a client that knows of added partitions and a client that does not
// would send a key to its new and to its old partition in turn. With sizes a key moves once.
type sizes struct {
	mu      sync.Mutex
	topics  map[string]size
	changes atomic.Int64
}

type size struct {
	partitions int
	grew       time.Time
}

// see is told of the number of partitions by which a client would put a record. ok says that it may. changed says that
// other clients know another number: they are not to be used again. A smaller number comes from a client that has
// not heard of added partitions; after oldSizeFor, it means that the topic was deleted and made anew.
func (s *sizes) see(topic string, n int) (ok, changed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	known, there := s.topics[topic]
	switch {
	case n == known.partitions:
		return true, false
	case n < known.partitions && time.Since(known.grew) < oldSizeFor:
		return false, false
	}
	now := size{partitions: n}
	if n > known.partitions {
		now.grew = time.Now()
	}
	if s.topics == nil {
		s.topics = map[string]size{}
	}
	s.topics[topic] = now
	if there {
		s.changes.Add(1)
	}
	return true, there
}

// have reports whether a topic has been seen with this partition.
func (s *sizes) have(topic string, partition int32) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return int(partition) < s.topics[topic].partitions
}

// forget is for topics that are gone, or may have been made anew by now.
func (s *sizes) forget(topic string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.topics, topic)
}

// maySend reports whether records of a topic may go by this number of partitions. If the number has
// changed, no client that exists now is used again.
func (p *Publisher) maySend(topic string, partitions int) bool {
	ok, changed := p.sizes.see(topic, partitions)
	if changed {
		p.cfg.Logger.Info("the topic has another number of partitions than before: some keys have moved", "topic", topic, "partitions", partitions)
		p.mu.Lock()
		p.generation++
		p.mu.Unlock()
	}
	return ok
}

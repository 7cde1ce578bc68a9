package kafka

import (
	"math/rand/v2"
	"sync"
)

// stuck counts, per partition, the records that are with a client and without an answer although their
// batch is settled. Records without a key go elsewhere meanwhile.
type stuck struct {
	mu     sync.Mutex
	topics map[string]map[int32]int
	sizes  map[string]int32 // partitions of the topics above
}

func (s *stuck) add(topic string, partition, partitions int32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.topics == nil {
		s.topics, s.sizes = map[string]map[int32]int{}, map[string]int32{}
	}
	if s.topics[topic] == nil {
		s.topics[topic] = map[int32]int{}
	}
	s.topics[topic][partition]++
	s.sizes[topic] = partitions
}

func (s *stuck) remove(topic string, partition int32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.topics[topic]
	if t[partition]--; t[partition] <= 0 {
		delete(t, partition)
	}
	if len(t) == 0 {
		delete(s.topics, topic)
		delete(s.sizes, topic)
	}
}

// all reports whether every partition of a topic is stuck.
func (s *stuck) all(topic string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := len(s.topics[topic])
	return n > 0 && n >= int(s.sizes[topic])
}

// choose picks one of n partitions that is not stuck, where there is one.
func (s *stuck) choose(topic string, n int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.topics[topic]
	first := rand.IntN(n)
	for i := range n {
		if pick := (first + i) % n; t[int32(pick)] == 0 {
			return pick
		}
	}
	return first
}

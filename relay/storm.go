package relay

import (
	"sync"
	"time"
)

// storms counts, per topic, what was given up and what was delivered lately, in this process. A bad
// deployment or a changed limit can make every event of a topic fail: then holding the topic is kinder
// than a dead letter for each.
type storms struct {
	now func() time.Time

	mu     sync.Mutex
	topics map[string]*topicTally
}

type topicTally struct {
	since                time.Time
	exhausted, delivered int
}

func newStorms() *storms { return &storms{now: time.Now, topics: map[string]*topicTally{}} }

// delivered counts one. Topics of which nothing was given up lately are not counted.
func (s *storms) delivered(topic string) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if t := s.topics[topic]; t != nil {
		t.delivered++
	}
}

// exhausted counts one, and reports whether that is too many.
func (s *storms) exhausted(topic string, settings *TopicSettings) bool {
	if s == nil || settings.StormEvents < 0 {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.topics[topic]
	if t == nil || s.now().Sub(t.since) > settings.StormWindow {
		t = &topicTally{since: s.now()}
		s.topics[topic] = t
	}
	t.exhausted++
	return t.exhausted > settings.StormEvents && t.exhausted > t.delivered
}

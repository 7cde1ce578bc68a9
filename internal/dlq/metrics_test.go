package dlq

import (
	"fmt"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"
)

// TestLettersByTopic: however many topics dead letters name, the labels stay few and every letter is counted.
func TestLettersByTopic(t *testing.T) {
	t.Parallel()
	m, err := newMetrics(nil)
	if err != nil {
		t.Fatal(err)
	}
	m.of([]Letter{{OriginTopic: "orders", DLQTopic: "dead"}, {OriginTopic: "orders", DLQTopic: "dead"}, {DLQTopic: "dead"}})
	for range 2 {
		var many []Letter
		for n := range 100 {
			many = append(many, Letter{OriginTopic: fmt.Sprintf("t%03d", n)})
		}
		m.of(many)
	}
	for topic, want := range map[string]float64{"orders": 2, "dead": 1, "t000": 2, otherTopics: 2 * (100 - (maxNamedTopics - 2))} {
		if got := testutil.ToFloat64(m.topics.WithLabelValues(topic)); got != want {
			t.Errorf("%v letters of %s, want %v", got, topic, want)
		}
	}
	if n := testutil.CollectAndCount(m.topics); n != maxNamedTopics+1 {
		t.Errorf("%d series", n)
	}
}

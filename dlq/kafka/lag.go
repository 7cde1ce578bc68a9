package kafka

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	// maxLagTopics is how many topics the metric of the lag names; the others are one.
	maxLagTopics = 100
	// otherTopics is the label of the others: no topic can have this name.
	otherTopics = "(others)"
)

// lag knows how many records lie behind what this member has read, as its fetches say. A partition that has had none
// since this member took it over is not counted.
type lag struct {
	mu      sync.Mutex
	behind  map[partition]int64
	labels  map[string]string // of the topics that were met first
	records *prometheus.Desc
}

func newLag() *lag {
	return &lag{behind: map[partition]int64{}, labels: map[string]string{}, records: prometheus.NewDesc("postrider_collector_lag_records",
		"Records of dead-letter topics behind those that this collector has read, by topic, of the partitions that it has read from; of more than 100 topics the later ones are one, named (others). Markers of transactions count, too.",
		[]string{"topic"}, nil)}
}

// read takes note of a fetch with records.
func (l *lag) read(topic string, f *kgo.FetchPartition) {
	end := f.HighWatermark
	if f.LastStableOffset >= 0 {
		end = min(end, f.LastStableOffset) // what comes after it cannot be read yet
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.behind[partition{topic, f.Partition}] = max(0, end-f.Records[len(f.Records)-1].Offset-1)
}

// lost forgets partitions that are another member's now, or of topics that are gone.
func (l *lag) lost(lost map[string][]int32) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for topic, ids := range lost {
		for _, id := range ids {
			delete(l.behind, partition{topic, id})
		}
	}
}

// Describe implements prometheus.Collector.
func (l *lag) Describe(ch chan<- *prometheus.Desc) { ch <- l.records }

// Collect implements prometheus.Collector.
func (l *lag) Collect(ch chan<- prometheus.Metric) {
	l.mu.Lock()
	sums := map[string]int64{}
	for at, n := range l.behind {
		label, met := l.labels[at.topic]
		if !met {
			if label = otherTopics; len(l.labels) < maxLagTopics {
				label = at.topic
				l.labels[at.topic] = label
			}
		}
		sums[label] += n
	}
	l.mu.Unlock()
	for label, n := range sums {
		ch <- prometheus.MustNewConstMetric(l.records, prometheus.GaugeValue, float64(n), label)
	}
}

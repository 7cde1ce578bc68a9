package dlq

import (
	"cmp"
	"maps"
	"slices"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
)

// Label values of the collector's metrics.
const (
	outcomeOpened   = "opened"
	outcomeAdded    = "added"
	outcomeRepeated = "repeated"
	// outcomeOtherDesk: the letter is another desk's.
	outcomeOtherDesk = "other_desk"

	stagePoll   = "poll"
	stageStore  = "store"
	stageCommit = "commit"
)

type metrics struct {
	letters *prometheus.CounterVec
	errors  *prometheus.CounterVec
	refused prometheus.Counter
	// originals are counted by their state.
	originals *prometheus.CounterVec
	topics    *prometheus.CounterVec

	mu    sync.Mutex
	named map[string]bool // topics that have a series of their own
}

// maxNamedTopics is how many topics are told apart by postrider_collector_topic_letters_total; the others are one.
const maxNamedTopics = 64

// newMetrics registers the collector's metrics; reg may be nil. All label values exist from the start,
// so that a rate over them is right from the first letter on.
func newMetrics(reg prometheus.Registerer) (*metrics, error) {
	m := &metrics{
		letters: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "postrider_collector_letters_total",
			Help: "Dead letters read, by what became of them: opened an investigation, added to a pending one, repeated one that was recorded before, or were left to the desk that their source obeys (other_desk).",
		}, []string{"outcome"}),
		errors: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "postrider_collector_errors_total",
			Help: "Failed operations of the collector by stage: poll, store or commit. Letters are read and stored again until they are recorded.",
		}, []string{"stage"}),
		refused: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "postrider_collector_refused_letters_total",
			Help: "Dead letters that the database refused, recorded in a reduced form.",
		}),
	}
	m.originals = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "postrider_collector_originals_total",
		Help: "Records that were asked for because a dead letter only points to them, by what became of it: fetched, deleted, compacted, marker, absent, other_record, no_topic; or no_leader, refused, unanswered, which may pass.",
	}, []string{"state"})
	m.topics = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "postrider_collector_topic_letters_total",
		Help: "Dead letters read, by the topic that the message was bound for or came from; where none is named, by the dead-letter topic. Topics past the 64th are one, other.",
	}, []string{"topic"})
	m.named = map[string]bool{}
	for _, state := range OriginalStates() {
		m.originals.WithLabelValues(string(state))
	}
	for _, outcome := range []string{outcomeOpened, outcomeAdded, outcomeRepeated, outcomeOtherDesk} {
		m.letters.WithLabelValues(outcome)
	}
	for _, stage := range []string{stagePoll, stageStore, stageCommit} {
		m.errors.WithLabelValues(stage)
	}
	if reg == nil {
		return m, nil
	}
	for _, c := range []prometheus.Collector{m.letters, m.errors, m.refused, m.originals, m.topics} {
		if err := reg.Register(c); err != nil {
			return nil, err
		}
	}
	return m, nil
}

func (m *metrics) recorded(r Recorded) {
	m.letters.WithLabelValues(outcomeOpened).Add(float64(r.Opened))
	m.letters.WithLabelValues(outcomeAdded).Add(float64(r.Added))
	m.letters.WithLabelValues(outcomeRepeated).Add(float64(r.Repeated))
}

// of counts letters by their topics.
func (m *metrics) of(letters []Letter) {
	counts := map[string]int{}
	for i := range letters {
		counts[cmp.Or(letters[i].OriginTopic, letters[i].DLQTopic)]++
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, topic := range slices.Sorted(maps.Keys(counts)) {
		label := topic
		if m.named[topic] || len(m.named) < maxNamedTopics {
			m.named[topic] = true
		} else {
			label = otherTopics
		}
		m.topics.WithLabelValues(label).Add(float64(counts[topic]))
	}
}

func (m *metrics) failed(stage string) { m.errors.WithLabelValues(stage).Inc() }

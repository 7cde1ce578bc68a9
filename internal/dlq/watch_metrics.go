package dlq

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// watchMetrics are the metrics of a Watch.
type watchMetrics struct {
	pending  *prometheus.GaugeVec
	oldest   prometheus.Gauge
	maxAge   prometheus.Gauge
	ages     *agesSnapshot
	resolved *prometheus.CounterVec
	duration *prometheus.HistogramVec
	groups   *prometheus.GaugeVec
	opened   *prometheus.CounterVec
	readAt   prometheus.Gauge
	errors   *prometheus.CounterVec

	lag       *prometheus.GaugeVec
	lagReadAt prometheus.Gauge
	known     map[Reason]bool   // reasons that have a gauge
	topics    map[string]string // the label of each topic that was shown
}

// maxLagTopics is how many dead-letter topics are told apart; the others are one.
const maxLagTopics = 64

const otherTopics = "other"

func newWatchMetrics(cfg WatchConfig) (*watchMetrics, error) {
	m := &watchMetrics{
		pending: prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "postrider_dlq_pending_entries",
			Help: "Pending investigations, by reason."}, []string{"reason"}),
		oldest: prometheus.NewGauge(prometheus.GaugeOpts{Name: "postrider_dlq_oldest_pending_age_seconds",
			Help: "Age of the oldest pending investigation; 0 when there is none."}),
		maxAge: prometheus.NewGauge(prometheus.GaugeOpts{Name: "postrider_dlq_max_pending_age_seconds",
			Help: "The setting dlq.max_pending_age_hours: how old a pending investigation may become before the alert about it."}),
		ages: &agesSnapshot{desc: prometheus.NewDesc("postrider_dlq_pending_age_seconds",
			"Ages of the investigations that are pending now, of the 10000 oldest at most. It shows a moment: its buckets fall when investigations are closed, so use no rate of it.", nil, nil)},
		resolved: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "postrider_dlq_investigations_resolved_total",
			Help: "Investigations closed since this process began to watch, by people, programs and SQL, by what they came to (manually_resolved, permanently_failed, cancelled) and reason. Counted some seconds later; investigations that were purged by then are not."},
			[]string{"resolution_status", "reason"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "postrider_dlq_investigation_duration_seconds",
			Help:    "Time from the opening of investigations to their closing, counted as postrider_dlq_investigations_resolved_total.",
			Buckets: []float64{60, 600, 3600, 4 * 3600, 12 * 3600, 86400, 3 * 86400, 7 * 86400, 28 * 86400}},
			[]string{"resolution_status", "reason"}),
		groups: prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "postrider_dlq_groups",
			Help: fmt.Sprintf("Groups of investigations of one cause, by state (new, ongoing, regressed, resolved, muted); up to %d of a state are counted.", watchAges)}, []string{"state"}),
		opened: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "postrider_dlq_groups_opened_total",
			Help: "Causes that people have not seen: groups that were made (new), or came back after all of them had been closed (regressed), since this process began to watch. Muted groups do not come back. Counted some seconds later, by every process that watches."}, []string{"kind"}),
		readAt: prometheus.NewGauge(prometheus.GaugeOpts{Name: "postrider_dlq_read_timestamp_seconds",
			Help: "When the pending investigations were last counted; the other metrics about them are as old."}),
		errors: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "postrider_dlq_read_errors_total",
			Help: "Looks at investigations, or at the lag of the collector, that failed; the metrics stay as they were."}, []string{"check"}),
		lag: prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "postrider_collector_lag_records",
			Help: "Records of dead-letter topics that the collectors have yet to store, by topic; topics past the 64th are one, other."}, []string{"topic"}),
		lagReadAt: prometheus.NewGauge(prometheus.GaugeOpts{Name: "postrider_collector_lag_read_timestamp_seconds",
			Help: "When the lag of the collectors was last read; 0 before the first time."}),
		known: map[Reason]bool{}, topics: map[string]string{},
	}
	m.maxAge.Set(cfg.MaxPendingAge.Seconds())
	for _, reason := range Reasons() {
		m.known[reason] = true
		m.pending.WithLabelValues(string(reason))
		for _, status := range Statuses() {
			if status != Pending {
				m.resolved.WithLabelValues(string(status), string(reason))
			}
		}
	}
	for _, state := range GroupStates() {
		m.groups.WithLabelValues(string(state))
	}
	for _, kind := range []GroupState{GroupNew, GroupRegressed} {
		m.opened.WithLabelValues(string(kind))
	}
	for _, check := range []string{"investigations", "opened_groups", "closed_investigations", "lag"} {
		m.errors.WithLabelValues(check)
	}
	if cfg.Registerer == nil {
		return m, nil
	}
	for _, c := range []prometheus.Collector{m.pending, m.oldest, m.maxAge, m.ages, m.resolved, m.duration, m.groups, m.opened, m.readAt,
		m.errors, m.lag, m.lagReadAt} {
		if err := cfg.Registerer.Register(c); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// show shows how investigations stand. Each gauge is set once, so that no scrape sees one fall that did not.
func (m *watchMetrics) show(s Standing, now time.Time) {
	for reason := range s.Pending {
		m.known[reason] = true
	}
	for reason := range m.known {
		m.pending.WithLabelValues(string(reason)).Set(float64(s.Pending[reason]))
	}
	for _, state := range GroupStates() {
		m.groups.WithLabelValues(string(state)).Set(float64(s.Groups[state]))
	}
	m.oldest.Set(s.Oldest.Seconds())
	m.ages.set(s)
	m.readAt.Set(unix(now))
}

func (m *watchMetrics) groupsOpened(n OpenedGroups) {
	m.opened.WithLabelValues(string(GroupNew)).Add(float64(n.New))
	m.opened.WithLabelValues(string(GroupRegressed)).Add(float64(n.Regressed))
}

func (m *watchMetrics) closed(c Closed) {
	m.resolved.WithLabelValues(string(c.Status), string(c.Reason)).Inc()
	m.duration.WithLabelValues(string(c.Status), string(c.Reason)).Observe(c.Took.Seconds())
}

// showLag shows the lag of each topic. A topic that is no longer read has none.
func (m *watchMetrics) showLag(lag map[string]int64, now time.Time) {
	names := make([]string, 0, len(lag))
	for topic := range lag {
		names = append(names, topic)
	}
	slices.Sort(names)
	for _, topic := range names {
		if _, known := m.topics[topic]; known {
			continue
		}
		m.topics[topic] = topic
		if len(m.topics) > maxLagTopics {
			m.topics[topic] = otherTopics
		}
	}
	sums := map[string]int64{}
	for topic, label := range m.topics {
		sums[label] += lag[topic]
	}
	for label, n := range sums {
		m.lag.WithLabelValues(label).Set(float64(n))
	}
	m.lagReadAt.Set(unix(now))
}

func unix(t time.Time) float64 { return float64(t.UnixMilli()) / 1000 }

// agesSnapshot shows the ages of one moment as a histogram.
type agesSnapshot struct {
	desc *prometheus.Desc

	mu       sync.Mutex
	standing Standing
}

func (a *agesSnapshot) set(s Standing) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.standing = s
}

// Describe implements prometheus.Collector.
func (a *agesSnapshot) Describe(ch chan<- *prometheus.Desc) { ch <- a.desc }

// Collect implements prometheus.Collector.
func (a *agesSnapshot) Collect(ch chan<- prometheus.Metric) {
	a.mu.Lock()
	defer a.mu.Unlock()
	buckets, n := map[float64]uint64{}, uint64(0)
	for i, bound := range AgeBounds() {
		if i < len(a.standing.Ages) {
			n += uint64(a.standing.Ages[i])
		}
		buckets[bound] = n
	}
	if last := len(AgeBounds()); last < len(a.standing.Ages) {
		n += uint64(a.standing.Ages[last])
	}
	ch <- prometheus.MustNewConstHistogram(a.desc, n, a.standing.AgeSum.Seconds(), buckets)
}

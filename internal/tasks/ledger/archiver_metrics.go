package ledger

import "github.com/prometheus/client_golang/prometheus"

// archiverMetrics are the archiver's own; a nil registerer keeps them to itself.
type archiverMetrics struct {
	archived *prometheus.CounterVec
	seconds  prometheus.Histogram
	failures prometheus.Counter
	// dashboards counts renewals of the summaries behind the views that failed.
	dashboards prometheus.Counter
}

func newArchiverMetrics(reg prometheus.Registerer) *archiverMetrics {
	m := &archiverMetrics{
		archived: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "postrider_tasks_archived_total",
			Help: "Tasks moved into the archive, by final_state: complete, error, cancelled, dlq_resolved."}, []string{"final_state"}),
		seconds: prometheus.NewHistogram(prometheus.HistogramOpts{Name: "postrider_archive_duration_seconds",
			Help: "Time of one transaction of the archiver, which moves up to 250 tasks.", Buckets: prometheus.ExponentialBuckets(0.005, 2, 14)}),
		failures: prometheus.NewCounter(prometheus.CounterOpts{Name: "postrider_archive_failures_total",
			Help: "Passes of the archiver that failed; what they had moved until then stays moved."}),
		dashboards: prometheus.NewCounter(prometheus.CounterOpts{Name: "postrider_dashboard_failures_total",
			Help: "Renewals of the summaries behind the dashboard views that failed."}),
	}
	for _, f := range FinalStates() {
		m.archived.WithLabelValues(string(f))
	}
	if reg != nil {
		reg.MustRegister(m.archived, m.seconds, m.failures, m.dashboards)
	}
	return m
}

func (m *archiverMetrics) count(a Archived) {
	for _, f := range FinalStates() {
		m.archived.WithLabelValues(string(f)).Add(float64(a.by(f)))
	}
}

package ledger

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// detectorMetrics are the detector's own; a nil registerer keeps them to itself.
type detectorMetrics struct {
	errors     *prometheus.CounterVec
	untilStale *prometheus.HistogramVec
	duration   *prometheus.HistogramVec
	near       *prometheus.GaugeVec
	paused     prometheus.Gauge
	selfStops  prometheus.Counter
	// lastPass is 0 before the first pass; interval is the configured one. Both are for the alert that passes are missing.
	lastPass, interval prometheus.Gauge

	templates *bounded
}

// newDetectorMetrics makes them.
func newDetectorMetrics(reg prometheus.Registerer, every time.Duration) *detectorMetrics {
	m := &detectorMetrics{
		errors: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "postrider_staleness_detection_errors_total",
			Help: "Passes of this process's detector that failed, by type: database, timeout, configuration (schema, rights or login), validation (the database refused a value of the settings or of a template)."}, []string{"error_type"}),
		untilStale: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "postrider_task_time_until_stale_seconds",
			Help:    "Age of the tasks that this process's detector found to be stale, since they were created or put back to work. What commands and SQL find is not in it, and no dry run.",
			Buckets: []float64{60, 300, 900, 1800, 3600, 7200, 14400, 28800, 86400, 172800, 604800}}, []string{"namespace", "task_name"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "postrider_staleness_detection_duration_seconds",
			Help: "Time of one pass of the detector, all its batches together.", Buckets: prometheus.ExponentialBuckets(0.001, 3, 11)}, []string{"dry_run"}),
		near: prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "postrider_tasks_near_stale",
			Help: "Tasks past staleness.warn_percent of the threshold of their state, or of their lifetime, after the last pass. Of each template and state no more than 1000 are counted."}, []string{"kind"}),
		paused: prometheus.NewGauge(prometheus.GaugeOpts{Name: "postrider_staleness_detection_paused",
			Help: "1 while an operator, or a detector that was too slow, has paused detection; otherwise 0."}),
		selfStops: prometheus.NewCounter(prometheus.CounterOpts{Name: "postrider_staleness_detection_self_stops_total",
			Help: "Times this process paused detection because its batches took longer than staleness.latency_limit_ms."}),
		lastPass: prometheus.NewGauge(prometheus.GaugeOpts{Name: "postrider_staleness_last_pass_timestamp_seconds",
			Help: "When this process last made a pass without an error, or found detection paused; 0 before the first."}),
		interval: prometheus.NewGauge(prometheus.GaugeOpts{Name: "postrider_staleness_detection_interval_seconds",
			Help: "The setting staleness.detection_interval_seconds: the pause between two passes."}),
		templates: newBounded(100),
	}
	m.interval.Set(every.Seconds())
	for _, t := range []ErrorType{ErrorDatabase, ErrorTimeout, ErrorConfiguration, ErrorValidation} {
		m.errors.WithLabelValues(string(t))
	}
	if reg != nil {
		reg.MustRegister(m.errors, m.untilStale, m.duration, m.near, m.paused, m.selfStops, m.lastPass, m.interval)
	}
	return m
}

// found notes the age of a stale task.
func (m *detectorMetrics) found(t StaleTask) {
	namespace, name := t.NamespaceName, t.TaskName
	if m.templates.label(namespace+"/"+name) == otherLabel {
		namespace, name = otherLabel, otherLabel
	}
	m.untilStale.WithLabelValues(namespace, name).Observe(t.TaskAgeSeconds)
}

// bounded keeps a label that people choose from having more values than a server of metrics can bear: the
// first ones are kept as they are, all further ones are other.
type bounded struct {
	limit int
	mu    sync.Mutex
	known map[string]bool
}

const otherLabel = "other"

func newBounded(limit int) *bounded { return &bounded{limit: limit, known: map[string]bool{}} }

func (b *bounded) label(value string) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.known[value]:
	case len(b.known) == b.limit:
		return otherLabel
	default:
		b.known[value] = true
	}
	return value
}

package ledger

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/postrider/postrider/internal/tasks/task"
)

// staleReasons are the reasons of the dead letters that detection writes.
var staleReasons = []string{"staleness_timeout", "worker_unavailable"}

// detectorMetrics are the detector's own; a nil registerer keeps them to itself.
type detectorMetrics struct {
	detected   *prometheus.CounterVec
	letters    *prometheus.CounterVec
	errors     *prometheus.CounterVec
	untilStale *prometheus.HistogramVec
	duration   *prometheus.HistogramVec
	near       *prometheus.GaugeVec
	paused     prometheus.Gauge
	selfStops  prometheus.Counter
	// lastPass is 0 before the first pass; interval is the configured one. Both are for the alert that passes are missing.
	lastPass, interval prometheus.Gauge

	states, templates *bounded
}

// actionDryRun is the action of what a dry run found, which the next finds again.
const actionDryRun = "dry_run"

// newDetectorMetrics makes them. The series of the built-in machine and actions exist from the start: if a series began
// with its first value, rate() would not see the first burst.
func newDetectorMetrics(reg prometheus.Registerer, every time.Duration) *detectorMetrics {
	m := &detectorMetrics{
		detected: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "postrider_tasks_detected_stale_total",
			Help: "Tasks found to be stale, by the state they were in and what was done: move_to_dlq, transition_to_error, manual_review, flag; dry_run changes nothing and counts them in each pass."},
			[]string{"state", "action"}),
		letters: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "postrider_tasks_moved_to_dlq_total",
			Help: "Stale tasks whose dead letter was enqueued, by reason and the state they were in."}, []string{"reason", "original_state"}),
		errors: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "postrider_staleness_detection_errors_total",
			Help: "Passes of the detector that failed, by type: database, timeout, configuration."}, []string{"error_type"}),
		untilStale: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "postrider_task_time_until_stale_seconds",
			Help:    "Age of tasks when they were found to be stale, since they were created or put back to work.",
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
		states: newBounded(64), templates: newBounded(100),
	}
	m.interval.Set(every.Seconds())
	for _, s := range task.Builtin().States {
		if !s.Kind.Live() {
			continue
		}
		state := m.states.label(s.Name)
		m.detected.WithLabelValues(state, actionDryRun)
		for _, a := range []StaleAction{StaleMovedToDLQ, StaleMoved, StaleReview, StaleFlagged} {
			m.detected.WithLabelValues(state, string(a))
		}
		for _, reason := range staleReasons {
			m.letters.WithLabelValues(reason, state)
		}
	}
	for _, t := range []ErrorType{ErrorDatabase, ErrorTimeout, ErrorConfiguration} {
		m.errors.WithLabelValues(string(t))
	}
	if reg != nil {
		reg.MustRegister(m.detected, m.letters, m.errors, m.untilStale, m.duration, m.near, m.paused, m.selfStops, m.lastPass, m.interval)
	}
	return m
}

// found counts a stale task.
func (m *detectorMetrics) found(t StaleTask, dryRun bool) {
	state := m.states.label(t.CurrentState)
	if dryRun {
		m.detected.WithLabelValues(state, actionDryRun).Inc()
		return
	}
	m.detected.WithLabelValues(state, string(t.ActionTaken)).Inc()
	if t.MovedToDLQ {
		m.letters.WithLabelValues(t.DLQReason, state).Inc()
	}
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

package relay

import (
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/postrider/postrider/internal/tracecontext"
)

// metrics are the relay's own; a nil registerer keeps them to itself.
type metrics struct {
	outcomes       *prometheus.CounterVec
	errors         *prometheus.CounterVec
	storeErrors    *prometheus.CounterVec
	deadLettered   prometheus.Counter
	processed      *prometheus.CounterVec
	failures       *prometheus.CounterVec
	batch          prometheus.Histogram
	inFlight       prometheus.Gauge
	brokersAway    prometheus.Gauge
	leading        prometheus.Gauge
	careful        prometheus.Gauge
	publishSeconds prometheus.Histogram
	purged         *prometheus.CounterVec
	backlog        backlogGauges

	miscounted prometheus.Gauge
}

func newMetrics(reg prometheus.Registerer) *metrics {
	m := &metrics{
		outcomes: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "postrider_outbox_publish_total",
			Help: "Outcomes of publishing outbox events, by class."}, []string{"class"}),
		errors: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "postrider_outbox_cycle_errors_total",
			Help: "Relay cycles that failed, by loop."}, []string{"loop"}),
		storeErrors: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "postrider_outbox_database_errors_total",
			Help: "Relay cycles that failed by the database, by class (unknown_outcome, transient, permanent) and code (an SQLSTATE, or a word such as CONNECTION_LOST)."},
			[]string{"class", "code"}),
		deadLettered: prometheus.NewCounter(prometheus.CounterOpts{Name: "postrider_outbox_dead_lettered_total",
			Help: "Events acknowledged by the dead-letter topic."}),
		processed: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "postrider_outbox_processed_total",
			Help: "Events or rows that passes of the relay settled, by action, as the action log names it: publish, dead_letter, return, purge."}, []string{"action"}),
		failures: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "postrider_outbox_failed_total",
			Help: "Failed outcomes of publishing outbox events, by code: that of Kafka, such as NOT_LEADER_FOR_PARTITION, or one of ours, such as INVALID_HEADERS. Outages count with each try."}, []string{"error_code"}),
		batch: prometheus.NewHistogram(prometheus.HistogramOpts{Name: "postrider_outbox_batch_events",
			Help: "Events in a claimed batch.", Buckets: prometheus.ExponentialBuckets(1, 4, 8)}),
		inFlight: prometheus.NewGauge(prometheus.GaugeOpts{Name: "postrider_outbox_in_flight_events",
			Help: "Events handed to the broker whose batch is not settled yet."}),
		brokersAway: prometheus.NewGauge(prometheus.GaugeOpts{Name: "postrider_outbox_brokers_away",
			Help: "1 while this relay reaches no broker and publishes nothing, otherwise 0."}),
		leading: prometheus.NewGauge(prometheus.GaugeOpts{Name: "postrider_outbox_leading",
			Help: "1 while this relay leads the outbox, 0 while it stands by."}),
		careful: prometheus.NewGauge(prometheus.GaugeOpts{Name: "postrider_outbox_careful",
			Help: "1 while this relay sends smaller batches because relays died over the events at the position, otherwise 0."}),
		publishSeconds: prometheus.NewHistogram(prometheus.HistogramOpts{Name: "postrider_outbox_publish_seconds",
			Help: "Time from handing a batch to the broker to its last acknowledgement.", Buckets: prometheus.ExponentialBuckets(0.0005, 2, 16)}),
		purged: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "postrider_outbox_purged_total",
			Help: "Rows removed because they are not needed any more, by kind: published and dead_lettered events, idempotency keys."}, []string{"kind"}),
		backlog: newBacklogGauges(),
		miscounted: prometheus.NewGauge(prometheus.GaugeOpts{Name: "postrider_outbox_retention_stopped",
			Help: "1 when the rows of the log did not agree with the receipts, so that retention has stopped, otherwise 0."}),
	}
	for _, k := range PurgeKinds() {
		m.purged.WithLabelValues(string(k))
	}
	for _, c := range []Class{Delivered, Infrastructure, Route, Record, Permanent, Withheld} {
		m.outcomes.WithLabelValues(string(c))
	}
	for _, l := range []string{"lead", "dead_letter", "retention", "backlog"} {
		m.errors.WithLabelValues(l)
	}
	for _, a := range []string{actionPublish, actionDeadLetter, actionReturn, actionPurge} {
		m.processed.WithLabelValues(a)
	}
	if reg != nil {
		reg.MustRegister(m.processed, m.failures)
		reg.MustRegister(m.outcomes, m.errors, m.storeErrors, m.deadLettered, m.batch, m.inFlight, m.brokersAway, m.leading, m.careful,
			m.publishSeconds, m.purged, m.miscounted)
		m.backlog.register(reg)
	}
	return m
}

// The passes of the relay, as metrics and the action log name them.
const (
	actionPublish    = "publish"
	actionDeadLetter = "dead_letter"
	actionReturn     = "return"
	actionPurge      = "purge"
)

// settled counts what a pass got done.
func (m *metrics) settled(action string, n int) { m.processed.WithLabelValues(action).Add(float64(n)) }

// published notes how long a batch took, and a trace of it if one is recorded.
func (m *metrics) published(took time.Duration, ms []Message) {
	if id := sampledTrace(ms); id != "" {
		m.publishSeconds.(prometheus.ExemplarObserver).ObserveWithExemplar(took.Seconds(), prometheus.Labels{"trace_id": id})
		return
	}
	m.publishSeconds.Observe(took.Seconds())
}

// unsent counts events that could not be sent as they are.
func (m *metrics) unsent(events []Failure) {
	m.outcomes.WithLabelValues(string(Permanent)).Add(float64(len(events)))
	for i := range events {
		m.failures.WithLabelValues(events[i].Code).Inc()
	}
}

// count adds a batch's outcomes, one metric update per class, and one per failure.
func (m *metrics) count(outcomes []Outcome) {
	tally := map[Class]int{}
	for i := range outcomes {
		o := &outcomes[i]
		tally[o.Class]++
		if o.Class != Delivered && o.Class != Withheld {
			m.failures.WithLabelValues(o.Code).Inc()
		}
	}
	for c, n := range tally {
		m.outcomes.WithLabelValues(string(c)).Add(float64(n))
	}
}

// failed counts a cycle that failed.
func (m *metrics) failed(loop string, err error) {
	m.errors.WithLabelValues(loop).Inc()
	if e, ok := errors.AsType[*StoreError](err); ok {
		m.storeErrors.WithLabelValues(string(e.Class), e.Code).Inc()
	}
}

// sampledTrace returns a trace of the messages that is recorded, or nothing.
func sampledTrace(ms []Message) string {
	for i := range ms {
		if sc := tracecontext.Of(ms[i].Headers); sc.IsSampled() {
			return sc.TraceID().String()
		}
	}
	return ""
}

package consumer

import (
	"github.com/prometheus/client_golang/prometheus"
)

// Label values.
const (
	outcomeHandled      = "handled"
	outcomeRetried      = "retried"
	outcomeDelayed      = "delayed"
	outcomeDeadLettered = "dead_lettered"

	publishRetry      = "retry"
	publishDeadLetter = "dead_letter"

	changeAssigned = "assigned"
	changeRevoked  = "revoked"
	changeLost     = "lost"

	commitDone   = "done"
	commitFailed = "failed"
)

// metrics are a consumer's own. The label topic has the topics of Config.Topics as values; what happens in a retry topic
// counts for the topic that it belongs to.
type metrics struct {
	records, failures, seconds *prometheus.CounterVec
	publishErrors              *prometheus.CounterVec
	missed                     *prometheus.CounterVec
	open                       *prometheus.GaugeVec
	opened                     *prometheus.CounterVec
	changes, commits           *prometheus.CounterVec
}

func newMetrics() *metrics {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: "postrider_consumer_" + name, Help: help}, labels)
	}
	m := &metrics{
		records:       counter("records_total", "Messages done with, by what became of them: handled, retried (written to a retry topic), delayed (written there because it was not due) or dead_lettered.", "topic", "outcome"),
		failures:      counter("failures_total", "Failed attempts at messages, by class of the error.", "topic", "class"),
		seconds:       counter("handle_seconds_total", "Time spent in the handler.", "topic"),
		publishErrors: counter("publish_errors_total", "Failed attempts to write a failed message to a retry or dead-letter topic. Its partition stands until one succeeds.", "kind"),
		missed:        counter("missed_offsets_total", "Offsets that retention deleted before they were read.", "topic"),
		open: prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "postrider_consumer_breaker_open",
			Help: "1 while the topic pauses because too much of it would be given up, otherwise 0."}, []string{"topic"}),
		opened:  counter("breaker_opened_total", "How often a topic paused because too much of it would be given up.", "topic"),
		changes: counter("partitions_changed_total", "Partitions assigned to this member, revoked and lost.", "change"),
		commits: counter("commits_total", "Commits of offsets, by outcome.", "outcome"),
	}
	for _, kind := range []string{publishRetry, publishDeadLetter} {
		m.publishErrors.WithLabelValues(kind)
	}
	for _, change := range []string{changeAssigned, changeRevoked, changeLost} {
		m.changes.WithLabelValues(change)
	}
	for _, outcome := range []string{commitDone, commitFailed} {
		m.commits.WithLabelValues(outcome)
	}
	return m
}

// counts are a topic's, looked up once.
type counts struct {
	handled, retried, delayed, deadLettered prometheus.Counter
	transient, permanent                    prometheus.Counter
	seconds, missed                         prometheus.Counter
}

func (m *metrics) of(topic string) *counts {
	m.open.WithLabelValues(topic).Set(0)
	m.opened.WithLabelValues(topic)
	return &counts{
		handled: m.records.WithLabelValues(topic, outcomeHandled), retried: m.records.WithLabelValues(topic, outcomeRetried),
		delayed: m.records.WithLabelValues(topic, outcomeDelayed), deadLettered: m.records.WithLabelValues(topic, outcomeDeadLettered),
		transient: m.failures.WithLabelValues(topic, string(ClassTransient)), permanent: m.failures.WithLabelValues(topic, string(ClassPermanent)),
		seconds: m.seconds.WithLabelValues(topic), missed: m.missed.WithLabelValues(topic),
	}
}

func (c *counts) failures(class Class) prometheus.Counter {
	if class == ClassPermanent {
		return c.permanent
	}
	return c.transient
}

func (c *counts) left(v *verdict) prometheus.Counter {
	switch {
	case v.dead:
		return c.deadLettered
	case v.early:
		return c.delayed
	}
	return c.retried
}

func kindOf(dead bool) string {
	if dead {
		return publishDeadLetter
	}
	return publishRetry
}

// register registers the counters, and the gauges that are computed at each scrape.
func (m *metrics) register(reg prometheus.Registerer, c *Consumer) error {
	if reg == nil {
		return nil
	}
	for _, one := range []prometheus.Collector{m.records, m.failures, m.seconds, m.publishErrors, m.missed, m.open, m.opened,
		m.changes, m.commits, watch{c}} {
		if err := reg.Register(one); err != nil {
			return err
		}
	}
	return nil
}

// watch looks at the partitions.
type watch struct{ c *Consumer }

var (
	descInFlight = prometheus.NewDesc("postrider_consumer_in_flight_records", "Messages read and not done with.", []string{"topic"}, nil)
	descBytes    = prometheus.NewDesc("postrider_consumer_in_flight_bytes", "Size of the messages read and not done with.", []string{"topic"}, nil)
	descLag      = prometheus.NewDesc("postrider_consumer_lag_records",
		"Offsets of this member's partitions between what is done and their end as of the last fetch.", []string{"topic"}, nil)
	descStates = prometheus.NewDesc("postrider_consumer_partitions",
		"This member's partitions: assigned counts all, paused the partitions that are not fetched for now, standing the partitions with a failed message that can neither be tried again nor be given up.", []string{"topic", "state"}, nil)
)

// Describe implements prometheus.Collector.
func (watch) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{descInFlight, descBytes, descLag, descStates} {
		to <- d
	}
}

// Collect implements prometheus.Collector.
func (w watch) Collect(to chan<- prometheus.Metric) {
	type sums struct{ records, bytes, lag, assigned, paused, standing float64 }
	topics := map[string]*sums{}
	for _, topic := range w.c.cfg.Topics {
		topics[topic] = &sums{}
	}
	for _, p := range w.c.Status() {
		s := topics[p.Source]
		s.records += float64(p.InFlight)
		s.bytes += float64(p.InFlightBytes)
		s.lag += float64(p.Lag)
		s.assigned++
		if p.Paused {
			s.paused++
		}
		if p.Standing != "" {
			s.standing++
		}
	}
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		to <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	for topic, s := range topics {
		gauge(descInFlight, s.records, topic)
		gauge(descBytes, s.bytes, topic)
		gauge(descLag, s.lag, topic)
		gauge(descStates, s.assigned, topic, "assigned")
		gauge(descStates, s.paused, topic, "paused")
		gauge(descStates, s.standing, topic, "standing")
	}
}

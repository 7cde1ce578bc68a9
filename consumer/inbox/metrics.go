package inbox

import "github.com/prometheus/client_golang/prometheus"

// Metrics counts the messages, retries and purged rows of inboxes. A nil *Metrics counts nothing.
type Metrics struct {
	messages *prometheus.CounterVec
	retries  *prometheus.CounterVec
	purged   prometheus.Counter
}

// The outcomes of a message.
const (
	handled   = "handled"
	duplicate = "duplicate"
	failed    = "failed"
)

// NewMetrics returns metrics that are registered with reg, which may be nil. Make one for a process; processors share
// it.
func NewMetrics(reg prometheus.Registerer) *Metrics {
	m := &Metrics{
		messages: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "postrider_inbox_messages_total",
			Help: "Messages that came to an inbox, by outcome: handled, duplicate (handled before) or failed."}, []string{"outcome"}),
		retries: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "postrider_inbox_retries_total",
			Help: "Transactions that were tried again at once, by reason: serialization, deadlock, connection or unknown_outcome."}, []string{"reason"}),
		purged: prometheus.NewCounter(prometheus.CounterOpts{Name: "postrider_inbox_purged_total",
			Help: "Rows of inboxes removed because they were older than the retention."}),
	}
	for _, outcome := range []string{handled, duplicate, failed} {
		m.messages.WithLabelValues(outcome)
	}
	for _, why := range reasons() {
		m.retries.WithLabelValues(string(why))
	}
	if reg != nil {
		reg.MustRegister(m.messages, m.retries, m.purged)
	}
	return m
}

func (m *Metrics) message(outcome string, n int) {
	if m != nil {
		m.messages.WithLabelValues(outcome).Add(float64(n))
	}
}

func (m *Metrics) retry(why reason) {
	if m != nil {
		m.retries.WithLabelValues(string(why)).Inc()
	}
}

func (m *Metrics) purge(n int64) {
	if m != nil {
		m.purged.Add(float64(n))
	}
}

package relay

import (
	"context"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// BacklogReader counts what waits, at a price that does not grow with it.
type BacklogReader interface {
	// Backlog counts waiting events, at most limit of each state.
	Backlog(ctx context.Context, limit int) (Backlog, error)
}

// Backlog is what waits. A count that reached its limit stands for that many or more.
type Backlog struct {
	// Pending may be claimed; Due of them are not delayed.
	Pending, Due int64
	// Parked wait for a hold, Scheduled for their time, Exhausted for the dead-letter topic.
	Parked, Scheduled, Exhausted int64
	// OldestDue is the age of the oldest event that should have gone by now, parked, retried and exhausted
	// ones included; 0 when there is none.
	OldestDue time.Duration
}

const (
	// backlogLimit is up to how many events of a state are counted.
	backlogLimit = 10_000
	// backlogEvery is how often the gauges are refreshed.
	backlogEvery = 10 * time.Second
)

// backlogGauges show the backlog as it was when it was last read.
type backlogGauges struct {
	events    *prometheus.GaugeVec
	due       prometheus.Gauge
	oldestDue prometheus.Gauge
	readAt    prometheus.Gauge
}

// The states that wait, as the label names them.
const (
	waitPending   = "pending"
	waitParked    = "parked"
	waitScheduled = "scheduled"
	waitExhausted = "exhausted"
)

func newBacklogGauges() backlogGauges {
	g := backlogGauges{
		events: prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "postrider_outbox_backlog_events",
			Help: fmt.Sprintf("Events that wait, by state: pending (may be claimed), parked (behind a hold), scheduled (for their time), exhausted (for the dead-letter topic). Counted every %v up to %d of each; that number means so many or more.", backlogEvery, backlogLimit)},
			[]string{"state"}),
		due: prometheus.NewGauge(prometheus.GaugeOpts{Name: "postrider_outbox_backlog_due_events",
			Help: fmt.Sprintf("Pending events that are not delayed, among the first %d pending ones.", backlogLimit)}),
		oldestDue: prometheus.NewGauge(prometheus.GaugeOpts{Name: "postrider_outbox_oldest_due_seconds",
			Help: "Age of the oldest event that should have gone by now, parked, retried and exhausted ones included; 0 when there is none."}),
		readAt: prometheus.NewGauge(prometheus.GaugeOpts{Name: "postrider_outbox_backlog_read_timestamp_seconds",
			Help: "When the backlog was last read; the other backlog metrics are as old."}),
	}
	for _, state := range []string{waitPending, waitParked, waitScheduled, waitExhausted} {
		g.events.WithLabelValues(state)
	}
	return g
}

func (g backlogGauges) register(reg prometheus.Registerer) {
	reg.MustRegister(g.events, g.due, g.oldestDue, g.readAt)
}

func (g backlogGauges) set(b Backlog, now time.Time) {
	g.events.WithLabelValues(waitPending).Set(float64(b.Pending))
	g.events.WithLabelValues(waitParked).Set(float64(b.Parked))
	g.events.WithLabelValues(waitScheduled).Set(float64(b.Scheduled))
	g.events.WithLabelValues(waitExhausted).Set(float64(b.Exhausted))
	g.due.Set(float64(b.Due))
	g.oldestDue.Set(b.OldestDue.Seconds())
	g.readAt.Set(float64(now.UnixMilli()) / 1000)
}

// readBacklog refreshes the gauges. It has never more to do, so its loop only paces it.
func (r *Relay) readBacklog(ctx context.Context) (int, error) {
	b, err := r.cfg.Store.Backlog(ctx, backlogLimit)
	if err != nil {
		return 0, fmt.Errorf("read the backlog: %w", err)
	}
	r.metrics.backlog.set(b, time.Now())
	return 0, nil
}

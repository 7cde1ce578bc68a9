package relay

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// BacklogReader counts waiting events and holds, at a cost that does not grow with their number.
type BacklogReader interface {
	// Backlog counts waiting events, at most limit of each state.
	Backlog(ctx context.Context, limit int) (Backlog, error)
	// CountHolds counts holds by scope, cause, topic and code: topics, partitions, holds that wait for a probe and holds
	// that wait for an operator, at most limit of each of these.
	CountHolds(ctx context.Context, limit int) ([]HoldCount, error)
}

// HoldCount is how many holds there are of a scope, a cause, a topic and a code.
type HoldCount struct {
	Scope Scope
	Cause Cause
	// Topic is what is held, or what the held keys and partitions belong to.
	Topic string
	// Code is that of the failure: of a circuit breaker the one that it keeps, of others the last one; may be empty.
	Code  string
	Holds int64
	// Oldest is the age of the oldest hold that was counted.
	Oldest time.Duration
}

// Backlog counts the events that wait. A count that reached its limit stands for that many or more.
type Backlog struct {
	// Pending may be claimed; Due of them are not delayed.
	Pending, Due int64
	// Parked wait for a hold, Scheduled for their time, Exhausted for the dead-letter topic.
	Parked, Scheduled, Exhausted int64
	// OldestDue is the age of the oldest event that should have gone by now. Parked, retried and exhausted events are
	// included. Events behind halted keys are not, because they wait for an operator. It is 0 when there is none.
	OldestDue time.Duration
}

const (
	// backlogLimit is up to how many events of a state are counted.
	backlogLimit = 10_000
	// backlogEvery is how often the gauges are refreshed.
	backlogEvery = 10 * time.Second
	// namedHolds is how many kinds of holds are shown with their topic and code; the others are one for each cause.
	namedHolds = 32
	// otherHolds is the topic and the code of the rest.
	otherHolds = "other"
)

// held names the holds that are counted apart.
type held struct {
	scope Scope
	cause Cause
}

// usualHolds are the holds that there may be; they are 0 from the start, so that alerts see them come.
func usualHolds() []held {
	return []held{
		{ScopeKey, CauseRetry}, {ScopeKey, CauseHalted}, {ScopeKey, CauseRedrive},
		{ScopePartition, CauseInfrastructure},
		{ScopeTopic, CauseInfrastructure}, {ScopeTopic, CauseRoute}, {ScopeFailure, CauseBreaker},
		{ScopeDeadLetter, CauseInfrastructure}, {ScopeDeadLetter, CauseRoute},
	}
}

// backlogGauges show the backlog as it was when it was last read.
type backlogGauges struct {
	events    *prometheus.GaugeVec
	pending   prometheus.Gauge
	holds     *prometheus.GaugeVec
	held      *prometheus.GaugeVec
	info      *prometheus.GaugeVec
	shown     map[holdLabels]bool // series of info; the backlog's loop is the only one to look at it
	known     map[held]HoldCount  // that have a gauge; the backlog's loop is the only one to look at it
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
		pending: prometheus.NewGauge(prometheus.GaugeOpts{Name: "postrider_outbox_pending",
			Help: "Events that wait to be published, whatever for: pending, parked and scheduled ones together, each counted as in postrider_outbox_backlog_events."}),
		holds: prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "postrider_outbox_holds",
			Help: fmt.Sprintf("Holds, which keep events back, by scope (key, partition, topic, failure, dead_letter) and cause; up to %d of a kind are counted.", backlogLimit)},
			[]string{"scope", "cause"}),
		held: prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "postrider_outbox_oldest_hold_seconds",
			Help: "For how long the oldest of these holds has been there; 0 when there is none."}, []string{"scope", "cause"}),
		info: prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "postrider_outbox_hold_info",
			Help: fmt.Sprintf("How many holds there are of a topic, a cause and an error code; none has no series. The first %d kinds are named, wide holds before holds of keys, then the most; the rest have other as topic and code.", namedHolds)},
			[]string{"topic", "cause", "code"}),
		known: map[held]HoldCount{}, shown: map[holdLabels]bool{},
		due: prometheus.NewGauge(prometheus.GaugeOpts{Name: "postrider_outbox_backlog_due_events",
			Help: fmt.Sprintf("Pending events that are not delayed, among the first %d pending ones.", backlogLimit)}),
		oldestDue: prometheus.NewGauge(prometheus.GaugeOpts{Name: "postrider_outbox_oldest_due_seconds",
			Help: "Age of the oldest event that should have gone by now, parked, retried and exhausted ones included, but not events behind halted keys, which wait for an operator; 0 when there is none."}),
		readAt: prometheus.NewGauge(prometheus.GaugeOpts{Name: "postrider_outbox_backlog_read_timestamp_seconds",
			Help: "When the backlog was last read; the other backlog metrics are as old."}),
	}
	for _, state := range []string{waitPending, waitParked, waitScheduled, waitExhausted} {
		g.events.WithLabelValues(state)
	}
	for _, h := range usualHolds() {
		g.known[h] = HoldCount{}
	}
	g.setHolds(nil)
	return g
}

func (g backlogGauges) register(reg prometheus.Registerer) {
	reg.MustRegister(g.events, g.pending, g.holds, g.held, g.info, g.due, g.oldestDue, g.readAt)
}

// setHolds shows the holds that there are. Each gauge is set once, so that no scrape sees an existing hold as gone.
func (g backlogGauges) setHolds(counts []HoldCount) {
	for h := range g.known {
		g.known[h] = HoldCount{}
	}
	for _, c := range counts {
		sum := g.known[held{c.Scope, c.Cause}]
		g.known[held{c.Scope, c.Cause}] = HoldCount{Holds: sum.Holds + c.Holds, Oldest: max(sum.Oldest, c.Oldest)}
	}
	for h, c := range g.known {
		g.holds.WithLabelValues(string(h.scope), string(h.cause)).Set(float64(c.Holds))
		g.held.WithLabelValues(string(h.scope), string(h.cause)).Set(c.Oldest.Seconds())
	}
}

// holdLabels are the labels of postrider_outbox_hold_info.
type holdLabels struct {
	topic string
	cause Cause
	code  string
}

// nameHolds shows which topics are held and why. A hold that ended has no series.
func (g backlogGauges) nameHolds(counts []HoldCount) {
	counts = slices.Clone(counts)
	slices.SortFunc(counts, func(a, b HoldCount) int {
		return cmp.Or(cmp.Compare(narrow(a), narrow(b)), cmp.Compare(b.Holds, a.Holds), cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Code, b.Code))
	})
	sums := map[holdLabels]int64{}
	for _, c := range counts {
		labels := holdLabels{c.Topic, c.Cause, c.Code}
		if _, named := sums[labels]; !named && len(sums) >= namedHolds {
			labels = holdLabels{otherHolds, c.Cause, otherHolds}
		}
		sums[labels] += c.Holds
	}
	for l, n := range sums {
		g.info.WithLabelValues(l.topic, string(l.cause), l.code).Set(float64(n))
		g.shown[l] = true
	}
	for l := range g.shown {
		if _, there := sums[l]; !there {
			g.info.DeleteLabelValues(l.topic, string(l.cause), l.code)
			delete(g.shown, l)
		}
	}
}

// narrow is 1 for holds of single keys: there may be very many.
func narrow(c HoldCount) int {
	if c.Scope == ScopeKey {
		return 1
	}
	return 0
}

func (g backlogGauges) set(b Backlog, now time.Time) {
	g.events.WithLabelValues(waitPending).Set(float64(b.Pending))
	g.events.WithLabelValues(waitParked).Set(float64(b.Parked))
	g.events.WithLabelValues(waitScheduled).Set(float64(b.Scheduled))
	g.events.WithLabelValues(waitExhausted).Set(float64(b.Exhausted))
	g.pending.Set(float64(b.Pending + b.Parked + b.Scheduled))
	g.due.Set(float64(b.Due))
	g.oldestDue.Set(b.OldestDue.Seconds())
	g.readAt.Set(float64(now.UnixMilli()) / 1000)
}

// readBacklog refreshes the gauges. It has never more to do, so its loop only paces it.
func (r *Relay) readBacklog(ctx context.Context) (int, error) {
	if r.rest.empty() {
		r.showBacklog(Backlog{}, nil)
		return 0, nil
	}
	b, err := r.cfg.Store.Backlog(ctx, backlogLimit)
	if err != nil {
		return 0, fmt.Errorf("read the backlog: %w", err)
	}
	holds, err := r.cfg.Store.CountHolds(ctx, backlogLimit)
	if err != nil {
		return 0, fmt.Errorf("count the holds: %w", err)
	}
	r.showBacklog(b, holds)
	return 0, nil
}

func (r *Relay) showBacklog(b Backlog, holds []HoldCount) {
	r.metrics.backlog.setHolds(holds)
	r.metrics.backlog.nameHolds(holds)
	r.metrics.backlog.set(b, time.Now())
}

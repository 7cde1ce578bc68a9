package ledger

import (
	"context"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/postrider/postrider/internal/tasks/task"
)

// CountKind is what a Count counts.
type CountKind string

// The kinds.
const (
	// CountDiscovered: tasks that get_next_ready_tasks handed out; a transaction that was rolled back counts, too.
	CountDiscovered CountKind = "discovered"
	// CountStale: tasks that were found to be stale.
	CountStale CountKind = "stale"
	// CountDeadLetter: tasks that were dead-lettered, or moved because an event of theirs was given up.
	CountDeadLetter CountKind = "dead_letter"
	// CountArchived: tasks that were moved into the archive.
	CountArchived CountKind = "archived"
)

// Count is how often something was done with tasks since the schema exists, by engines, commands and SQL together.
type Count struct {
	// Kind is what was done with them.
	Kind CountKind
	// State is the state that the tasks were in; empty for CountDiscovered and CountArchived.
	State string
	// Outcome is the action of CountStale, the reason of CountDeadLetter and the final state of CountArchived; empty for
	// CountDiscovered.
	Outcome string
	// Tasks is how many tasks.
	Tasks int64
}

// deadLetterReasons are the reasons for which tasks are dead-lettered.
var deadLetterReasons = []string{"staleness_timeout", "worker_unavailable", "max_retries_exceeded", "dependency_cycle_detected", "manual_dlq", "undeliverable"}

// totals shows counters that the database keeps. Nothing is shown before the first look: a series that began at 0 and then
// took the database's number would seem to have grown by it.
type totals struct {
	*prometheus.CounterVec
	// state and outcome are the labels for Count.State and Count.Outcome; empty where there is none.
	state, outcome string

	shown atomic.Bool
	last  map[place]int64
}

// place is what tells the series of one metric apart.
type place struct{ state, outcome string }

func newTotals(name, help, state, outcome string) *totals {
	t := &totals{state: state, outcome: outcome, last: map[place]int64{}}
	var labels []string
	for _, l := range []string{state, outcome} {
		if l != "" {
			labels = append(labels, l)
		}
	}
	t.CounterVec = prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	return t
}

// Collect implements prometheus.Collector.
func (t *totals) Collect(ch chan<- prometheus.Metric) {
	if t.shown.Load() {
		t.CounterVec.Collect(ch)
	}
}

// series makes a series, if it is not there.
func (t *totals) series(p place) prometheus.Counter {
	labels := prometheus.Labels{}
	if t.state != "" {
		labels[t.state] = p.state
	}
	if t.outcome != "" {
		labels[t.outcome] = p.outcome
	}
	return t.With(labels)
}

// show raises the counters to the database's numbers. A smaller number means that the schema was made anew, or restored: the
// counter stays, and grows with that number from there.
func (t *totals) show(now map[place]int64) {
	for p, n := range now {
		if c := t.series(p); n > t.last[p] {
			c.Add(float64(n - t.last[p]))
		}
	}
	t.last = now
	t.shown.Store(true)
}

// newTaskTotals makes the counters of all kinds, with the series of the built-in final states.
func newTaskTotals() map[CountKind]*totals {
	const everywhere = " in all of the database since its schema was made, by engines, commands and SQL. Every process that watches shows the same number: take the greatest, and no sum."
	all := map[CountKind]*totals{
		CountDiscovered: newTotals("postrider_tasks_discovered_total", "Tasks that get_next_ready_tasks handed out to workers,"+everywhere, "", ""),
		CountStale: newTotals("postrider_tasks_detected_stale_total",
			"Tasks found to be stale, by the state they were in and what was done (move_to_dlq, transition_to_error, manual_review, flag),"+everywhere+" Dry runs do not count.", "state", "action"),
		CountDeadLetter: newTotals("postrider_tasks_moved_to_dlq_total",
			"Tasks that were dead-lettered, or moved to their dead-letter state because an event of theirs was given up, by reason and the state they were in,"+everywhere, "original_state", "reason"),
		CountArchived: newTotals("postrider_tasks_archived_total",
			"Tasks moved into the archive, by final_state (complete, error, cancelled, dlq_resolved),"+everywhere, "", "final_state"),
	}
	all[CountDiscovered].series(place{})
	for _, f := range FinalStates() {
		all[CountArchived].series(place{outcome: string(f)})
	}
	return all
}

// prepare makes the series of a state: of one that began with its first value a rate would miss the first burst.
func (w *Watch) prepare(state string) {
	for _, a := range []StaleAction{StaleMovedToDLQ, StaleMoved, StaleReview, StaleFlagged} {
		w.totals[CountStale].series(place{state, string(a)})
	}
	for _, reason := range deadLetterReasons {
		w.totals[CountDeadLetter].series(place{state, reason})
	}
}

// prepareBuiltin makes the series of the live states of the built-in machine.
func (w *Watch) prepareBuiltin() {
	for _, s := range task.Builtin().States {
		if s.Kind.Live() {
			w.prepare(w.states.label(s.Name))
		}
	}
}

func (w *Watch) readCounts(ctx context.Context) error {
	counts, err := w.cfg.Store.Counts(ctx)
	if err != nil {
		return err
	}
	now := map[CountKind]map[place]int64{}
	for kind := range w.totals {
		now[kind] = map[place]int64{}
	}
	for _, c := range counts {
		p := place{outcome: c.Outcome}
		if c.State != "" {
			p.state = w.states.label(c.State)
		}
		if of, known := now[c.Kind]; known {
			of[p] += c.Tasks
		}
	}
	for kind, t := range w.totals {
		t.show(now[kind])
	}
	return nil
}

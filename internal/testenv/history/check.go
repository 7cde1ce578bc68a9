package history

import (
	"cmp"
	"maps"
	"slices"
	"time"
)

// Result is what the writer of an event heard of its transaction. The words are Jepsen's, except that its info is
// Unknown here.
type Result string

const (
	// OK: the commit was acknowledged.
	OK Result = "ok"
	// Fail: the transaction was rolled back or refused, and certainly did not commit.
	Fail Result = "fail"
	// Unknown: the answer to the commit was lost, and what the database holds decides.
	Unknown Result = "unknown"
)

// Write is one event that a writer tried to write.
type Write struct {
	ID     string
	Result Result
	// At is when the result was known.
	At time.Time
}

// Fault is something that was broken on purpose, from its beginning to its repair.
type Fault struct {
	Name     string
	From, To time.Time
}

// History is all that is known of a run. An empty field is not judged, except as its comment says.
type History struct {
	// Committed are the events that the database holds at the end.
	Committed []Event
	// Writes are what the writers heard.
	Writes []Write
	// Reads are what the topics hold, in any order.
	Reads []Read
	// DeadLettered are the ids of events that were given up, each once or more.
	DeadLettered []string
	// Waiting are the ids of events that the outbox had not carried away when the run was over. They are
	// stuck and not lost.
	Waiting []string
	// Investigated has the id of the event of each investigation. Nil is not judged.
	Investigated []string
	// Faults are what was broken during the run; none means that nothing was.
	Faults []Fault
	// Aftermath is how long a batch may be in hand: an event that arrives so long before a fault, or after it, may be
	// sent again. Faults whose aftermaths touch count as one.
	Aftermath time.Duration
	// Patience is how long an event may be under way while nothing is broken, added up over all its way: time that a
	// fault or its aftermath covers does not count. If faults follow so closely that no time is left, it may be under
	// way four times as long outside of the faults themselves. And it is how long after the aftermath a copy may come.
	// Zero is for ever.
	Patience time.Duration
}

// Check judges the run.
func (h History) Check() Verdict {
	v := Verdict{Committed: len(h.Committed), After: map[string]int{}}
	events := make(map[string]Event, len(h.Committed))
	for _, e := range h.Committed {
		events[e.ID] = e
	}
	dead, waiting := setOf(h.DeadLettered), setOf(h.Waiting)
	v.DeadLettered = len(dead)
	seen := h.checkReads(&v, events)
	stuck := map[string]bool{}
	clock := h.clock()
	for _, e := range h.Committed {
		_, delivered := seen[e.ID]
		switch {
		case waiting[e.ID]:
			stuck[subjectOf(e)] = true
		case !delivered && !dead[e.ID] && e.Destroyed:
			v.Destroyed++
		case !delivered && !dead[e.ID]:
			v.Lost = append(v.Lost, e.ID)
		case delivered:
			calm, late := clock.late(e, seen[e.ID])
			v.Slowest = max(v.Slowest, calm)
			if late {
				v.Late = append(v.Late, e.ID)
				stuck[subjectOf(e)] = true
			}
		}
		if e.Poison && delivered || !e.Poison && dead[e.ID] {
			v.Misjudged = append(v.Misjudged, e.ID)
		}
	}
	v.Stuck = slices.Sorted(maps.Keys(stuck))
	h.checkWrites(&v, events, seen)
	h.checkInvestigations(&v, dead)
	return v
}

// checkReads goes through the records in the order of their partitions, and returns the earliest of each
// event.
func (h History) checkReads(v *Verdict, events map[string]Event) map[string]Read {
	reads := slices.Clone(h.Reads)
	slices.SortStableFunc(reads, func(a, b Read) int {
		return cmp.Or(cmp.Compare(a.Partition, b.Partition), cmp.Compare(a.Life, b.Life), cmp.Compare(a.Offset, b.Offset))
	})
	seen := make(map[string]Read, len(reads))
	copies := map[string][]Read{}
	last := map[string]int64{}
	for _, r := range reads {
		e, ok := events[r.ID]
		if !ok {
			v.Phantoms = append(v.Phantoms, r.ID)
			continue
		}
		first, again := seen[r.ID]
		if r.Subject != e.Subject || again && e.Subject != "" && first.Partition != r.Partition {
			v.Misplaced = append(v.Misplaced, r.ID)
		}
		if again {
			v.Duplicates++
			copies[r.ID] = append(copies[r.ID], r)
			continue
		}
		seen[r.ID] = r
		v.Delivered++
		if e.Subject == "" {
			continue
		}
		if e.Seq < last[e.Subject] {
			v.Reordered = append(v.Reordered, r.ID)
		}
		last[e.Subject] = max(last[e.Subject], e.Seq)
	}
	episodes := h.episodes(h.Aftermath)
	for _, id := range slices.Sorted(maps.Keys(copies)) {
		// In the order of time: copies of an event without a key may be in several partitions.
		all := append(copies[id], seen[id])
		slices.SortStableFunc(all, func(a, b Read) int { return a.At.Compare(b.At) })
		seen[id] = all[0]
		for i := range all[1:] {
			h.blame(v, episodes, all[i], all[i+1])
		}
	}
	return seen
}

// blame finds the fault that explains a copy: one that kept the copy before it from being settled, which was
// therefore in hand when the fault began, or arrived while it or its aftermath lasted. Of several it is the
// one that began last. An event that arrived at any other time was settled, and must not come again.
func (h History) blame(v *Verdict, episodes episodes, before, copied Read) {
	if copied.At.IsZero() {
		return
	}
	due := slices.ContainsFunc(episodes, func(e episode) bool {
		inHand := !before.At.Before(e.from.Add(-h.Aftermath)) && !before.At.After(e.to)
		return inHand && !copied.At.Before(e.from) && (h.Patience == 0 || !copied.At.After(e.to.Add(h.Patience)))
	})
	if !due {
		v.Undue = append(v.Undue, copied.ID)
		return
	}
	var cause Fault
	for _, f := range h.Faults {
		inHand := !before.At.Before(f.From.Add(-h.Aftermath)) && !before.At.After(f.To.Add(h.Aftermath))
		if inHand && !copied.At.Before(f.From) && (cause.Name == "" || f.From.After(cause.From)) {
			cause = f
		}
	}
	v.After[cause.Name]++
}

// checkWrites compares what the writers heard with what the database holds: a write that was
// acknowledged must be there, and one that failed must not.
func (h History) checkWrites(v *Verdict, events map[string]Event, seen map[string]Read) {
	for _, w := range h.Writes {
		_, committed := events[w.ID]
		_, delivered := seen[w.ID]
		switch {
		case w.Result == OK && !committed && !delivered:
			v.Lost = append(v.Lost, w.ID)
		case w.Result == Fail && committed:
			v.Phantoms = append(v.Phantoms, w.ID)
		}
	}
}

func (h History) checkInvestigations(v *Verdict, dead map[string]bool) {
	if h.Investigated == nil {
		return
	}
	count := make(map[string]int, len(h.Investigated))
	for _, id := range h.Investigated {
		count[id]++
		if !dead[id] && count[id] == 1 {
			v.Uninvestigated = append(v.Uninvestigated, id)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(dead)) {
		if count[id] != 1 {
			v.Uninvestigated = append(v.Uninvestigated, id)
		}
	}
}

func setOf(ids []string) map[string]bool {
	set := make(map[string]bool, len(ids))
	for _, id := range ids {
		set[id] = true
	}
	return set
}

// subjectOf names the subject that is stuck when an event is, or the event where it has none.
func subjectOf(e Event) string {
	return cmp.Or(e.Subject, e.ID)
}

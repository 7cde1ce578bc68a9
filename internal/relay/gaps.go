package relay

import (
	"maps"
	"slices"
	"strings"
)

// Transaction is a transaction that may still commit rows of the log.
type Transaction struct {
	// Name is its virtual transaction id, under which it holds its locks.
	Name string
	// XID is its transaction id; 0 while it has none, and then a snapshot does not tell whether it runs.
	XID uint64
	// Prepared says that it is prepared: it has another name then than it had before.
	Prepared bool
}

// Look is what the database knows of ids to come: Last is the newest id that was drawn, and Holders, found out after
// that, are all transactions that may commit an id up to Last: an insert locks the table before it draws an id, and
// keeps the lock to its end.
type Look struct {
	Last    int64
	Holders []Transaction
	// Unknown is why Last is not known; then nothing becomes final.
	Unknown Stall
}

// Snapshot says which transactions a statement saw as running.
type Snapshot struct {
	Max     uint64
	Running []uint64 // ascending
}

// Runs reports whether the statement saw a transaction as running, and so saw none of the rows that it wrote.
func (s Snapshot) Runs(xid uint64) bool {
	if xid >= s.Max {
		return true
	}
	_, running := slices.BinarySearch(s.Running, xid)
	return running
}

// gapTracker knows the gaps below the reading position: ids that were not visible when it passed. A gap is read again
// until its row is there or no transaction can commit it any more.
//
// Gaps that a look has covered form a group with the transactions that can fill them. When one of these transactions has
// ended, the group is due: one read must come to the end of it. While a group is not due, and the snapshot of a statement
// shows all its transactions as running, the statement can see none of its rows and need not look for them. The snapshot
// that the statement returns shows whether a transaction ended after the last look; then the statement is made again. If
// a due group has no transactions, the ids that it still misses after a read never come.
//
// Looks are taken in between reads, and never while one is under way: a read begins after the looks that it relies on.
type gapTracker struct {
	fresh  Ranges // no look has covered them
	groups []*gapGroup
	// awaited is from a look: when its holders have ended, every id up to last is final.
	awaited struct {
		open    bool
		last    int64
		holders map[string]bool
	}
	final int64
}

type gapGroup struct {
	ranges  Ranges
	holders map[string]uint64 // xids by name, 0 where there is none
	due     bool
}

// restore takes over the gaps of the term before. It is unknown which transactions may fill them.
func (g *gapTracker) restore(gaps Ranges) { *g = gapTracker{fresh: gaps} }

// all is every gap.
func (g *gapTracker) all() Ranges {
	out := g.fresh
	for _, gr := range g.groups {
		out = out.Union(gr.ranges)
	}
	return out
}

// ranges counts the ranges of gaps.
func (g *gapTracker) ranges() int {
	n := len(g.fresh)
	for _, gr := range g.groups {
		n += len(gr.ranges)
	}
	return n
}

// empty reports whether there is no gap.
func (g *gapTracker) empty() bool { return len(g.fresh) == 0 && len(g.groups) == 0 }

// quiet is whether a group is left out of reads.
func (gr *gapGroup) quiet() bool {
	if gr.due {
		return false
	}
	for _, xid := range gr.holders {
		if xid == 0 {
			return false
		}
	}
	return true
}

// question is what a read asks of the gaps. It stays valid until the next call of the tracker.
type question struct {
	ranges  Ranges
	asked   []*gapGroup
	skipped []*gapGroup // left out as long as the snapshot shows their transactions as running
}

// ask says which gaps a read that begins now looks at.
func (g *gapTracker) ask() question {
	q := question{ranges: g.fresh}
	for _, gr := range g.groups {
		if gr.quiet() {
			q.skipped = append(q.skipped, gr)
			continue
		}
		q.ranges = q.ranges.Union(gr.ranges)
		q.asked = append(q.asked, gr)
	}
	return q
}

// believe reports whether what a read returned can be believed: its snapshot shows all transactions of the groups that
// it left out as running. Otherwise the read is to be made again, and looks at these gaps too.
func (g *gapTracker) believe(q question, s Snapshot) bool {
	sure := true
	for _, gr := range q.skipped {
		for name, xid := range gr.holders {
			if !s.Runs(xid) {
				delete(gr.holders, name)
				gr.due, sure = true, false
			}
		}
	}
	return sure
}

// filled takes ids out of the gaps whose rows were read. complete says that the read came to the end of the gaps that it
// asked for. Then the ids that no transaction can fill any more never come, and are returned.
func (g *gapTracker) filled(q question, seen Ranges, complete bool) (forgotten Ranges) {
	g.fresh = g.fresh.Minus(seen)
	for _, gr := range q.asked {
		gr.ranges = gr.ranges.Minus(seen)
		if !complete {
			continue
		}
		gr.due = false
		if len(gr.holders) == 0 {
			forgotten = forgotten.Union(gr.ranges)
			gr.ranges = nil
		}
	}
	g.tidy()
	return forgotten
}

// passed notes the ids that the reading position has left behind unseen, and returns the ids that never come.
func (g *gapTracker) passed(unseen Ranges) (forgotten Ranges) {
	final := Ranges{{0, g.final}}
	still := unseen.Minus(final)
	g.fresh = g.fresh.Union(still)
	return unseen.Minus(still)
}

// observe takes in what a look found: which transactions have ended, and which can fill the gaps that no look covered yet.
func (g *gapTracker) observe(l Look) {
	if l.Unknown.Code != "" {
		return
	}
	now := make(map[string]uint64, len(l.Holders))
	prepared := map[string]uint64{}
	for _, t := range l.Holders {
		now[t.Name] = t.XID
		if t.Prepared {
			prepared[t.Name] = t.XID
		}
	}
	for _, gr := range g.groups {
		kept := make(map[string]uint64, len(gr.holders))
		for name := range gr.holders {
			if xid, holds := now[name]; holds {
				kept[name] = xid
			} else {
				gr.due = true
			}
		}
		maps.Copy(kept, prepared) // it may be one of the group's, under its new name
		gr.holders = kept
	}
	g.moveFence(l, now, prepared)
	covered := g.fresh.Minus(Ranges{{l.Last + 1, 1<<63 - 2}})
	if len(covered) > 0 {
		g.fresh = g.fresh.Minus(covered)
		// A transaction that ended between the last read and this look is no holder any more.
		g.groups = append(g.groups, &gapGroup{ranges: covered, holders: now, due: true})
	}
	g.tidy()
}

func (g *gapTracker) moveFence(l Look, now, prepared map[string]uint64) {
	f := &g.awaited
	if f.open {
		closed := len(prepared) == 0
		for name := range f.holders {
			if _, holds := now[name]; holds {
				closed = false
			}
		}
		if !closed {
			return
		}
		f.open, g.final = false, max(g.final, f.last)
	}
	if len(now) == 0 {
		g.final = max(g.final, l.Last)
		return
	}
	f.open, f.last, f.holders = true, l.Last, map[string]bool{}
	for name := range now {
		f.holders[name] = true
	}
}

// tidy drops empty groups, and joins groups that the same transactions can fill.
func (g *gapTracker) tidy() {
	same := map[string]*gapGroup{}
	g.groups = slices.DeleteFunc(g.groups, func(gr *gapGroup) bool {
		if len(gr.ranges) == 0 {
			return true
		}
		if gr.due {
			return false
		}
		name := strings.Join(slices.Sorted(maps.Keys(gr.holders)), " ")
		if other := same[name]; other != nil {
			other.ranges = other.ranges.Union(gr.ranges)
			return true
		}
		same[name] = gr
		return false
	})
}

package history

import (
	"slices"
	"time"
)

// episodes are times in which something was broken, in their order and apart from each other.
type episodes []episode

type episode struct {
	from, to time.Time
	// before is how long all earlier ones lasted.
	before time.Duration
}

// episodes are the faults, each with an aftermath of this length; faults that then touch are one episode.
func (h History) episodes(aftermath time.Duration) episodes {
	faults := slices.Clone(h.Faults)
	slices.SortFunc(faults, func(a, b Fault) int { return a.From.Compare(b.From) })
	var all episodes
	for _, f := range faults {
		end := f.To.Add(aftermath)
		if n := len(all); n > 0 && !f.From.After(all[n-1].to) {
			if end.After(all[n-1].to) {
				all[n-1].to = end
			}
			continue
		}
		next := episode{from: f.From, to: end}
		if n := len(all); n > 0 {
			next.before = all[n-1].before + all[n-1].to.Sub(all[n-1].from)
		}
		all = append(all, next)
	}
	return all
}

// calm is how much of a time none of them covers.
func (es episodes) calm(from, to time.Time) time.Duration {
	return to.Sub(from) - (es.covered(to) - es.covered(from))
}

// covered is how long they lasted until a time.
func (es episodes) covered(until time.Time) time.Duration {
	begun, _ := slices.BinarySearchFunc(es, until, func(e episode, t time.Time) int { return e.from.Compare(t) })
	if begun == 0 {
		return 0
	}
	last := es[begun-1]
	return last.before + min(until.Sub(last.from), last.to.Sub(last.from))
}

// restless is how many times the patience an event may be under way while no fault lasts, be it in
// aftermaths. Where these leave no calm between the faults nothing else finds what stands still.
const restless = 4

// clock measures how long events were under way.
type clock struct {
	patience           time.Duration
	aftermaths, faults episodes
}

func (h History) clock() clock {
	return clock{patience: h.Patience, aftermaths: h.episodes(h.Aftermath), faults: h.episodes(0)}
}

// late reports whether an event arrived later than it may, and how much of its way was calm.
func (c clock) late(e Event, first Read) (calm time.Duration, late bool) {
	if c.patience == 0 || e.At.IsZero() || first.At.IsZero() {
		return 0, false
	}
	calm = c.aftermaths.calm(e.At, first.At)
	return calm, calm > c.patience || c.faults.calm(e.At, first.At) > restless*c.patience
}

package console

import (
	"context"
	"math"
	"time"
)

// point is what a plot has of a while.
type point struct {
	// At is the beginning of the while.
	At time.Time
	// Delivered is how many events arrived, Opened how many investigations were opened.
	Delivered, Opened int64
	// Oldest is the greatest age of the oldest event that waited, in seconds; NaN where nothing looked.
	Oldest float64
}

const (
	fine       = 5 * time.Second
	shortSpan  = 15 * time.Minute
	coarse     = 5 * time.Minute
	longSpan   = 24 * time.Hour
	seriesKept = longSpan + coarse
)

// series are the figures of plots, in the memory of this process. What arrived and what was opened is read from the database
// back to 15 minutes before the start; how old the oldest was, nothing writes down, so it begins with the process.
type series struct {
	fine, coarse map[int64]*point
	receipt      int64
	opened       time.Time
}

// read adds what came since the last time.
func (s *series) read(ctx context.Context, outbox Outbox, investigations Investigations, now time.Time, oldest float64) error {
	if s.fine == nil {
		s.fine, s.coarse = map[int64]*point{}, map[int64]*point{}
		s.opened = now.Add(-shortSpan)
	}
	last, delivered, err := outbox.Delivered(ctx, s.receipt, now.Add(-shortSpan))
	if err != nil {
		return err
	}
	opened, next, err := investigations.OpenedSince(ctx, s.opened)
	if err != nil {
		return err
	}
	s.receipt, s.opened = last, next
	for _, c := range delivered {
		s.each(c.At, func(p *point) { p.Delivered += c.Count })
	}
	for _, c := range opened {
		s.each(c.Hour, func(p *point) { p.Opened += c.Opened })
	}
	s.each(now, func(p *point) {
		if math.IsNaN(p.Oldest) || p.Oldest < oldest {
			p.Oldest = oldest
		}
	})
	s.forget(s.fine, now.Add(-shortSpan-coarse))
	s.forget(s.coarse, now.Add(-seriesKept))
	return nil
}

// each changes the two points of a time.
func (s *series) each(at time.Time, change func(*point)) {
	for step, points := range map[time.Duration]map[int64]*point{fine: s.fine, coarse: s.coarse} {
		from := at.Truncate(step)
		p := points[from.Unix()]
		if p == nil {
			p = &point{At: from, Oldest: math.NaN()}
			points[from.Unix()] = p
		}
		change(p)
	}
}

func (s *series) forget(points map[int64]*point, before time.Time) {
	for at := range points {
		if at < before.Unix() {
			delete(points, at)
		}
	}
}

// points are the two series up to now, without the while that has not ended. Nothing is between known points.
func (s *series) points(now time.Time) (short, long []point) {
	return spread(s.fine, fine, shortSpan, now), spread(s.coarse, coarse, longSpan, now)
}

func spread(points map[int64]*point, step, span time.Duration, now time.Time) []point {
	var out []point
	for at := now.Add(-span).Truncate(step); at.Before(now.Truncate(step)); at = at.Add(step) {
		if p := points[at.Unix()]; p != nil {
			out = append(out, *p)
		} else {
			out = append(out, point{At: at, Oldest: math.NaN()})
		}
	}
	return out
}

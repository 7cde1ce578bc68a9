// Package series keeps figures over time, for plots: how many events were delivered, how many investigations were opened, how
// much waited and how long. They are in the memory of one process.
package series

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"github.com/postrider/postrider/internal/dlq"
	"github.com/postrider/postrider/internal/loop"
	"github.com/postrider/postrider/internal/relay"
)

// Span is how far back a series goes.
type Span string

const (
	// Short is 15 minutes, in steps of 5 seconds.
	Short Span = "15m"
	// Long is 24 hours, in steps of 5 minutes.
	Long Span = "24h"
)

// Length is how far back the series goes.
func (s Span) Length() time.Duration {
	if s == Long {
		return 24 * time.Hour
	}
	return 15 * time.Minute
}

// Step is how long a point is.
func (s Span) Step() time.Duration {
	if s == Long {
		return 5 * time.Minute
	}
	return 5 * time.Second
}

// Point is what is known of a step.
type Point struct {
	// At is the beginning of the step.
	At time.Time
	// Delivered is how many events were acknowledged, Opened how many investigations were opened.
	Delivered, Opened int64
	// Looked says that the process looked in the step. Oldest is the greatest age of the oldest event that was due then, in
	// seconds, and Waiting the largest number of events that waited; both are 0 where the process did not look.
	Looked  bool
	Oldest  float64
	Waiting int64
}

// Series are the points of a span, up to the last step that has ended.
type Series struct {
	// At is when the figures were read.
	At time.Time
	// From is the beginning of the first step, To the end of the last.
	From, To time.Time
	// Points are in the order of time. A step without a figure has none.
	Points []Point
}

// Outbox is the log; *postgres.Store of internal/relay is one.
type Outbox interface {
	Status(ctx context.Context) (relay.Status, error)
	Delivered(ctx context.Context, after int64, since time.Time) (last int64, counts []relay.TimeCount, err error)
}

// Investigations count what was opened; *postgres.Investigations of internal/dlq is one.
type Investigations interface {
	OpenedSince(ctx context.Context, since time.Time) (counts []dlq.SourceCount, next time.Time, err error)
}

const (
	// freshFor is for how long callers share what was read.
	freshFor = time.Second
	// readLimit bounds one reading of Run.
	readLimit = 5 * time.Second
)

// Recorder keeps the series. What was delivered and opened is read from the database back to 15 minutes before the first
// reading. How much waits, and how long, is written nowhere: it begins with the process.
type Recorder struct {
	outbox         Outbox
	investigations Investigations
	turn           chan struct{} // has one element while a caller reads

	read    time.Time // when the figures were read; zero for never
	receipt int64     // the newest receipt that was counted
	opened  time.Time // up to when investigations were counted
	points  map[Span]map[int64]*step
}

// step is a point, with the number of investigations that were opened by source.
type step struct {
	Point
	opened map[string]int64
}

// New returns a Recorder that has read nothing yet.
func New(outbox Outbox, investigations Investigations) *Recorder {
	return &Recorder{outbox: outbox, investigations: investigations, turn: make(chan struct{}, 1), points: map[Span]map[int64]*step{Short: {}, Long: {}}}
}

// Run reads once a step of the short span until ctx ends, so that each step has its figures without a request. A reading
// that fails leaves its step out: readiness says that the database is away.
func (r *Recorder) Run(ctx context.Context) error {
	loop.Every(ctx, Short.Step(), func(ctx context.Context) {
		ctx, cancel := context.WithTimeout(ctx, readLimit)
		defer cancel()
		_, _ = r.Series(ctx, Short)
	})
	return nil
}

// Series reads what is new, unless that was done in the last second, and returns the series of a span. Where ctx limits to sources
// (dlq.WithSources), the investigations of others are not counted.
func (r *Recorder) Series(ctx context.Context, span Span) (Series, error) {
	select {
	case r.turn <- struct{}{}:
		defer func() { <-r.turn }()
	case <-ctx.Done():
		return Series{}, context.Cause(ctx)
	}
	if now := time.Now(); now.Sub(r.read) >= freshFor {
		if err := r.readAt(ctx, now); err != nil { // counts come by source, whatever ctx limits to
			return Series{}, err
		}
	}
	return r.seriesAt(span, r.read, dlq.SourcesOf(ctx)), nil
}

func (r *Recorder) readAt(ctx context.Context, now time.Time) error {
	since := now.Add(-Short.Length())
	status, err := r.outbox.Status(ctx)
	if err != nil {
		return err
	}
	receipt, delivered, err := r.outbox.Delivered(ctx, r.receipt, since)
	if err != nil {
		return err
	}
	if r.opened.IsZero() {
		r.opened = since
	}
	opened, next, err := r.investigations.OpenedSince(ctx, r.opened)
	if err != nil {
		return err
	}
	r.read, r.receipt, r.opened = now, receipt, next
	for _, c := range delivered {
		r.change(c.At, func(p *step) { p.Delivered += c.Count })
	}
	for _, c := range opened {
		r.change(c.Minute, func(p *step) {
			if p.opened == nil {
				p.opened = map[string]int64{}
			}
			p.opened[c.Source] += c.Opened
		})
	}
	r.change(now, func(p *step) {
		p.Looked, p.Oldest, p.Waiting = true, max(p.Oldest, status.OldestDueSeconds), max(p.Waiting, status.Waiting())
	})
	for span, points := range r.points {
		before := now.Add(-span.Length() - span.Step()).Unix()
		maps.DeleteFunc(points, func(at int64, _ *step) bool { return at < before })
	}
	return nil
}

// change changes the point of a time in each span.
func (r *Recorder) change(at time.Time, change func(*step)) {
	for span, points := range r.points {
		from := at.Truncate(span.Step())
		p := points[from.Unix()]
		if p == nil {
			p = &step{Point: Point{At: from}}
			points[from.Unix()] = p
		}
		change(p)
	}
}

// seriesAt is the series of a span up to a time, with what was opened at some sources; nil is all.
func (r *Recorder) seriesAt(span Span, now time.Time, sources []string) Series {
	s := Series{At: now, From: now.Add(-span.Length()).Truncate(span.Step()), To: now.Truncate(span.Step())}
	for _, p := range r.points[span] {
		if !p.At.Before(s.From) && p.At.Before(s.To) {
			point := p.Point
			for source, n := range p.opened {
				if sources == nil || slices.Contains(sources, source) {
					point.Opened += n
				}
			}
			if point != (Point{At: p.At}) { // what happened was at other sources
				s.Points = append(s.Points, point)
			}
		}
	}
	slices.SortFunc(s.Points, func(a, b Point) int { return cmp.Compare(a.At.UnixNano(), b.At.UnixNano()) })
	return s
}

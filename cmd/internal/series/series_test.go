package series

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/postrider/postrider/internal/dlq"
	"github.com/postrider/postrider/internal/relay"
)

// database answers from fields, and counts how often it was asked for the status.
type database struct {
	status    relay.Status
	delivered []relay.TimeCount
	opened    []dlq.SourceCount
	broken    error // of the count of investigations
	asked     int
	receipts  []int64 // the numbers that it was asked to go on from
}

func (d *database) Status(context.Context) (relay.Status, error) { d.asked++; return d.status, nil }

func (d *database) Delivered(_ context.Context, after int64, _ time.Time) (int64, []relay.TimeCount, error) {
	d.receipts = append(d.receipts, after)
	return after + 1, d.delivered, nil
}

func (d *database) OpenedSince(_ context.Context, since time.Time) ([]dlq.SourceCount, time.Time, error) {
	return d.opened, since.Add(time.Second), d.broken
}

func read(t *testing.T, r *Recorder, span Span) Series {
	t.Helper()
	s, err := r.Series(t.Context(), span)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestSeries(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		began := time.Now() // at a whole minute, in the bubble
		d := &database{status: relay.Status{Pending: 3, Parked: 4, Scheduled: 5, Failed: 9, OldestDueSeconds: 60},
			delivered: []relay.TimeCount{{At: began.Add(-10 * time.Minute), Count: 20}}, opened: []dlq.SourceCount{{Minute: began.Add(-10 * time.Minute), Source: "main", Opened: 2}}}
		r := New(d, d)
		if s := read(t, r, Short); len(s.Points) != 1 || s.Points[0] != (Point{At: began.Add(-10 * time.Minute), Delivered: 20, Opened: 2}) {
			t.Fatalf("the step that has not ended is there, or what came before is not: %+v", s.Points)
		}
		d.delivered, d.opened, d.status.OldestDueSeconds = nil, nil, 30 // a step keeps its worst
		time.Sleep(2 * time.Second)
		read(t, r, Short)
		time.Sleep(3 * time.Second)
		s := read(t, r, Short)
		if len(s.Points) != 2 || s.Points[1] != (Point{At: began, Looked: true, Oldest: 60, Waiting: 12}) {
			t.Errorf("the step that ended is %+v", s.Points)
		}
		if s.To != began.Add(5*time.Second) || s.To.Sub(s.From) != 15*time.Minute {
			t.Errorf("it goes from %s to %s", s.From, s.To)
		}
		time.Sleep(16 * time.Minute)
		if s := read(t, r, Short); len(s.Points) != 0 {
			t.Errorf("after 16 minutes the short series has %+v", s.Points)
		}
		long := read(t, r, Long)
		var sum Point
		for _, p := range long.Points {
			sum.Delivered, sum.Opened, sum.Waiting = sum.Delivered+p.Delivered, sum.Opened+p.Opened, max(sum.Waiting, p.Waiting)
		}
		if sum.Delivered != 20 || sum.Opened != 2 || sum.Waiting != 12 || long.Points[0].At != began.Add(-10*time.Minute) {
			t.Errorf("the long series has %+v", long.Points)
		}
		time.Sleep(25 * time.Hour)
		read(t, r, Long)
		if n := len(r.points[Short]) + len(r.points[Long]); n != 2 {
			t.Errorf("a day later %d points are kept, not the points of the last reading", n)
		}
	})
}

func TestSeriesAreSharedForASecond(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := &database{}
		r := New(d, d)
		for range 5 {
			read(t, r, Short)
			read(t, r, Long)
		}
		time.Sleep(time.Second)
		if read(t, r, Short); d.asked != 2 {
			t.Errorf("the database was asked %d times", d.asked)
		}
	})
}

// TestFailureCountsNothingTwice: a reading that fails half-way is made again from where the last whole one ended.
func TestFailureCountsNothingTwice(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := &database{delivered: []relay.TimeCount{{At: time.Now(), Count: 20}}, broken: errors.New("away")}
		r := New(d, d)
		if _, err := r.Series(t.Context(), Short); !errors.Is(err, d.broken) {
			t.Fatalf("it says %v", err)
		}
		d.broken = nil
		read(t, r, Short)
		time.Sleep(5 * time.Second)
		d.delivered = nil
		if s := read(t, r, Short); len(s.Points) != 1 || s.Points[0].Delivered != 20 || d.receipts[0] != 0 || d.receipts[1] != 0 || d.receipts[2] != 1 {
			t.Errorf("points %+v, read after receipts %v", s.Points, d.receipts)
		}
	})
}

// TestRunFillsEachStep: without a request each step has its figures.
func TestRunFillsEachStep(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := &database{}
		r := New(d, d)
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- r.Run(ctx) }()
		time.Sleep(61 * time.Second)
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if n := len(read(t, r, Short).Points); n != 12 {
			t.Errorf("after a minute %d steps have figures, not 12", n)
		}
	})
}

package api

import (
	"time"

	"github.com/postrider/postrider/cmd/internal/series"
)

// Series are figures over time, for plots, as the process that answers has them.
type Series struct {
	// AsOf is when they were read.
	AsOf time.Time `json:"as_of"`
	// Span is how far back they go.
	Span series.Span `json:"span"`
	// From is the beginning of the first step.
	From time.Time `json:"from"`
	// To is the end of the last step; the step that has not ended is left out.
	To time.Time `json:"to"`
	// StepSeconds is how long a step is, in seconds.
	StepSeconds float64 `json:"step_seconds"`
	// Points are the steps with a figure, the oldest first; never null. In a step without a point nothing was
	// delivered or given up as far as the process knows, and the process did not look.
	Points []SeriesPoint `json:"points"`
}

// SeriesPoint is what is known of a step.
type SeriesPoint struct {
	// At is the beginning of the step.
	At time.Time `json:"at"`
	// Delivered is how many events were acknowledged by their topics.
	Delivered int64 `json:"delivered"`
	// GivenUp is how many investigations were opened.
	GivenUp int64 `json:"given_up"`
	// OldestDueSeconds is the greatest age of the oldest event that should have gone, in seconds. Null where the process did
	// not look.
	OldestDueSeconds *float64 `json:"oldest_due_seconds"`
	// Waiting is the largest number of events that had not gone and were not given up. Null where the process did not look.
	Waiting *int64 `json:"waiting"`
}

// NewSeries are figures over time as they are shown.
func NewSeries(span series.Span, s series.Series) Series {
	return Series{AsOf: Time(s.At), Span: span, From: Time(s.From), To: Time(s.To), StepSeconds: span.Step().Seconds(), Points: each(newSeriesPoint, s.Points)}
}

func newSeriesPoint(p series.Point) SeriesPoint {
	v := SeriesPoint{At: Time(p.At), Delivered: p.Delivered, GivenUp: p.Opened}
	if p.Looked {
		v.OldestDueSeconds, v.Waiting = &p.Oldest, &p.Waiting
	}
	return v
}

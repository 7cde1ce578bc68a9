package relay

import "time"

// TimeCount is how many there were in a span of time, whose length the caller of the count knows.
type TimeCount struct {
	// At is the beginning of the span.
	At time.Time
	// Count is how many there were.
	Count int64
}

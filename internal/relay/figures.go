package relay

import "time"

// TimeCount is how many there were from a time on, for a while that the one who counts knows.
type TimeCount struct {
	// At is the beginning of the while.
	At time.Time
	// Count is how many there were.
	Count int64
}

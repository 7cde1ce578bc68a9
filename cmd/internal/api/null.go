package api

import (
	"encoding/json"
	"time"
)

// OrNull is a pointer to a value, nil for the zero value: a field that is null where there is nothing.
func OrNull[T comparable](v T) *T {
	var zero T
	if v == zero {
		return nil
	}
	return &v
}

// OrZero is what a field that may be null points to, the zero value for null.
func OrZero[T any](p *T) T {
	if p == nil {
		var zero T
		return zero
	}
	return *p
}

// RawOrNull is JSON, null for none.
func RawOrNull(b json.RawMessage) json.RawMessage {
	if len(b) == 0 {
		return json.RawMessage("null")
	}
	return b
}

// Years that RFC 3339 can say, and Go's encoding/json accepts.
var (
	firstTime = time.Date(1, 1, 1, 0, 0, 0, 0, time.UTC)
	lastTime  = time.Date(9999, 12, 31, 23, 59, 59, 999999999, time.UTC)
)

// Time is a time in UTC as JSON can say it: one before the year 1 or after the year 9999 becomes the nearest that it can.
// Timestamps of foreign Kafka records can be any 64-bit number.
func Time(t time.Time) time.Time {
	t = t.UTC()
	if t.Before(firstTime) {
		return firstTime
	}
	if t.After(lastTime) {
		return lastTime
	}
	return t
}

// TimeOrNull is Time, nil for the zero time.
func TimeOrNull(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = Time(t)
	return &t
}

// inYears makes Time of fields, each where it stands.
func inYears(fields ...*time.Time) {
	for _, t := range fields {
		*t = Time(*t)
	}
}

// inYearsOrNull makes Time of fields that point to times: each points to a new one, and nil stays nil. The times that they
// pointed to are the caller's.
func inYearsOrNull(fields ...**time.Time) {
	for _, t := range fields {
		if *t != nil {
			in := Time(**t)
			*t = &in
		}
	}
}

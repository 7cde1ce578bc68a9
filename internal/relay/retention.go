package relay

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/postrider/postrider/internal/loop"
)

// PurgeKind is a kind of row that is removed when it is not needed any more.
type PurgeKind string

const (
	// PurgePublished: events that their topics acknowledged.
	PurgePublished PurgeKind = "published"
	// PurgeDeadLettered: events that the dead-letter topic acknowledged and whose investigation is closed.
	PurgeDeadLettered PurgeKind = "dead_lettered"
	// PurgeIdempotencyKeys: keys under which writers' functions accepted events.
	PurgeIdempotencyKeys PurgeKind = "idempotency_key"
)

// PurgeKinds returns every kind.
func PurgeKinds() []PurgeKind {
	return []PurgeKind{PurgePublished, PurgeDeadLettered, PurgeIdempotencyKeys}
}

// Purger removes rows that are not needed any more.
type Purger interface {
	// Purge removes some rows of a kind that have been there long enough, in a transaction of its own. Any number of
	// processes may call it; one at a time works, and the others are told that it is busy. If it fails midway, Purged says
	// what was done, beside the error.
	Purge(ctx context.Context, limits PurgeLimits) (Purged, error)
}

// PurgeLimits bounds one step of a purge.
type PurgeLimits struct {
	Kind PurgeKind
	// Keep is how long rows stay at least.
	Keep time.Duration
	// Rows is about how many rows to look at.
	Rows int
	// DryRun counts what would be removed, and removes nothing.
	DryRun bool
}

// Purged is what one step of a purge did.
type Purged struct {
	// Rows is how many were removed, or would have been. Of the log it counts the events that were delivered: the row of
	// another goes, too, and the event stays, in its exception.
	Rows int
	// More says that there is more to remove.
	More bool
	// Busy says that another session is at it, so nothing was done.
	Busy bool
}

// ErrMiscounted is wrapped by the error of a purge whose rows do not agree with the receipts: the log may have events that
// were passed over. Nothing more is removed until an operator has looked.
var ErrMiscounted = errors.New("the log does not agree with its receipts, retention has stopped")

// Retention says how long rows stay that are not needed any more.
type Retention struct {
	// Published is how long events stay at least after their topics acknowledged them. Defaults to 720h, 30 days.
	Published time.Duration
	// DeadLettered is how long dead-lettered events stay at least after their investigation was closed. Defaults to 720h,
	// 30 days.
	DeadLettered time.Duration
	// IdempotencyKeys is how long a key is known at least after its first use. Defaults to 720h, 30 days.
	IdempotencyKeys time.Duration
}

// Day is the unit in which retention is usually given.
const Day = 24 * time.Hour

func (r Retention) withDefaults() Retention {
	if r.Published == 0 {
		r.Published = 30 * Day
	}
	if r.DeadLettered == 0 {
		r.DeadLettered = 30 * Day
	}
	if r.IdempotencyKeys == 0 {
		r.IdempotencyKeys = 30 * Day
	}
	return r
}

// Validate returns an error that names the first setting out of range. Zero values stand for defaults.
func (r Retention) Validate() error {
	for _, kind := range PurgeKinds() {
		if keep := r.of(kind); keep < 0 {
			return fmt.Errorf("retention of %s rows is %v, it must not be negative", kind, keep)
		}
	}
	return nil
}

func (r Retention) of(kind PurgeKind) time.Duration {
	switch kind {
	case PurgePublished:
		return r.Published
	case PurgeDeadLettered:
		return r.DeadLettered
	default:
		return r.IdempotencyKeys
	}
}

const (
	// purgeRows is how many rows one step looks at: few milliseconds of work, and of locks.
	purgeRows = 1000
	// purgeRest is how long the loop rests after a step, as a multiple of the time the step took, so that
	// retention takes a fifth of one connection's time at most.
	purgeRest = 4
)

// purge takes one step of each purge, each followed by a rest, and returns how many of them have more
// to do.
func (r *Relay) purge(ctx context.Context) (int, error) {
	more := 0
	var errs []error
	for _, kind := range PurgeKinds() {
		began := time.Now()
		got, err := r.cfg.Store.Purge(ctx, PurgeLimits{Kind: kind, Keep: r.cfg.Retention.of(kind), Rows: purgeRows})
		if got.Rows > 0 {
			r.tracing.record(ctx, began, figures{action: actionPurge, batch: purgeRows, processed: got.Rows, succeeded: got.Rows}, err)
		}
		r.metrics.purged.WithLabelValues(string(kind)).Add(float64(got.Rows))
		r.metrics.settled(actionPurge, got.Rows)
		switch {
		case errors.Is(err, ErrMiscounted):
			r.metrics.miscounted.Set(1)
		case kind == PurgePublished && err == nil && !got.Busy:
			r.metrics.miscounted.Set(0)
		}
		if err != nil {
			// The other kinds are not to wait for this one.
			errs = append(errs, fmt.Errorf("purge %s rows: %w", kind, err))
			continue
		}
		if got.More {
			more++
		}
		_ = loop.Sleep(ctx, purgeRest*time.Since(began))
	}
	return more, errors.Join(errs...)
}

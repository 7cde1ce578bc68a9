package relay

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/postrider/postrider/internal/loop"
)

// busyLimit is how long a cleanup waits for another session that is at the same rows.
const busyLimit = 30 * time.Second

// CleanupOptions say how to clean up.
type CleanupOptions struct {
	// DryRun counts what would be removed, and removes nothing. Defaults to false.
	DryRun bool
	// MaxRows is about how many rows are removed, or counted, at most, all kinds together. Defaults to 0, all of
	// them.
	MaxRows int
	// TracerProvider receives a span of the cleanup. Defaults to none, for Relay.Cleanup to that of the relay.
	TracerProvider trace.TracerProvider
	// Logger receives a line about the cleanup. Defaults to none, for Relay.Cleanup to what Config.LogActions says.
	Logger *slog.Logger
}

// CleanupResult is what a cleanup removed, or would remove.
type CleanupResult struct {
	Action Action `json:"action"`
	DryRun bool   `json:"dry_run"`
	// Published and DeadLettered are events, by the state they were in.
	Published       int     `json:"published"`
	DeadLettered    int     `json:"dead_lettered"`
	IdempotencyKeys int     `json:"idempotency_keys"`
	DurationMS      float64 `json:"duration_ms"`
	// More says that MaxRows ended it, and that there may be further rows.
	More bool `json:"more,omitempty"`
}

// rows is the number of rows of all kinds.
func (c *CleanupResult) rows() int { return c.Published + c.DeadLettered + c.IdempotencyKeys }

func (c *CleanupResult) add(kind PurgeKind, rows int) {
	switch kind {
	case PurgePublished:
		c.Published += rows
	case PurgeDeadLettered:
		c.DeadLettered += rows
	case PurgeIdempotencyKeys:
		c.IdempotencyKeys += rows
	}
}

// Cleanup does at once what running relays do little by little: it walks over all rows that retention may
// remove, from the beginning, in small steps and without the rests between them. Running relays may purge
// at the same time; rows that they remove are not counted. If one kind of rows cannot be cleaned up, the other kinds are
// cleaned up all the same, and what was done is returned beside the error.
func (r *Relay) Cleanup(ctx context.Context, o CleanupOptions) (CleanupResult, error) {
	if o.TracerProvider == nil {
		o.TracerProvider = r.cfg.TracerProvider
	}
	if o.Logger == nil {
		o.Logger = r.report().Logger
	}
	got, err := Cleanup(ctx, r.cfg.Store, r.cfg.Retention, o)
	if !o.DryRun {
		r.metrics.purged.WithLabelValues(string(PurgePublished)).Add(float64(got.Published))
		r.metrics.purged.WithLabelValues(string(PurgeDeadLettered)).Add(float64(got.DeadLettered))
		r.metrics.purged.WithLabelValues(string(PurgeIdempotencyKeys)).Add(float64(got.IdempotencyKeys))
		r.metrics.settled(actionPurge, got.Published+got.DeadLettered+got.IdempotencyKeys)
	}
	return got, err
}

// Cleanup is Relay.Cleanup for a caller that has no relay: it needs no broker.
func Cleanup(ctx context.Context, store Purger, retention Retention, o CleanupOptions) (result CleanupResult, err error) {
	began := time.Now()
	result = CleanupResult{Action: ActionCleanup, DryRun: o.DryRun}
	ctx, end := Report{o.TracerProvider, o.Logger}.Begin(ctx, ActionCleanup)
	defer func() {
		rows := result.Published + result.DeadLettered + result.IdempotencyKeys
		end(ActionResult{BatchSize: purgeRows, Processed: rows, Succeeded: rows}, err, slog.Bool("dry_run", o.DryRun),
			slog.Int("published", result.Published), slog.Int("dead_lettered", result.DeadLettered),
			slog.Int("idempotency_keys", result.IdempotencyKeys))
	}()
	retention = retention.withDefaults()
	if err := retention.Validate(); err != nil {
		return result, fmt.Errorf("%s: %w", ActionCleanup, err)
	}
	var errs []error
	for _, kind := range PurgeKinds() {
		limits := PurgeLimits{Kind: kind, Keep: retention.of(kind), Rows: purgeRows, DryRun: o.DryRun}
		if err := cleanUp(ctx, store, limits, o.MaxRows, &result); err != nil {
			errs = append(errs, fmt.Errorf("%s: purge %s rows: %w", ActionCleanup, kind, err))
			if ctx.Err() != nil {
				break // nothing can be done about the others
			}
		}
	}
	result.DurationMS = milliseconds(began)
	return result, errors.Join(errs...)
}

// cleanUp walks over the rows of one kind, until none is left or the rows of all kinds reach most. A most of 0 is no limit.
func cleanUp(ctx context.Context, store Purger, limits PurgeLimits, most int, result *CleanupResult) error {
	free := time.Now()
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		if left := most - result.rows(); most > 0 && left <= 0 {
			result.More = true
			return nil
		} else if most > 0 {
			limits.Rows = min(left, purgeRows) // it removes no more than it looks at
		}
		if limits.DryRun { // what stays would be counted again
			limits.Rows = math.MaxInt32
			if most > 0 {
				limits.Rows = most - result.rows()
			}
		}
		got, err := store.Purge(ctx, limits)
		result.add(limits.Kind, got.Rows)
		switch {
		case err != nil:
			return err
		case got.Busy && time.Since(free) > busyLimit:
			return errors.New("another session has purged, or held locks on these rows, for too long; look for long transactions in pg_stat_activity and try again")
		case got.Busy:
			_ = loop.Sleep(ctx, 20*time.Millisecond)
			continue
		}
		if !got.More || limits.DryRun {
			result.More = result.More || got.More
			return nil
		}
		free = time.Now()
	}
}

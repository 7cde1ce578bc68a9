package app

import (
	"context"
	"log/slog"
	"time"

	"github.com/postrider/postrider/cmd/internal/config"
	"github.com/postrider/postrider/relay"
	"github.com/postrider/postrider/relay/postgres"
)

// Retention is how long rows stay, as the settings say it in days.
func Retention(c config.Outbox) relay.Retention {
	days := func(n int) time.Duration { return time.Duration(n) * relay.Day }
	return relay.Retention{
		// What is deleted when it is settled may still be there from when it was marked; no time at all
		// would stand for the default.
		Published:       max(days(c.RetentionDays), 1),
		DeadLettered:    days(c.DeadLetterRetentionDays),
		IdempotencyKeys: days(c.IdempotencyRetentionDays),
	}
}

// Act makes what a relay needs, without running one, does one action with it and closes it again.
func Act(ctx context.Context, o Options, do func(*relay.Relay) (relay.ActionResult, error)) (relay.ActionResult, error) {
	o.Roles = []Role{Relay}
	a, err := New(ctx, o)
	if err != nil {
		return relay.ActionResult{}, err
	}
	got, err := do(a.engine)
	if stopErr := a.Stop(context.WithoutCancel(ctx)); err == nil {
		err = stopErr
	}
	if o.Config.Outbox.Log {
		result(ctx, a.options.Logger.With("component", "relay", "action", string(got.Action)), began(got.DurationMS), err,
			slog.Int("batch_size", got.BatchSize), slog.Int("processed", got.Processed), slog.Int("succeeded", got.Succeeded),
			slog.Int("failed", got.Failed), slog.Int("exhausted", got.Exhausted), slog.Int("dead_lettered", got.DeadLettered),
			slog.Int("scheduled", got.Scheduled), slog.Int("parked", got.Parked), slog.Int("returned", got.Returned))
	}
	return got, err
}

// Cleanup does a whole pass of retention. It needs the database alone.
func Cleanup(ctx context.Context, c config.Config, log *slog.Logger, o relay.CleanupOptions) (relay.CleanupResult, error) {
	if err := prepareDatabase(ctx, c.Database, false, log); err != nil {
		return relay.CleanupResult{}, err
	}
	spans, err := newTracing(ctx, c.Tracing, log, nil)
	if err != nil {
		return relay.CleanupResult{}, err
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), tracingLimit)
		defer cancel()
		_ = spans.Stop(ctx) // it logs what went wrong
	}()
	tracer, err := statements(spans.Provider(), c.Tracing)
	if err != nil {
		return relay.CleanupResult{}, err
	}
	pool, err := postgres.NewPool(ctx, c.Database.URL.Reveal(), postgres.Options{MaxConns: 2, Password: passwords(c.Database), Tracer: tracer})
	if err != nil {
		return relay.CleanupResult{}, err
	}
	defer pool.Close()
	o.TracerProvider = spans.Provider()
	got, err := relay.Cleanup(ctx, postgres.NewStore(pool, postgres.StoreOptions{}), Retention(c.Outbox), o)
	if c.Outbox.Log {
		result(ctx, log.With("component", "relay", "action", string(got.Action), "dry_run", got.DryRun), began(got.DurationMS), err,
			slog.Int("published", got.Published), slog.Int("dead_lettered", got.DeadLettered), slog.Int("idempotency_keys", got.IdempotencyKeys), slog.Int("partitions", got.Partitions))
	}
	return got, err
}

// began is when something that took so long until now began.
func began(ms float64) time.Time {
	return time.Now().Add(-time.Duration(ms * float64(time.Millisecond)))
}

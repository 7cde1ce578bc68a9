package app

import (
	"context"
	"log/slog"

	"go.opentelemetry.io/otel/trace"

	"github.com/postrider/postrider/cmd/internal/config"
	"github.com/postrider/postrider/internal/dlq"
	dlqpostgres "github.com/postrider/postrider/internal/dlq/postgres"
	"github.com/postrider/postrider/internal/dlqstats"
	"github.com/postrider/postrider/internal/relay"
	"github.com/postrider/postrider/internal/relay/postgres"
)

// Retention is how long rows stay, as the settings say it in days.
func Retention(c config.Outbox) relay.Retention {
	return relay.Retention{
		// No time at all would stand for the default.
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
	return got, err
}

// report is where actions say what they did, as the settings have it.
func report(c config.Config, p trace.TracerProvider, log *slog.Logger) relay.Report {
	r := relay.Report{TracerProvider: p}
	if c.Outbox.Log {
		r.Logger = log
	}
	return r
}

// Cleanup does a whole pass of retention. It needs the database alone.
func Cleanup(ctx context.Context, c config.Config, log *slog.Logger, o relay.CleanupOptions) (relay.CleanupResult, error) {
	if _, err := prepareDatabase(ctx, c.Database, false, log); err != nil {
		return relay.CleanupResult{}, err
	}
	if o.TracerProvider == nil {
		spans, stop, err := Trace(ctx, c.Tracing, log)
		if err != nil {
			return relay.CleanupResult{}, err
		}
		defer stop()
		o.TracerProvider = spans
	}
	tracer, err := statements(o.TracerProvider, c.Tracing)
	if err != nil {
		return relay.CleanupResult{}, err
	}
	pool, err := postgres.NewPool(ctx, c.Database.URL.Reveal(), postgres.Options{MaxConns: 2, Password: passwords(c.Database), Tracer: tracer})
	if err != nil {
		return relay.CleanupResult{}, err
	}
	defer pool.Close()
	o.Logger = report(c, nil, log).Logger
	return relay.Cleanup(ctx, postgres.NewStore(pool, postgres.StoreOptions{}), Retention(c.Outbox), o)
}

// DLQStats counts the open investigations. It needs the database alone, and the rights of an operator.
func DLQStats(ctx context.Context, c config.Config, log *slog.Logger) (dlq.Summary, error) {
	pool, err := OpenPool(ctx, c.Database, 1)
	if err != nil {
		return dlq.Summary{}, err
	}
	defer pool.Close()
	letters, err := dlqpostgres.NewStore(dlqpostgres.Config{Pool: pool})
	if err != nil {
		return dlq.Summary{}, err
	}
	spans, stop, err := Trace(ctx, c.Tracing, log)
	if err != nil {
		return dlq.Summary{}, err
	}
	defer stop()
	return dlqstats.Count(ctx, letters, report(c, spans, log))
}

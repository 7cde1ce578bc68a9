// Package outboxsync has the four actions of the outbox as functions, for programs that want them without running
// Postrider: publish pending events, retry events that are due, clean up, and count dead letters. The commands
// postrider outbox process, retry, cleanup and stats and the MCP tool outbox_sync do the same. Each action has a span,
// "outbox.<action>", and a line in the log, where Config.Relay says so.
package outboxsync

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/postrider/postrider/internal/dlq"
	dlqpostgres "github.com/postrider/postrider/internal/dlq/postgres"
	"github.com/postrider/postrider/internal/relay"
	"github.com/postrider/postrider/internal/relay/kafka"
	"github.com/postrider/postrider/internal/relay/postgres"
)

// ErrNoBrokers is wrapped where an action that publishes is called and no brokers were configured.
var ErrNoBrokers = errors.New("outboxsync: no brokers are configured; set Config.Kafka.Brokers")

// Config says which outbox, which brokers, and by which rules.
type Config struct {
	// DatabaseURL is a PostgreSQL connection string of a login with the rights of postrider_relay. The database must
	// be migrated. Required.
	DatabaseURL string
	// Database are the settings of the connections. Defaults to the defaults of its fields, MaxConns to 12.
	Database postgres.Options
	// Store says what becomes of rows that are settled. Defaults to the defaults of its fields.
	Store postgres.StoreOptions
	// Kafka says where events go and how. Without Brokers the actions that publish are refused, and the others work.
	// Defaults to none.
	Kafka kafka.Config
	// Relay are batch size, rules of topics, retention, where spans go and whether actions are logged; give the same as to
	// the relays that run. Its Store, Publisher and Notifier are not used. Defaults to the defaults of
	// its fields.
	Relay relay.Config
}

// Outbox does the actions. It is safe for concurrent use, and Close ends it. Relays may run meanwhile: the Outbox
// leaves the log to the relay that leads, and exceptions to the session that has locked them.
type Outbox struct {
	pool      *pgxpool.Pool
	publisher *kafka.Publisher // nil without brokers
	engine    *relay.Relay     // nil without brokers
	store     *postgres.Store
	letters   *dlqpostgres.Store
	retention relay.Retention
	report    relay.Report
}

// Open checks the configuration and that the database can be reached. It does not ask the brokers: an action that
// needs them and finds none fails with relay.ErrNoBrokers.
func Open(ctx context.Context, cfg Config) (_ *Outbox, err error) {
	if cfg.DatabaseURL == "" {
		return nil, errors.New("outboxsync: DatabaseURL is required")
	}
	if cfg.Database.MaxConns == 0 {
		cfg.Database.MaxConns = 12
	}
	if cfg.Database.PublishTimeout == 0 {
		cfg.Database.PublishTimeout = cfg.Relay.PublishTimeout
	}
	o := &Outbox{retention: cfg.Relay.Retention, report: relay.Report{TracerProvider: cfg.Relay.TracerProvider}}
	if cfg.Relay.LogActions {
		o.report.Logger = cfg.Relay.Logger
	}
	if o.pool, err = postgres.NewPool(ctx, cfg.DatabaseURL, cfg.Database); err != nil {
		return nil, fmt.Errorf("outboxsync: %w", err)
	}
	defer func() {
		if err != nil {
			o.Close()
		}
	}()
	if err := o.pool.Ping(ctx); err != nil {
		return nil, fmt.Errorf("outboxsync: the database cannot be reached: %w", err)
	}
	o.store = postgres.NewStore(o.pool, cfg.Store)
	if o.letters, err = dlqpostgres.NewStore(dlqpostgres.Config{Pool: o.pool}); err != nil {
		return nil, fmt.Errorf("outboxsync: %w", err)
	}
	if len(cfg.Kafka.Brokers) == 0 {
		return o, nil
	}
	if o.publisher, err = kafka.NewPublisher(cfg.Kafka); err != nil {
		return nil, fmt.Errorf("outboxsync: %w", err)
	}
	cfg.Relay.Store, cfg.Relay.Publisher, cfg.Relay.Notifier = o.store, o.publisher, nil
	if o.engine, err = relay.New(cfg.Relay); err != nil {
		return nil, fmt.Errorf("outboxsync: %w", err)
	}
	return o, nil
}

// Close ends the connections. Actions that are under way fail.
func (o *Outbox) Close() {
	if o.publisher != nil {
		o.publisher.Close()
	}
	o.pool.Close()
}

// ProcessPending publishes pending events until none is left that is free, or the limit is reached, and sends the dead
// letters that are due; see relay.Relay.ProcessPending. An action that fails midway returns what it did until then.
func (o *Outbox) ProcessPending(ctx context.Context, a relay.ActionOptions) (relay.ActionResult, error) {
	if o.engine == nil {
		return relay.ActionResult{Action: relay.ActionProcessPending}, ErrNoBrokers
	}
	return o.engine.ProcessPending(ctx, a)
}

// ProcessRetries brings back the events whose next attempt is due, and publishes them; if none is due it publishes
// nothing. See relay.Relay.ProcessRetries.
func (o *Outbox) ProcessRetries(ctx context.Context, a relay.ActionOptions) (relay.ActionResult, error) {
	if o.engine == nil {
		return relay.ActionResult{Action: relay.ActionProcessRetries}, ErrNoBrokers
	}
	return o.engine.ProcessRetries(ctx, a)
}

// Cleanup removes rows that are past their retention, by status: published events, dead-lettered ones whose
// investigation is closed, and idempotency keys; see relay.Cleanup. A dry run counts and removes nothing.
func (o *Outbox) Cleanup(ctx context.Context, c relay.CleanupOptions) (relay.CleanupResult, error) {
	if c.TracerProvider == nil {
		c.TracerProvider = o.report.TracerProvider
	}
	if c.Logger == nil {
		c.Logger = o.report.Logger
	}
	return relay.Cleanup(ctx, o.store, o.retention, c)
}

// DLQStats counts the open investigations: how many, for how long, by which error, and which to look at first.
func (o *Outbox) DLQStats(ctx context.Context) (dlq.Summary, error) {
	return DLQStats(ctx, o.letters, o.report)
}

// Counter counts investigations. Store and Editor of internal/dlq/postgres implement it.
type Counter interface {
	Stats(ctx context.Context) (dlq.Stats, error)
}

// DLQStats is Outbox.DLQStats for callers that have no Outbox: it counts with from, and reports the action to report.
func DLQStats(ctx context.Context, from Counter, report relay.Report) (sum dlq.Summary, err error) {
	ctx, end := report.Begin(ctx, relay.ActionDLQStats)
	defer func() {
		end(relay.ActionResult{Processed: int(sum.Size)}, err,
			slog.Int64("size", sum.Size), slog.Int64("oldest_age_ms", sum.OldestAgeMS), slog.Int("error_codes", len(sum.ByErrorCode)))
	}()
	s, err := from.Stats(ctx)
	if err != nil {
		return dlq.Summary{}, fmt.Errorf("%s: %w", relay.ActionDLQStats, err)
	}
	return s.Summary(time.Now()), nil
}

// Package outboxsync has the four actions of the outbox as functions, for programs that want them without running
// Postrider: publish pending events, retry events that are due, clean up, and count dead letters. The commands
// postrider outbox process, retry, cleanup and stats and the MCP tool outbox_sync do the same. Each action has a span,
// "outbox.<action>", and a line in the log, where Config says so.
package outboxsync

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.opentelemetry.io/otel/trace"

	"github.com/postrider/postrider/internal/dlq"
	dlqpostgres "github.com/postrider/postrider/internal/dlq/postgres"
	"github.com/postrider/postrider/internal/dlqstats"
	"github.com/postrider/postrider/internal/relay"
	"github.com/postrider/postrider/internal/relay/kafka"
	"github.com/postrider/postrider/internal/relay/postgres"
)

// ErrNoBrokers is wrapped where an action that publishes is called and Config.Brokers is empty.
var ErrNoBrokers = errors.New("outboxsync: no brokers are configured; set Config.Brokers")

// ErrNoBrokerAnswers is wrapped where an action that publishes finds no broker that answers.
var ErrNoBrokerAnswers = relay.ErrNoBrokers

type (
	// TopicSettings are the rules of a topic: Retry, AfterLastAttempt ("continue" or "halt_key"), DLQTopic,
	// MaxMessageBytes, RouteDeadLetterAfter, MaxAge, CommitOrder, BreakerEvents and BreakerWindow. They mean what the
	// settings of the same names mean, and have the same defaults.
	TopicSettings = relay.TopicSettings
	// Retention says how long rows stay at least: Published (720h), DeadLettered (720h), IdempotencyKeys (720h).
	Retention = relay.Retention
	// Options bounds one call of ProcessPending or ProcessRetries: Limit is how many events to work on at most; 0, the
	// default, is all.
	Options = relay.ActionOptions
	// Result is what ProcessPending or ProcessRetries did: Processed, Succeeded, Failed, Exhausted, DeadLettered, Scheduled,
	// Parked, Returned. Elsewhere says that another relay leads the outbox and processes it.
	Result = relay.ActionResult
	// CleanupOptions bounds one call of Cleanup: DryRun only counts, MaxRows is about how many rows at most; 0, the default,
	// is all.
	CleanupOptions = relay.CleanupOptions
	// CleanupResult is what Cleanup removed: Published, DeadLettered, IdempotencyKeys; More when MaxRows ended it.
	CleanupResult = relay.CleanupResult
	// Stats is the open investigations: Size, OldestAgeMS, ByErrorCode, RecentSampleIDs.
	Stats = dlq.Summary
)

// Config says which outbox, which brokers, and by which rules.
type Config struct {
	// DatabaseURL is a PostgreSQL connection string of a login with the rights of postrider_relay. The database must
	// be migrated. Required.
	DatabaseURL string
	// Brokers are seed addresses, host:port. Without them the actions that publish are refused, and the others work.
	// Defaults to none.
	Brokers []string
	// ClientOptions are further options of the Kafka client, for TLS and logins. Defaults to none.
	ClientOptions []kgo.Opt
	// MaxMessageBytes is the largest record batch to send, in bytes. Defaults to 1048588, Kafka's default.
	MaxMessageBytes int
	// Compression is none, gzip, snappy, lz4 or zstd. Defaults to none.
	Compression string
	// TopicSettings returns the rules of a topic. Give the same as to the relays that run. Defaults to the defaults for
	// every topic.
	TopicSettings func(topic string) TopicSettings
	// BatchSize is the most events in one batch. Defaults to 5000.
	BatchSize int
	// Retention is what Cleanup goes by. Defaults to the defaults of its fields.
	Retention Retention
	// Logger receives a line about each action. Defaults to none.
	Logger *slog.Logger
	// TracerProvider receives a span of each action. Defaults to none.
	TracerProvider trace.TracerProvider
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
// needs them and finds none fails with ErrNoBrokerAnswers.
func Open(ctx context.Context, cfg Config) (_ *Outbox, err error) {
	if cfg.DatabaseURL == "" {
		return nil, errors.New("outboxsync: DatabaseURL is required")
	}
	o := &Outbox{retention: cfg.Retention, report: relay.Report{TracerProvider: cfg.TracerProvider, Logger: cfg.Logger}}
	if o.pool, err = postgres.NewPool(ctx, cfg.DatabaseURL, postgres.Options{}); err != nil {
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
	o.store = postgres.NewStore(o.pool, postgres.StoreOptions{})
	if o.letters, err = dlqpostgres.NewStore(dlqpostgres.Config{Pool: o.pool}); err != nil {
		return nil, fmt.Errorf("outboxsync: %w", err)
	}
	if len(cfg.Brokers) == 0 {
		return o, nil
	}
	o.publisher, err = kafka.NewPublisher(kafka.Config{
		Brokers: cfg.Brokers, Options: cfg.ClientOptions, MaxMessageBytes: cfg.MaxMessageBytes, Compression: cfg.Compression, Logger: cfg.Logger,
	})
	if err != nil {
		return nil, fmt.Errorf("outboxsync: %w", err)
	}
	o.engine, err = relay.New(relay.Config{
		Store: o.store, Publisher: o.publisher, TopicSettings: cfg.TopicSettings, BatchSize: cfg.BatchSize, Retention: cfg.Retention,
		Logger: cfg.Logger, LogActions: cfg.Logger != nil, TracerProvider: cfg.TracerProvider,
	})
	if err != nil {
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
// letters that are due. An action that fails midway returns what it did until then.
func (o *Outbox) ProcessPending(ctx context.Context, a Options) (Result, error) {
	if o.engine == nil {
		return Result{Action: relay.ActionProcessPending}, ErrNoBrokers
	}
	return o.engine.ProcessPending(ctx, a)
}

// ProcessRetries brings back the events whose next attempt is due, and publishes them; if none is due it publishes
// nothing.
func (o *Outbox) ProcessRetries(ctx context.Context, a Options) (Result, error) {
	if o.engine == nil {
		return Result{Action: relay.ActionProcessRetries}, ErrNoBrokers
	}
	return o.engine.ProcessRetries(ctx, a)
}

// Cleanup removes rows that are past their retention, by status: published events, dead-lettered ones whose
// investigation is closed, and idempotency keys. A dry run counts and removes nothing.
func (o *Outbox) Cleanup(ctx context.Context, c CleanupOptions) (CleanupResult, error) {
	if c.TracerProvider == nil {
		c.TracerProvider = o.report.TracerProvider
	}
	if c.Logger == nil {
		c.Logger = o.report.Logger
	}
	return relay.Cleanup(ctx, o.store, o.retention, c)
}

// DLQStats counts the open investigations: how many, for how long, by which error, and which to look at first.
func (o *Outbox) DLQStats(ctx context.Context) (Stats, error) {
	return dlqstats.Count(ctx, o.letters, o.report)
}

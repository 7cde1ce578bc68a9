package app

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/postrider/postrider/cmd/internal/access"
	"github.com/postrider/postrider/cmd/internal/config"
	"github.com/postrider/postrider/internal/dlq"
	dlqkafka "github.com/postrider/postrider/internal/dlq/kafka"
	dlqpostgres "github.com/postrider/postrider/internal/dlq/postgres"
	"github.com/postrider/postrider/internal/pooler"
	"github.com/postrider/postrider/internal/relay"
	"github.com/postrider/postrider/internal/relay/postgres"
)

// relayConnections is how many the relay may open: a leader uses one to lead and for a moment a second one to go on
// leading, one each to read, to settle and to look after holds, which may be many at once, one for letters and one for the
// backlog and retention.
const relayConnections = 10

// notifierConnections is the one that listens for writers, outside of all pools.
const notifierConnections = 1

// Connections is how many database connections a process with all roles opens at most.
func Connections(c config.Config) int {
	n := relayConnections + serviceConnections + apiConnections
	if c.Outbox.Notifier {
		n += notifierConnections
	}
	return n
}

// relayName is what pg_stat_activity calls the relay's sessions; postrider doctor looks for it.
const relayName = "postrider relay"

// relayPool are the settings of the relay's connections.
func relayPool(c config.Config) postgres.Options {
	return postgres.Options{
		MaxConns: relayConnections, ApplicationName: relayName, Pooler: pooler.Mode(c.Database.Pooler), PublishTimeout: c.Outbox.PublishTimeout,
		Password: passwords(c.Database),
	}
}

// makeRelay prepares the relay, where this process has the role.
func (a *App) makeRelay(ctx context.Context) error {
	if !a.has(Relay) {
		return nil
	}
	c := a.options.Config
	tracer, err := statements(a.options.TracerProvider, c.Tracing)
	if err != nil {
		return err
	}
	options := relayPool(c)
	options.Tracer = tracer
	pool, err := postgres.NewPool(ctx, c.Database.URL.Reveal(), options)
	if err != nil {
		return err
	}
	a.lifecycle.add(closing("relay's database connections", pool.Close))
	a.watched.pools.Add("relay", pool)
	var store relay.Store = postgres.NewStore(pool, postgres.StoreOptions{LongestRetry: c.LongestRetry()})
	if c.Outbox.Log {
		store = actionLog{store, a.options.Logger.With("component", "relay")}
	}
	own := c.OwnTopics()
	if err := a.writeOwnTopics(ctx, pool, own); err != nil {
		return err
	}
	engine, err := relay.New(relay.Config{
		Store: store, Publisher: a.publisher, Notifier: a.notifier(pool), OwnTopic: func(topic string) string { return own[topic] },
		BatchSize: c.Outbox.BatchSize, Dispatches: c.Outbox.Dispatches,
		TopicSettings:  c.TopicSettings,
		PublishTimeout: c.Outbox.PublishTimeout, Retention: Retention(c.Outbox),
		Logger: a.options.Logger, LogActions: c.Outbox.Log, Registerer: a.options.Registry, TracerProvider: a.options.TracerProvider,
	})
	if err != nil {
		return err
	}
	a.engine = engine
	a.parts = append(a.parts, part{name: "relay", limit: c.Outbox.PublishTimeout + config.SettleTime, run: engine.Run})
	return nil
}

// notifier is nil where it is switched off.
func (a *App) notifier(pool *pgxpool.Pool) relay.Notifier {
	if !a.options.Config.Outbox.Notifier {
		return nil
	}
	return postgres.NewNotifier(pool, postgres.NotifierOptions{Logger: a.options.Logger, Password: passwords(a.options.Config.Database)})
}

// makeCollector prepares the collector, where this process has the role.
func (a *App) makeCollector(context.Context) error {
	if !a.has(Collector) {
		return nil
	}
	c := a.options.Config
	redactor, err := Redactor(c)
	if err != nil {
		return err
	}
	store, err := dlqpostgres.NewStore(dlqpostgres.Config{Pool: a.service, Redactor: redactor, Auditor: Auditor{access.NewStore(a.service)}})
	if err != nil {
		return err
	}
	source, err := dlqkafka.NewSource(dlqkafka.Config{
		Brokers: c.Kafka.Brokers, Topics: c.CollectedTopics(), Patterns: c.Collector.Patterns,
		Exclude: []string{c.Tasks.LifecycleTopic}, Group: c.DLQ.Group,
		Logger: a.options.Logger, Registerer: a.options.Registry, Options: a.clientOptions("collector", c.DLQ.Group, c.DLQ.Group),
	})
	if err != nil {
		return err
	}
	// The collector closes its source when it ends; this is for one that never ran.
	a.lifecycle.add(step{name: "dead-letter source", limit: 6 * time.Second, stop: func(context.Context) error { source.Close(); return nil }})
	collector, err := dlq.NewCollector(dlq.Config{Source: source, Letters: store, Originals: a.originals, Custom: c.Collector.CustomHeaders(), Logger: a.options.Logger,
		Registerer: a.options.Registry, TracerProvider: a.options.TracerProvider})
	if err != nil {
		return err
	}
	// Finishing the letters in hand, and saying goodbye to the group, take five seconds each at most.
	a.parts = append(a.parts, part{name: "collector", limit: 2*dlq.DefaultStopTimeout + time.Second, run: collector.Run})
	return a.watchInvestigations(store, source)
}

//go:embed queries/own_topics.sql
var ownTopicsQuery string

// writeOwnTopics tells the functions of writers which topics are not theirs. The relay gives up what was written to one of
// them by other means.
func (a *App) writeOwnTopics(ctx context.Context, pool *pgxpool.Pool, own map[string]string) error {
	ctx, cancel := context.WithTimeout(ctx, connectLimit)
	defer cancel()
	topics := slices.Sorted(maps.Keys(own))
	uses := make([]string, len(topics))
	for i, topic := range topics {
		uses[i] = own[topic]
	}
	_, err := pool.Exec(ctx, ownTopicsQuery, topics, uses)
	var refused *pgconn.PgError
	switch {
	case errors.As(err, &refused) && refused.Code == "42501": // insufficient_privilege
		// Rights that are missing until roles.sql was run again must not keep events from going.
		a.log.Error("the functions of writers go on with the topics that they know as Postrider's own", "err", err)
		return nil
	case err != nil:
		return fmt.Errorf("write down the topics that are Postrider's own: %w", err)
	}
	return nil
}

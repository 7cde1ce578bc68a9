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
	"github.com/prometheus/client_golang/prometheus"

	"github.com/postrider/postrider/cmd/internal/config"
	"github.com/postrider/postrider/internal/relay"
	"github.com/postrider/postrider/internal/relay/postgres"
)

// carrier is what carries one outbox: connections to its database, and a relay on them.
type carrier struct {
	pool   *pgxpool.Pool
	engine *relay.Relay
	// wake has the relay look at once.
	wake    func()
	metrics *sourceRegistry
}

func (c *carrier) close() {
	c.metrics.close()
	c.pool.Close()
}

const (
	// quietPause is the longest pause between two looks at a source that has a name, while it is quiet. A look asks the
	// session that leads.
	quietPause = time.Second
	// quietAsk is how often that session is asked whether it lives, while nothing else is asked of it.
	quietAsk = 3 * time.Second
	// quietConnections is how long a named source keeps a connection that nothing needs.
	quietConnections = 30 * time.Second
	// sourceDispatches bounds the batches from behind holds of a named source; outbox.dispatches may say less.
	sourceDispatches = 4
	// batchesInHand is how many batches a relay has in hand beside its dispatches: one is read while one is sent.
	batchesInHand = 2
)

// newCarrier prepares what carries the outbox of these settings. Without a source it is that of database.url, which has all
// that the settings give. A named source has limits of its own, its name on each record, and says less when it is quiet.
func (a *App) newCarrier(ctx context.Context, c config.Config, s *config.Source, observer relay.Observer) (_ *carrier, err error) {
	cfg := relay.Config{
		Publisher: a.publisher, Crowd: &a.crowd, BatchSize: c.Outbox.BatchSize, Dispatches: c.Outbox.Dispatches, TopicSettings: c.TopicSettings,
		PublishTimeout: c.Outbox.PublishTimeout, Retention: Retention(c.Outbox), Observer: observer,
		Logger: a.options.Logger, LogActions: c.Outbox.Log, TracerProvider: a.options.TracerProvider,
	}
	stored := postgres.StoreOptions{LongestRetry: c.LongestRetry()}
	options, name := relayPool(c, relayConnections), config.MainSource
	if s != nil {
		name = s.Name
		connections := s.Connections
		if c.Outbox.Notifier {
			connections -= notifierConnections
		}
		options = relayPool(c, connections)
		options.IdleTime, stored.AskEach = quietConnections, quietAsk
		cfg.Source, cfg.Allowed, cfg.Publisher = name, s.Allows, a.publisher.NewShare()
		cfg.Dispatches = min(cfg.Dispatches, sourceDispatches)
		cfg.BatchBytes = int64(s.BufferedMB) << 20 / int64(cfg.Dispatches+batchesInHand)
		cfg.Rests, cfg.IdlePollMax, cfg.IdlePollNotified = true, quietPause, quietPause
		cfg.Logger = cfg.Logger.With("source", name)
	}
	if options.Tracer, err = statements(a.options.TracerProvider, c.Tracing); err != nil {
		return nil, err
	}
	pool, err := postgres.NewPool(ctx, c.Database.URL.Reveal(), options)
	if err != nil {
		return nil, err
	}
	k := &carrier{pool: pool, metrics: newSourceRegistry(a.options.Registry, name, s != nil)}
	defer func() {
		if err != nil {
			k.close()
		}
	}()
	own := c.OwnTopics()
	if err := a.writeOwnTopics(ctx, pool, own); err != nil {
		return nil, err
	}
	if err := a.writeAttemptRules(ctx, pool, c); err != nil {
		return nil, err
	}
	cfg.OwnTopic = func(topic string) string { return own[topic] }
	if w, named := observer.(*sourceWork); named {
		stored.Admit = func(ctx context.Context) error { return w.confirm(ctx, pool) }
	}
	cfg.Store = postgres.NewStore(pool, stored)
	if c.Outbox.Log {
		cfg.Store = actionLog{cfg.Store, cfg.Logger.With("component", "relay")}
	}
	if c.Outbox.Notifier {
		cfg.Notifier = postgres.NewNotifier(pool, postgres.NotifierOptions{Logger: cfg.Logger, Password: passwords(c.Database)})
	}
	cfg.Registerer = prometheus.Registerer(k.metrics)
	if k.engine, err = relay.New(cfg); err != nil {
		return nil, err
	}
	k.wake = k.engine.Wake
	return k, nil
}

// makeRelay prepares the relay, where this process has the role.
func (a *App) makeRelay(ctx context.Context) error {
	if !a.has(Relay) {
		return nil
	}
	c := a.options.Config
	if a.desk() {
		k, err := a.newCarrier(ctx, c, nil, nil)
		if err != nil {
			return err
		}
		a.lifecycle.add(closing("relay's database connections", k.close))
		a.watched.pools.Add("relay", k.pool)
		a.engine = k.engine
		a.parts = append(a.parts, part{name: "relay", limit: c.Outbox.PublishTimeout + config.SettleTime, run: k.engine.Run})
	}
	return a.makeFleet(ctx)
}

var (
	//go:embed queries/own_topics.sql
	ownTopicsQuery string
	//go:embed queries/attempt_rules.sql
	attemptRulesQuery string
)

// writeOwnTopics tells the functions of writers which topics are not theirs. The relay gives up what was written to one of
// them by other means.
func (a *App) writeOwnTopics(ctx context.Context, pool *pgxpool.Pool, own map[string]string) error {
	topics := slices.Sorted(maps.Keys(own))
	uses := make([]string, len(topics))
	for i, topic := range topics {
		uses[i] = own[topic]
	}
	return a.writeDown(ctx, pool, "the topics that are Postrider's own", ownTopicsQuery, topics, uses)
}

// writeAttemptRules tells the view of events how many attempts they have.
func (a *App) writeAttemptRules(ctx context.Context, pool *pgxpool.Pool, c config.Config) error {
	topics, attempts := c.AttemptRules()
	return a.writeDown(ctx, pool, "how many attempts events have", attemptRulesQuery, topics, attempts)
}

// writeDown writes settings where the functions and views of the outbox read them.
func (a *App) writeDown(ctx context.Context, pool *pgxpool.Pool, what, query string, args ...any) error {
	ctx, cancel := context.WithTimeout(ctx, connectLimit)
	defer cancel()
	_, err := pool.Exec(ctx, query, args...)
	var refused *pgconn.PgError
	switch {
	case errors.As(err, &refused) && refused.Code == "42501": // insufficient_privilege
		// Rights that are missing until the script of roles was run again must not keep events from going.
		a.log.Error("the functions and views of the outbox go on with what they know", "of", what, "err", err)
		return nil
	case err != nil:
		return fmt.Errorf("write down %s: %w", what, err)
	}
	return nil
}

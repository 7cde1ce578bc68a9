package app

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/postrider/postrider/dlq"
	dlqkafka "github.com/postrider/postrider/dlq/kafka"
	dlqpostgres "github.com/postrider/postrider/dlq/postgres"
	"github.com/postrider/postrider/relay"
	"github.com/postrider/postrider/relay/outbox"
	"github.com/postrider/postrider/relay/postgres"
	"github.com/postrider/postrider/relay/postgres/pooler"
)

// settleLimit is the time a relay has, after the wait for acknowledgements, to settle its batches.
const settleLimit = 10 * time.Second

// makeRelay prepares the relay, where this process has the role.
func (a *App) makeRelay(ctx context.Context) error {
	if !a.has(Relay) {
		return nil
	}
	c := a.options.Config
	// Each worker holds one connection for its claim and needs a second one to mark its batch, so
	// fewer would make workers wait for each other.
	pool, err := postgres.NewPool(ctx, c.Database.URL.Reveal(), postgres.Options{
		MaxConns: int32(2*c.Outbox.Workers + 4), Pooler: pooler.Mode(c.Database.Pooler),
	})
	if err != nil {
		return err
	}
	a.lifecycle.add(closing("relay's database connections", pool.Close))
	var store relay.Store = postgres.NewStore(pool, postgres.StoreOptions{DeletePublished: c.Outbox.RetentionDays == 0})
	if c.Outbox.Log {
		store = actionLog{store, a.options.Logger.With("component", "relay")}
	}
	retry := outbox.DefaultRetryPolicy()
	retry.MaxAttempts, retry.Base, retry.Max = c.Outbox.MaxAttempts, c.Outbox.RetryBase, c.Outbox.RetryMax
	engine, err := relay.New(relay.Config{
		Store: store, Publisher: a.publisher, Doorbell: a.doorbell(pool),
		Workers: c.Outbox.Workers, BatchSize: c.Outbox.BatchSize, Retry: retry,
		DLQTopic: c.DLQ.Topic, PublishTimeout: c.Outbox.PublishTimeout,
		Logger: a.options.Logger, Registerer: a.options.Registry,
	})
	if err != nil {
		return err
	}
	a.parts = append(a.parts, part{name: "relay", limit: c.Outbox.PublishTimeout + settleLimit, run: engine.Run})
	return nil
}

// doorbell is nil where it is switched off.
func (a *App) doorbell(pool *pgxpool.Pool) relay.Doorbell {
	if !a.options.Config.Outbox.Doorbell {
		return nil
	}
	return postgres.NewDoorbell(pool, postgres.DoorbellOptions{Logger: a.options.Logger})
}

// makeCollector prepares the collector, where this process has the role.
func (a *App) makeCollector(context.Context) error {
	if !a.has(Collector) {
		return nil
	}
	c := a.options.Config
	store, err := dlqpostgres.NewStore(dlqpostgres.Config{Pool: a.service})
	if err != nil {
		return err
	}
	source, err := dlqkafka.NewSource(dlqkafka.Config{
		Brokers: c.Kafka.Brokers, Topics: []string{c.DLQ.Topic}, Group: c.DLQ.Group,
		Logger: a.options.Logger, Registerer: a.options.Registry,
	})
	if err != nil {
		return err
	}
	// The collector closes its source when it ends; this is for one that never ran.
	a.lifecycle.add(step{name: "dead-letter source", limit: 6 * time.Second, stop: func(context.Context) error { source.Close(); return nil }})
	collector, err := dlq.NewCollector(dlq.Config{Source: source, Store: store, Logger: a.options.Logger, Registerer: a.options.Registry})
	if err != nil {
		return err
	}
	// Finishing the letters in hand, and saying goodbye to the group, take five seconds each at most.
	a.parts = append(a.parts, part{name: "collector", limit: 2*dlq.DefaultStopTimeout + time.Second, run: collector.Run})
	return nil
}

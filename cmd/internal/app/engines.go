package app

import (
	"context"
	"fmt"
	"time"

	"github.com/postrider/postrider/cmd/internal/access"
	"github.com/postrider/postrider/cmd/internal/config"
	"github.com/postrider/postrider/internal/dlq"
	dlqkafka "github.com/postrider/postrider/internal/dlq/kafka"
	dlqpostgres "github.com/postrider/postrider/internal/dlq/postgres"
	"github.com/postrider/postrider/internal/pooler"
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
	if c.Console.Enabled {
		n += consoleConnections
	}
	if c.Outbox.Notifier {
		n += notifierConnections
	}
	return n
}

// relayName is what pg_stat_activity calls the relay's sessions; postrider doctor looks for it.
const relayName = "postrider relay"

// relayPool are the settings of a relay's connections.
func relayPool(c config.Config, connections int) postgres.Options {
	return postgres.Options{
		MaxConns: int32(connections), ApplicationName: relayName, Pooler: pooler.Mode(c.Database.Pooler), PublishTimeout: c.Outbox.PublishTimeout,
		Password: passwords(c.Database),
	}
}

// makeCollector prepares the collector, where this process has the role.
func (a *App) makeCollector(ctx context.Context) error {
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
	id, err := a.identity(ctx)
	if err != nil {
		return fmt.Errorf("read the identity of the desk: %w", err)
	}
	desk := id.String()
	source, err := dlqkafka.NewSource(dlqkafka.Config{
		Brokers: c.Kafka.Brokers, Topics: c.CollectedTopics(), Patterns: c.Collector.Patterns,
		Exclude: []string{c.Tasks.LifecycleTopic}, Group: c.DLQ.Group, Desk: desk, EarlierDesks: c.Collector.EarlierDesks,
		Logger: a.options.Logger, Registerer: a.options.Registry, Options: a.clientOptions("collector", c.DLQ.Group, c.DLQ.Group),
	})
	if err != nil {
		return err
	}
	// The collector closes its source when it ends; this is for one that never ran.
	a.lifecycle.add(step{name: "dead-letter source", limit: 6 * time.Second, stop: func(context.Context) error { source.Close(); return nil }})
	collector, err := dlq.NewCollector(dlq.Config{Source: source, Letters: store, Originals: a.originals, Custom: c.Collector.CustomHeaders(), Logger: a.options.Logger,
		Whose:      dlq.Whose{Relays: c.DLQTopics(), Owners: a.ownersNow, Desk: desk, EarlierDesks: c.Collector.EarlierDesks},
		Registerer: a.options.Registry, TracerProvider: a.options.TracerProvider})
	if err != nil {
		return err
	}
	// Finishing the letters in hand, and saying goodbye to the group, take five seconds each at most.
	a.parts = append(a.parts, part{name: "collector", limit: 2*dlq.DefaultStopTimeout + time.Second, run: collector.Run})
	return a.watchInvestigations(store, source)
}

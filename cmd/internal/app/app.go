package app

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"runtime/debug"
	"slices"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.opentelemetry.io/otel/trace"

	"github.com/postrider/postrider/cmd/internal/config"
	"github.com/postrider/postrider/cmd/internal/httpapi"
	"github.com/postrider/postrider/cmd/internal/kafkaauth"
	"github.com/postrider/postrider/cmd/internal/obs"
	dlqkafka "github.com/postrider/postrider/internal/dlq/kafka"
	"github.com/postrider/postrider/internal/migrations"
	"github.com/postrider/postrider/internal/relay"
	"github.com/postrider/postrider/internal/relay/kafka"
)

// Options is what an App is made of.
type Options struct {
	// Config are the settings; kafka.brokers must be set, and database.url or sources. Required.
	Config config.Config
	// Roles are the parts to run. Defaults to all.
	Roles []Role
	// Migrate brings the schema to this binary's version first. Defaults to false: a database that
	// lacks migrations is refused.
	Migrate bool
	// Registry receives and serves the metrics; a registry takes the metrics of one App. Defaults to a new one.
	Registry *prometheus.Registry
	// Logger defaults to one that discards.
	Logger *slog.Logger
	// Reload reads the settings again, for sources that come, go and change while the process runs. Defaults to none: the
	// sources stay as they are.
	Reload func() (config.Config, error)
	// TracerProvider receives the spans, instead of what the section tracing of the settings says; it stays the
	// caller's. Defaults to none.
	TracerProvider trace.TracerProvider
}

// App is a process of Postrider: New makes it, Run works, Stop ends it. Several may live in one
// operating system process.
type App struct {
	options   Options
	log       *slog.Logger
	lifecycle *lifecycle
	failed    chan error

	service   *pgxpool.Pool
	publisher *kafka.Publisher
	originals *dlqkafka.Originals
	crowd     relay.Crowd
	engine    *relay.Relay    // nil without the role
	http      *httpapi.Server // nil without the role
	services  *Services       // nil where no part needs it
	fleet     *fleet          // nil without the role relay
	parts     []part
	watched   watched
	kafka     []kgo.Opt         // of every client: TLS and the login
	schema    []migrations.Part // the parts of it that the database has
	// owners says which sources may write to a topic, as the sources are now.
	owners atomic.Pointer[func(topic string) []string]
}

// gcPercent is the growth of the heap between two garbage collections, where GOGC is not set. A relay's live heap is small
// beside the garbage of a batch: with Go's default of 100 a quarter of a drain's CPU was garbage collection.
const gcPercent = 200

func collectLess() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
}

// New checks the settings and the database and makes everything that Run will need. It needs the
// database, because nothing can be checked without, and it does not need the brokers: a relay that
// starts before they do waits for them. When it fails nothing is left open.
func New(ctx context.Context, o Options) (_ *App, err error) {
	needed := []string{"database.url", "kafka.brokers"}
	if o.Config.HasSources() {
		needed = needed[1:]
	}
	if err := o.Config.Require(needed...); err != nil {
		return nil, err
	}
	if len(o.Roles) == 0 {
		o.Roles = Roles()
	}
	if o.Registry == nil {
		o.Registry = obs.NewRegistry()
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	log := o.Logger.With("component", "app")
	a := &App{options: o, log: log, lifecycle: newLifecycle(log), failed: make(chan error, 1)}
	a.knowOwners(o.Config)
	defer func() {
		if err != nil {
			err = errors.Join(err, a.Stop(context.WithoutCancel(ctx)))
		}
	}()
	if err := a.checkDesk(ctx); err != nil {
		return nil, err
	}
	// They are made in this order, and stopped in the reverse order.
	for _, make := range []func(context.Context) error{
		a.openTracing, a.watchClients, a.prepareKafka, a.openService, a.openPublisher, a.openOriginals, a.openServices, a.makeCollector, a.makeArchiver, a.makeDetector, a.watchTasks, a.makeReconciler,
		a.makeOperator, a.makePruner, a.makeTopicWatch, a.makeRelay, a.listen, a.watchReadiness,
	} {
		if err := make(ctx); err != nil {
			return nil, err
		}
	}
	return a, nil
}

// desk reports whether this process has a database of its own, that of database.url, beside those of the sources.
func (a *App) desk() bool { return a.options.Config.Database.URL != "" }

// checkDesk proves that the database of database.url, where it is set, is one for these roles.
func (a *App) checkDesk(ctx context.Context) (err error) {
	o := a.options
	if !a.desk() {
		return checkNoDesk(o.Roles, o.Config)
	}
	if a.schema, err = prepareDatabase(ctx, o.Config.Database, o.Migrate, a.log, o.Roles...); err != nil {
		return err
	}
	return checkParts(a.schema, o.Roles, o.Config)
}

func (a *App) has(r Role) bool { return slices.Contains(a.options.Roles, r) }

// Addr is where the process listens for HTTP, with the port it got; empty without the role.
func (a *App) Addr() string {
	if a.http == nil {
		return ""
	}
	return a.http.Addr()
}

// Services are the actions of people, for programs that embed an App; nil if it serves neither the API nor operations.
func (a *App) Services() *Services { return a.services }

// Run works until ctx ends or Stop is called, stops everything in order, and returns nil if all of
// it went well. A part that fails ends the others too.
func (a *App) Run(ctx context.Context) error {
	collectLess()
	b := obs.ReadBuild()
	a.log.Info("starting", "version", b.Version, "revision", b.Revision, "roles", joinRoles(a.options.Roles), "config", a.options.Config)
	if warnings := a.options.Config.Warnings(); len(warnings) > 0 {
		a.log.Warn("some settings are probably not what was meant", "warnings", warnings)
	}
	if a.http != nil {
		go func() {
			if err := a.http.Serve(); err != nil {
				a.fail("http server", err)
			}
		}()
	}
	for _, p := range a.parts {
		a.start(ctx, p)
	}
	var failure error
	select {
	case failure = <-a.failed:
		a.log.Error("stopping, because a part failed", "err", failure)
	case <-ctx.Done():
		a.log.Info("stopping")
	case <-a.lifecycle.stopping:
	}
	began := time.Now()
	err := a.Stop(context.WithoutCancel(ctx))
	a.log.Info("stopped", "took", time.Since(began).String())
	return errors.Join(failure, err)
}

// Stop ends everything within 30 seconds: first readiness, then all work at once, which finishes what it has in hand,
// then connections, the last opened first. A part that does not end in its time is named in the error and left behind. It
// may be called at any time, more than once and from several goroutines; all calls return the same when everything has
// ended.
func (a *App) Stop(ctx context.Context) error {
	if a.http != nil {
		a.http.Drain()
	}
	return a.lifecycle.stop(ctx)
}

// serviceConnections are enough for the collector, which uses two at a time, the detector and the archiver, which
// use two, and the checks.
const serviceConnections = 8

// openService opens the connections of everything but the relay, whose sessions have settings of their own and are busy
// when most needed elsewhere.
func (a *App) openService(ctx context.Context) error {
	if !a.desk() {
		return nil
	}
	c := a.options.Config
	tracer, err := statements(a.options.TracerProvider, c.Tracing)
	if err != nil {
		return err
	}
	pool, err := openPool(ctx, c.Database, serviceConnections, refuseUnfit, tracer)
	if err != nil {
		return err
	}
	a.service = pool
	a.watched.pools.Add("service", pool)
	a.lifecycle.add(closing("database connections", a.service.Close))
	return nil
}

// prepareKafka reads what clients need for TLS and the login, and so finds wrong files before anything is opened.
func (a *App) prepareKafka(context.Context) (err error) {
	a.kafka, err = kafkaauth.Options(a.options.Config.Kafka, kafkaauth.DialTimeout)
	return err
}

// openOriginals prepares what reads the records that letters point to, for the collector and for people.
func (a *App) openOriginals(context.Context) error {
	originals, err := NewOriginals(a.options.Config, a.options.Logger, a.kafka)
	if err != nil {
		return err
	}
	a.originals = originals
	a.lifecycle.add(closing("client for originals of dead letters", originals.Close))
	return nil
}

func (a *App) openPublisher(context.Context) error {
	c := a.options.Config.Kafka
	publisher, err := kafka.NewPublisher(kafka.Config{
		Brokers: c.Brokers, ClientID: c.ClientID, MaxMessageBytes: c.MaxMessageBytes, MaxRequestBytes: c.MaxRequestBytes, Compression: c.Compression,
		AllowTopicCreation: c.AllowTopicCreation, Logger: a.options.Logger, Options: a.clientOptions("publisher", c.ClientID, ""),
	})
	if err != nil {
		return err
	}
	a.publisher = publisher
	a.lifecycle.add(closing("producers", publisher.Close))
	return nil
}

func (a *App) listen(context.Context) error {
	if !a.has(HTTP) {
		return nil
	}
	c := a.options.Config
	cfg := httpapi.Config{
		Address: c.HTTP.Address, Checks: a.checks(), Metrics: a.options.Registry, Registerer: a.options.Registry, Logger: a.options.Logger,
		Timeout: c.HTTP.RequestTimeout, MaxBody: int64(c.HTTP.MaxBodyBytes), Proxies: c.HTTP.Trusted(),
	}
	if c.HTTP.API {
		api, err := a.services.API(c, a.options.Logger)
		if err != nil {
			return err
		}
		cfg.API = api
		a.parts = append(a.parts, part{name: "figures over time", run: a.services.Series.Run})
		if err := a.addConsole(&cfg, api); err != nil {
			return err
		}
	}
	server, err := httpapi.New(cfg)
	if err != nil {
		return fmt.Errorf("%w; choose another http.address, or stop what uses it", err)
	}
	a.http = server
	a.lifecycle.add(step{name: "http server", limit: 5 * time.Second, stop: server.Stop})
	return nil
}

// databaseRemedy is what to do when the database does not answer. It names no host: everybody may read it.
const databaseRemedy = "see that PostgreSQL runs at DATABASE_URL, takes its login, is no standby and has room on its disk; postrider doctor tries it"

// checks are what readiness depends on.
func (a *App) checks() []httpapi.Check {
	writes := &writeProbe{pool: a.service}
	kafka := httpapi.Check{Name: "kafka", Run: a.publisher.Ping, Remedy: "see that a broker answers at KAFKA_BROKERS and takes the login; postrider doctor tries it"}
	checks := []httpapi.Check{kafka}
	if a.fleet != nil && a.options.Config.HasSources() {
		checks = append(checks, httpapi.Check{Name: "sources", Run: a.fleet.ready, Remedy: "see postrider sources: it names what is wrong with each"})
	}
	if !a.desk() {
		return checks
	}
	return append([]httpapi.Check{
		{Name: "database", Run: func(ctx context.Context) error {
			var standby bool
			var missing string
			if err := a.service.QueryRow(ctx, readyQuery).Scan(&standby, &missing); err != nil {
				return err
			}
			if missing != "" {
				return fmt.Errorf("the login lacks rights: %s; grant it postrider_relay; postrider doctor lists all that it needs", missing)
			}
			if standby {
				return errors.New("the database is a standby and read-only")
			}
			return writes.check(ctx)
		}, Remedy: databaseRemedy},
	}, checks...)
}

// closing is a step for what closes without a context.
func closing(name string, shut func()) step {
	return step{name: name, limit: 2 * time.Second, stop: func(context.Context) error { shut(); return nil }}
}

// readyQuery asks what readiness needs of the database. That it answers is not enough: a login that lost its role
// would say ready and carry nothing.
//
//go:embed queries/ready.sql
var readyQuery string

package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.opentelemetry.io/otel/trace"

	"github.com/postrider/postrider/cmd/internal/access"
	"github.com/postrider/postrider/cmd/internal/actions"
	"github.com/postrider/postrider/cmd/internal/api"
	"github.com/postrider/postrider/cmd/internal/cluster"
	"github.com/postrider/postrider/cmd/internal/config"
	"github.com/postrider/postrider/cmd/internal/doctor"
	"github.com/postrider/postrider/cmd/internal/httpapi"
	"github.com/postrider/postrider/cmd/internal/series"
	"github.com/postrider/postrider/internal/dlq"
	dlqkafka "github.com/postrider/postrider/internal/dlq/kafka"
	dlqpostgres "github.com/postrider/postrider/internal/dlq/postgres"
	"github.com/postrider/postrider/internal/relay/postgres"
	"github.com/postrider/postrider/internal/tasks/ledger"
	ledgerpostgres "github.com/postrider/postrider/internal/tasks/postgres"
)

// Auditor writes the audit log for the services of the desk.
type Auditor struct{ Access *access.Store }

// Audit implements the ports: the one who ctx says did it, otherwise actor.
func (a Auditor) Audit(ctx context.Context, tx pgx.Tx, actor, action, targetType, targetID string, sources []string, details any) error {
	if access.ActorOf(ctx).Name == "" {
		ctx = access.WithActor(ctx, access.Actor{Name: actor})
	}
	if details == nil {
		details = struct{}{}
	}
	if action == "dlq.fetch" { // it comes before what was asked for, and may be done again
		ctx = access.WithoutClaim(ctx)
	}
	return a.Access.Audit(ctx, tx, action, targetType, targetID, sources, details)
}

// exceptions is the relay's store, with the error that the room dlq knows.
type exceptions struct{ *postgres.Store }

func (k exceptions) RedriveInPlace(ctx context.Context, tx pgx.Tx, id int64) error {
	err := k.Store.RedriveInPlace(ctx, tx, id)
	if errors.Is(err, postgres.ErrBusy) {
		return fmt.Errorf("%w: %w", dlqpostgres.ErrBusy, err)
	}
	return err
}

// Redactor hides the values that the settings name from people without the right to see them.
func Redactor(c config.Config) (*dlq.Redactor, error) {
	return dlq.NewRedactor(dlq.RedactionRules{Paths: c.DLQ.RedactPaths, Headers: c.DLQ.RedactHeaders})
}

// Services are all that people do at the desk, on one database.
type Services struct {
	Access         *access.Store
	Auditor        Auditor
	Redriver       *dlqpostgres.Redriver
	Investigations *dlqpostgres.Investigations
	Store          *dlqpostgres.Store
	Tasks          *actions.Tasks
	Outbox         *actions.Outbox
	Archive        *ledgerpostgres.Archive
	Series         *series.Recorder
	// Fetcher asks for the records that letters point to; nil where no brokers were given (AskBrokers).
	Fetcher *dlq.Fetcher
	// Cluster, Examine, Sources and SourceAdmin are for the API; nil where this process is not asked for what it depends on.
	Cluster httpapi.Cluster
	Examine func(context.Context) (doctor.Report, error)
	Sources func(context.Context) (api.Sources, error)
	// SourceAdmin leads sources back, and forgets them.
	SourceAdmin httpapi.SourceAdmin
	sender      dlq.Redriver
	pool        *pgxpool.Pool
}

// Brokers are what people ask the brokers for.
type Brokers interface {
	dlq.Originals
	dlq.Readers
}

// NewOriginals reads single records from the brokers of the settings. It connects when it is used.
func NewOriginals(c config.Config, log *slog.Logger, options []kgo.Opt) (*dlqkafka.Originals, error) {
	return dlqkafka.NewOriginals(dlqkafka.OriginalsConfig{Brokers: c.Kafka.Brokers, ClientID: c.DLQ.Group, Logger: log, Options: options})
}

// AskBrokers lets the desk ask for the records that letters point to, before it sends them again and when it is told to,
// and for the consumer groups that read the topics it sends to.
func (d *Services) AskBrokers(brokers Brokers, log *slog.Logger) (err error) {
	if d.Fetcher, err = dlq.NewFetcher(dlq.FetcherConfig{Pointers: d.Investigations, Originals: brokers, Logger: log}); err == nil {
		d.sender = dlq.Reaching(d.Fetcher.Redriver(d.Redriver), brokers)
	}
	return err
}

// Sender sends dead letters' messages again, and says whom they reach.
func (d *Services) Sender() dlq.Redriver { return d.sender }

// Operations are what an operator works on.
func (d *Services) Operations() dlq.Operations {
	if d.Fetcher == nil {
		return d.Redriver
	}
	return d.Fetcher.Operations(d.Redriver)
}

// NewServices works on the pool, which stays the caller's. Of the settings it takes what to redact.
func NewServices(pool *pgxpool.Pool, c config.Config) (*Services, error) {
	return NewTracedServices(pool, c, nil)
}

// NewTracedServices is NewServices with spans of messages that are sent again; a nil provider makes none.
func NewTracedServices(pool *pgxpool.Pool, c config.Config, p trace.TracerProvider) (*Services, error) {
	redactor, err := Redactor(c)
	if err != nil {
		return nil, err
	}
	d := &Services{Access: access.NewStore(pool), Archive: ledgerpostgres.NewArchive(pool), pool: pool}
	d.Access.SessionIdle = c.Console.SessionIdle
	d.Auditor = Auditor{d.Access}
	cfg := dlqpostgres.RedriverConfig{Owners: c.OwnersOf(), Named: c.NamesSource, Pool: pool, Auditor: d.Auditor, Exceptions: exceptions{postgres.NewStore(pool, postgres.StoreOptions{})}, Redactor: redactor, TracerProvider: p}
	var errs [5]error
	d.Redriver, errs[0] = dlqpostgres.NewRedriver(cfg)
	d.Investigations, errs[1] = dlqpostgres.NewInvestigations(cfg)
	d.Store, errs[2] = dlqpostgres.NewStore(dlqpostgres.Config{Pool: pool, Redactor: redactor, Auditor: d.Auditor})
	d.Tasks, errs[3] = actions.NewTasks(actions.Config{Pool: pool, Auditor: d.Auditor})
	d.Outbox, errs[4] = actions.NewOutbox(actions.Config{Pool: pool, Auditor: d.Auditor, LetterTopic: c.DLQTopicOf})
	if err := errors.Join(errs[:]...); err != nil {
		return nil, err
	}
	d.sender = dlq.Reaching(d.Redriver, nil)
	d.Series = series.New(d.Outbox.Store(), d.Investigations)
	return d, nil
}

// ForHTTP returns the operations of the API, as the settings say.
func (d *Services) ForHTTP(c config.Config, log *slog.Logger) (*httpapi.Services, error) {
	redactor, err := Redactor(c)
	if err != nil {
		return nil, err
	}
	return httpapi.NewServices(httpapi.ServicesConfig{
		Investigations: d.Investigations, Redriver: d.Sender(), Fetcher: d.Fetcher, Cluster: d.Cluster, Examine: d.Examine, Sources: d.Sources, SourceAdmin: d.SourceAdmin,
		Tasks: d.Tasks, Archive: d.Archive, Outbox: d.Outbox, Series: d.Series, Access: d.Access, Redactor: redactor,
		Archiving: ledger.ArchiveStep{RetentionDays: c.Archive.RetentionDays, Policies: ArchivePolicies(c.Archive)},
		PageSize:  c.DLQ.PageSizeDefault, PageSizeMax: c.DLQ.PageSizeMax, RequeueLimit: c.DLQ.RequeueLimit, PurgeLimit: c.DLQ.PurgeLimit,
		Logger: log,
	})
}

// API serves the desk over HTTP, as the settings say.
func (d *Services) API(c config.Config, log *slog.Logger) (*httpapi.API, error) {
	services, err := d.ForHTTP(c, log)
	if err != nil {
		return nil, err
	}
	failures := access.NewLimiter(float64(c.HTTP.FailedLoginsPerMinute)/60, c.HTTP.FailedLoginsPerMinute)
	return httpapi.NewAPI(httpapi.APIConfig{
		Routes: services.Routes(), Keys: access.Recently{Store: d.Access}, MaxBody: int64(c.HTTP.MaxBodyBytes), Timeout: c.HTTP.RequestTimeout,
		Requests: access.NewLimiter(float64(c.HTTP.RequestsPerSecond), c.HTTP.RequestBurst), Failures: failures,
		Describe: httpapi.Describe, Logger: log,
	})
}

// apiConnections is how many database connections the API and the operator use at most.
const apiConnections = 10

// openServices prepares what people do, where this process serves it or treats operations. It has connections of its
// own, so that many requests keep neither the collector nor readiness waiting.
func (a *App) openServices(ctx context.Context) error {
	c := a.options.Config
	serves := a.has(HTTP) && c.HTTP.API
	if !serves && !a.has(Operator) {
		return nil
	}
	pool, err := OpenPool(ctx, c.Database, apiConnections)
	if err != nil {
		return err
	}
	a.lifecycle.add(closing("API's database connections", pool.Close))
	a.watched.pools.Add("api", pool)
	if a.services, err = NewTracedServices(pool, c, a.options.TracerProvider); err != nil {
		return err
	}
	a.services.Redriver.KnowSources(a.ownersNow, a.namesNow)
	if err := a.services.AskBrokers(a.originals, a.options.Logger); err != nil || !serves {
		return err
	}
	looks, err := cluster.New(cluster.Config{Settings: c, Database: pool, Options: a.kafka, Logger: a.options.Logger})
	if err != nil {
		return err
	}
	a.lifecycle.add(closing("client that looks at topics and consumer groups", looks.Close))
	a.services.Cluster, a.services.Examine, a.services.Sources = looks, a.examineOwn, a.lookAtSources
	a.services.SourceAdmin = sourceAdmin{a}
	return nil
}

// makeOperator prepares what treats operations and follows redriven messages, where this process has the role.
func (a *App) makeOperator(context.Context) error {
	if !a.has(Operator) {
		return nil
	}
	operator, err := dlq.NewOperator(dlq.OperatorConfig{
		Operations: a.services.Operations(), ResolveDelivered: a.options.Config.DLQ.ResolveOnDelivery,
		Logger: a.options.Logger,
	})
	if err != nil {
		return err
	}
	// A batch in hand is given up, and the database takes it back.
	a.parts = append(a.parts, part{name: "operator", run: operator.Run})
	return nil
}

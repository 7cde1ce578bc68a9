package httpapi

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/postrider/postrider/cmd/internal/access"
	"github.com/postrider/postrider/cmd/internal/actions"
	"github.com/postrider/postrider/cmd/internal/api"
	"github.com/postrider/postrider/cmd/internal/doctor"
	"github.com/postrider/postrider/cmd/internal/series"
	"github.com/postrider/postrider/internal/dlq"
	"github.com/postrider/postrider/internal/tasks/ledger"
)

// Access knows keys and what was done.
type Access interface {
	Create(ctx context.Context, n access.NewKey) (access.Key, string, error)
	List(ctx context.Context) ([]access.Key, error)
	Revoke(ctx context.Context, id string) (access.Key, error)
	History(ctx context.Context, f access.DoneFilter) ([]access.Done, error)
	EntryHistory(ctx context.Context, entry string, operations []string) ([]access.Done, error)
	OperationHistory(ctx context.Context, operation string) ([]access.Done, error)
	Look(ctx context.Context, action, targetType, targetID string, sources access.Sources, details any) error
}

// Cluster says what the brokers know of topics and consumer groups. An error about the brokers wraps cluster.ErrBrokers.
type Cluster interface {
	Topics(ctx context.Context) (api.Topics, error)
	Consumers(ctx context.Context, used api.Topics) (api.ConsumerGroups, error)
}

// SourceAdmin leads back the sources of the settings, and forgets sources that these do not name.
type SourceAdmin interface {
	Rejoin(ctx context.Context, req dlq.RejoinRequest, dry bool) (dlq.Rejoin, error)
	Forget(ctx context.Context, source, actor string) (dlq.ForgottenSource, error)
}

// ServicesConfig is what Services are made of. Everything but the bounds, Redactor, Fetcher, Cluster, Examine, Sources, SourceAdmin and Logger is
// required.
type ServicesConfig struct {
	// Investigations are looked at and changed, and Redriver sends their messages again. Required.
	Investigations dlq.Investigations
	Redriver       dlq.Redriver
	// Tasks, Archive and Outbox are the rest of the house. Required.
	Tasks   *actions.Tasks
	Archive ledger.ArchiveReader
	Outbox  *actions.Outbox
	// Series has figures over time. Required.
	Series *series.Recorder
	// Archiving is what POST /archive/run archives: retention and policies. Defaults to none, which archives nothing.
	Archiving ledger.ArchiveStep
	// Redactor hides parts of tasks. Defaults to none, which hides nothing.
	Redactor *dlq.Redactor
	// Fetcher asks for the records that letters point to. Defaults to none; asking is then unavailable.
	Fetcher *dlq.Fetcher
	// Cluster asks the brokers. Defaults to none; GET /topics and GET /consumers are then unavailable.
	Cluster Cluster
	// Examine is what postrider doctor does. Defaults to none; GET /doctor is then unavailable.
	Examine func(context.Context) (doctor.Report, error)
	// Sources looks at every database whose outbox is carried beside that of database.url. Defaults to none; GET /sources is then
	// unavailable.
	Sources func(context.Context) (api.Sources, error)
	// SourceAdmin leads sources back, and forgets them. Defaults to none; both are then unavailable.
	SourceAdmin SourceAdmin
	// Access knows keys and the audit log. Required.
	Access Access
	// PageSize is how many items a page has when the request does not say it. Defaults to 25.
	PageSize int
	// PageSizeMax is how many it may have. Defaults to 100.
	PageSizeMax int
	// RequeueLimit is how many investigations one call may requeue, and how many tasks it may retry. Defaults to 500.
	RequeueLimit int
	// PurgeLimit is how many one call may purge. Defaults to 1000.
	PurgeLimit int
	// Logger defaults to one that discards.
	Logger *slog.Logger
}

// Services are the operations of the API.
type Services struct {
	ServicesConfig
	log       *slog.Logger
	stats     recent[dlq.Stats]
	topics    recent[api.Topics]
	consumers recent[api.ConsumerGroups]
	report    recent[doctor.Report]
	sources   recent[api.Sources]
}

// NewServices checks the configuration.
func NewServices(cfg ServicesConfig) (*Services, error) {
	for name, given := range map[string]bool{
		"Investigations": cfg.Investigations != nil, "Redriver": cfg.Redriver != nil,
		"Tasks": cfg.Tasks != nil, "Archive": cfg.Archive != nil, "Outbox": cfg.Outbox != nil, "Series": cfg.Series != nil, "Access": cfg.Access != nil,
	} {
		if !given {
			return nil, errors.New("httpapi: " + name + " is required")
		}
	}
	for _, bound := range []struct {
		value     *int
		otherwise int
	}{{&cfg.PageSize, 25}, {&cfg.PageSizeMax, 100}, {&cfg.RequeueLimit, 500}, {&cfg.PurgeLimit, 1000}} {
		if *bound.value == 0 {
			*bound.value = bound.otherwise
		}
	}
	cfg.PageSize = min(cfg.PageSize, cfg.PageSizeMax)
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	s := &Services{ServicesConfig: cfg, log: cfg.Logger.With("component", "api")}
	s.topics.age, s.consumers.age, s.report.age, s.sources.age = clusterAge, clusterAge, reportAge, sourcesAge
	return s, nil
}

// say writes the log event of an operation.
func (s *Services) say(event string, began time.Time, fields ...any) {
	s.log.Info(event, append([]any{"event", event, "duration_ms", milliseconds(time.Since(began))}, fields...)...)
}

package app

import (
	"context"
	"time"

	"github.com/postrider/postrider/cmd/internal/httpapi"
	"github.com/postrider/postrider/cmd/internal/obs"
	"github.com/postrider/postrider/internal/dlq"
	dlqkafka "github.com/postrider/postrider/internal/dlq/kafka"
	dlqpostgres "github.com/postrider/postrider/internal/dlq/postgres"
	"github.com/postrider/postrider/internal/loop"
	"github.com/postrider/postrider/internal/tasks/ledger"
	ledgerpostgres "github.com/postrider/postrider/internal/tasks/postgres"
)

// watched are metrics about what the process uses.
type watched struct {
	pools *obs.Pools
	kafka *obs.KafkaClients
}

// watchClients registers them, before anything is opened.
func (a *App) watchClients(context.Context) error {
	a.watched = watched{pools: obs.NewPools(a.options.Registry), kafka: obs.NewKafkaClients(a.options.Registry)}
	return nil
}

// watchInvestigations prepares what shows how investigations stand, and how far the collectors are behind.
func (a *App) watchInvestigations(store *dlqpostgres.Store, source *dlqkafka.Source) error {
	watch, err := dlq.NewWatch(dlq.WatchConfig{
		Standings: store, Lag: source.Lag, MaxPendingAge: a.options.Config.DLQ.MaxPendingAge,
		Logger: a.options.Logger, Registerer: a.options.Registry,
	})
	if err != nil {
		return err
	}
	a.parts = append(a.parts, part{name: "watch over investigations", run: watch.Run})
	return nil
}

// watchTasks prepares what shows how many tasks there are and what was done with tasks, where this process has the detector
// or the archiver.
func (a *App) watchTasks(context.Context) error {
	if !a.has(Detector) && !a.has(Archiver) {
		return nil
	}
	watch, err := ledger.NewWatch(ledger.WatchConfig{Store: ledgerpostgres.On(a.service), Logger: a.options.Logger, Registerer: a.options.Registry})
	if err != nil {
		return err
	}
	a.parts = append(a.parts, part{name: "watch over tasks", run: watch.Run})
	return nil
}

// readinessPause is the time between two looks at readiness if no client asks for it.
const readinessPause = 10 * time.Second

// watchReadiness keeps the metric about readiness true.
func (a *App) watchReadiness(context.Context) error {
	if a.http == nil {
		return nil
	}
	a.parts = append(a.parts, part{name: "watch over readiness", run: func(ctx context.Context) error { return keepReady(ctx, a.http) }})
	return nil
}

// keepReady looks until ctx ends, and returns nil.
func keepReady(ctx context.Context, server *httpapi.Server) error {
	loop.Every(ctx, readinessPause, server.CheckReadiness)
	return nil
}

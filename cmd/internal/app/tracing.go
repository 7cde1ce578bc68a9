package app

import (
	"context"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.opentelemetry.io/otel/trace"

	"github.com/postrider/postrider/cmd/internal/config"
	"github.com/postrider/postrider/cmd/internal/obs"
	"github.com/postrider/postrider/cmd/internal/tracing"
	dlqpostgres "github.com/postrider/postrider/dlq/postgres"
	"github.com/postrider/postrider/relay/postgres"
)

// tracingLimit is how long the last spans may take at a stop.
const tracingLimit = 2 * time.Second

// openTracing prepares where spans go, before everything that makes them, so that it is stopped after that.
func (a *App) openTracing(ctx context.Context) error {
	if a.options.TracerProvider != nil {
		return nil
	}
	t, err := newTracing(ctx, a.options.Config.Tracing, a.options.Logger, a.options.Registry)
	if t == nil || err != nil {
		return err
	}
	a.options.TracerProvider = t.Provider()
	a.lifecycle.add(step{name: "export of spans", limit: tracingLimit, stop: func(ctx context.Context) error {
		// It ends by itself before the step is given up, because nothing may fail for spans.
		ctx, cancel := context.WithTimeout(ctx, tracingLimit-tracingLimit/10)
		defer cancel()
		return t.Stop(ctx)
	}})
	return nil
}

// statements makes spans of statements, where the settings ask for them; otherwise it is nil, and no connection knows of
// tracing.
func statements(p trace.TracerProvider, c config.Tracing) (pgx.QueryTracer, error) {
	if p == nil || !c.Database {
		return nil, nil
	}
	return tracing.Statements(p, postgres.Queries(), dlqpostgres.Queries())
}

// clientOptions are those of a Kafka client of the purpose, which has the id, and the group where it is a member of one:
// TLS, the login, metrics, and spans of records where the settings ask for them.
func (a *App) clientOptions(purpose, id, group string) []kgo.Opt {
	options := append(a.kafka, a.watched.kafka.Hook(purpose))
	if p := a.options.TracerProvider; p != nil && a.options.Config.Tracing.KafkaClient {
		options = append(options, tracing.KafkaRecords(p, id, group))
	}
	return options
}

func newTracing(ctx context.Context, c config.Tracing, log *slog.Logger, reg prometheus.Registerer) (*tracing.Tracing, error) {
	return tracing.New(ctx, c, tracing.Options{Version: obs.ReadBuild().Version, Logger: log, Registerer: reg})
}

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
	dlqpostgres "github.com/postrider/postrider/internal/dlq/postgres"
	"github.com/postrider/postrider/internal/relay/postgres"
)

// tracingLimit is how long the last spans may take at a stop.
const tracingLimit = 2 * time.Second

// openTracing prepares where spans go, before everything that makes them, so that it is stopped after that.
func (a *App) openTracing(ctx context.Context) error { return traceInto(ctx, &a.options, a.lifecycle) }

// traceInto lets the options say where spans go, until the end of the lifecycle. They have a registry.
func traceInto(ctx context.Context, o *Options, l *lifecycle) error {
	if o.TracerProvider != nil {
		return nil
	}
	t, err := newTracing(ctx, o.Config.Tracing, o.Logger, o.Registry)
	if t == nil || err != nil {
		return err
	}
	o.TracerProvider = t.Provider()
	// It ends by itself long before the step is given up, because nothing may fail for spans.
	l.add(step{name: "export of spans", limit: 2 * tracingLimit, stop: func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, tracingLimit)
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

// clientOptions are the options of a Kafka client of the purpose, which has the id, and the group if it is a member of
// one: TLS, the login, metrics, and spans of records where the settings ask for them.
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

// Trace says where the spans of a command go: nowhere, unless the settings ask for spans. The function exports the
// remaining spans when the command ends.
func Trace(ctx context.Context, c config.Tracing, log *slog.Logger) (trace.TracerProvider, func(), error) {
	t, err := newTracing(ctx, c, log, nil)
	if err != nil {
		return nil, nil, err
	}
	return t.Provider(), func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), tracingLimit)
		defer cancel()
		_ = t.Stop(ctx) // it logs what went wrong
	}, nil
}

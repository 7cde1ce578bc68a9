package app

import (
	"context"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"

	"github.com/postrider/postrider/cmd/internal/config"
	"github.com/postrider/postrider/cmd/internal/obs"
	"github.com/postrider/postrider/cmd/internal/tracing"
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
	l.add(step{name: "export of spans", limit: tracingLimit, stop: func(ctx context.Context) error {
		// It ends by itself before the step is given up, because nothing may fail for spans.
		ctx, cancel := context.WithTimeout(ctx, tracingLimit-tracingLimit/10)
		defer cancel()
		return t.Stop(ctx)
	}})
	return nil
}

func newTracing(ctx context.Context, c config.Tracing, log *slog.Logger, reg prometheus.Registerer) (*tracing.Tracing, error) {
	return tracing.New(ctx, c, tracing.Options{Version: obs.ReadBuild().Version, Logger: log, Registerer: reg})
}

// Trace says where the spans of a command go, which is nowhere unless the settings ask for it. The function exports what is
// left when the command ends.
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

package app

import (
	"context"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/postrider/postrider/cmd/internal/config"
	"github.com/postrider/postrider/cmd/internal/obs"
	"github.com/postrider/postrider/cmd/internal/tracing"
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

func newTracing(ctx context.Context, c config.Tracing, log *slog.Logger, reg prometheus.Registerer) (*tracing.Tracing, error) {
	return tracing.New(ctx, c, tracing.Options{Version: obs.ReadBuild().Version, Logger: log, Registerer: reg})
}

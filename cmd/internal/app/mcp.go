package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"time"

	"github.com/postrider/postrider/cmd/internal/access"
	"github.com/postrider/postrider/cmd/internal/httpapi"
	"github.com/postrider/postrider/cmd/internal/mcp"
	"github.com/postrider/postrider/cmd/internal/obs"
	"github.com/postrider/postrider/internal/dlq"
	"github.com/postrider/postrider/internal/dlqstats"
	"github.com/postrider/postrider/internal/migrations"
	"github.com/postrider/postrider/internal/relay"
)

// agentActions are the actions of the outbox as the commands do them, each with connections of its own.
type agentActions struct {
	options  Options
	services *Services
}

func (a agentActions) ProcessPending(ctx context.Context, o relay.ActionOptions) (relay.ActionResult, error) {
	return a.act(ctx, relay.ActionProcessPending, func(r *relay.Relay) (relay.ActionResult, error) { return r.ProcessPending(ctx, o) })
}

func (a agentActions) ProcessRetries(ctx context.Context, o relay.ActionOptions) (relay.ActionResult, error) {
	return a.act(ctx, relay.ActionProcessRetries, func(r *relay.Relay) (relay.ActionResult, error) { return r.ProcessRetries(ctx, o) })
}

func (a agentActions) act(ctx context.Context, action relay.Action, do func(*relay.Relay) (relay.ActionResult, error)) (relay.ActionResult, error) {
	if err := a.options.Config.Require("kafka.brokers"); err != nil {
		return relay.ActionResult{Action: action}, &httpapi.Error{Code: httpapi.Unavailable, Message: "this server has no brokers: " + err.Error()}
	}
	return Act(ctx, Options{Config: a.options.Config, Logger: a.options.Logger, TracerProvider: a.options.TracerProvider}, do)
}

func (a agentActions) Cleanup(ctx context.Context, o relay.CleanupOptions) (relay.CleanupResult, error) {
	o.TracerProvider = a.options.TracerProvider
	return Cleanup(ctx, a.options.Config, a.options.Logger, o)
}

func (a agentActions) DLQStats(ctx context.Context) (dlq.Summary, error) {
	return dlqstats.Count(ctx, a.services.Investigations, report(a.options.Config, a.options.TracerProvider, a.options.Logger))
}

func (a agentActions) Status(ctx context.Context) (relay.Status, error) {
	return a.services.Outbox.Store().Status(ctx)
}

// Agents serves agents over the Model Context Protocol, for postrider mcp. It needs the database; brokers are asked
// when something is to be published.
type Agents struct {
	lifecycle *lifecycle
	server    *mcp.Server
	http      *httpapi.Server // nil on standard input
}

// NewAgents prepares it: over HTTP where listen says so, which is listening from now on, otherwise for ServeStdio
// with an API key. When it fails nothing is left open.
func NewAgents(ctx context.Context, o Options, token string, listen bool) (_ *Agents, err error) {
	if err := o.Config.Require("database.url"); err != nil {
		return nil, err
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Registry == nil {
		o.Registry = obs.NewRegistry()
	}
	a := &Agents{lifecycle: newLifecycle(o.Logger.With("component", "app"))}
	defer func() {
		if err != nil {
			err = errors.Join(err, a.Stop(context.WithoutCancel(ctx)))
		}
	}()
	c := o.Config
	parts, err := prepareDatabase(ctx, c.Database, false, o.Logger)
	if err != nil {
		return nil, err
	}
	if !slices.Contains(parts, migrations.PartDesk) {
		return nil, fmt.Errorf("the database was installed with %s alone; agents work with the desk's database", migrations.JoinParts(parts))
	}
	if err := traceInto(ctx, &o, a.lifecycle); err != nil {
		return nil, err
	}
	pool, err := OpenPool(ctx, c.Database, apiConnections)
	if err != nil {
		return nil, err
	}
	a.lifecycle.add(closing("database connections", pool.Close))
	obs.NewPools(o.Registry).Add("api", pool)
	services, err := NewTracedServices(pool, c, o.TracerProvider)
	if err != nil {
		return nil, err
	}
	api, err := services.API(c, o.Logger)
	if err != nil {
		return nil, err
	}
	a.server, err = mcp.New(mcp.Config{
		API: api, Access: services.Access, Actions: agentActions{o, services}, Token: token,
		AllowWrites: c.MCP.AllowWrites, ConfirmTTL: c.MCP.ConfirmTTL, AllowedOrigins: c.MCP.AllowedOrigins,
		Timeout: c.HTTP.RequestTimeout, MaxBody: int64(c.HTTP.MaxBodyBytes),
		Calls:   access.NewLimiter(float64(c.HTTP.RequestsPerSecond), c.HTTP.RequestBurst),
		Version: obs.ReadBuild().Version, Logger: o.Logger, Registerer: o.Registry,
	})
	if err != nil || !listen {
		return a, err
	}
	a.http, err = httpapi.New(httpapi.Config{
		Address: c.MCP.Address, Metrics: o.Registry, Registerer: o.Registry, Logger: o.Logger,
		Timeout: max(c.HTTP.RequestTimeout, mcp.DefaultActionTimeout), MaxBody: int64(c.HTTP.MaxBodyBytes), Proxies: c.HTTP.Trusted(),
		Checks: []httpapi.Check{{Name: "database", Run: pool.Ping, Remedy: databaseRemedy}}, MCP: a.server.Handler(),
	})
	if err != nil {
		return nil, fmt.Errorf("%w; choose another mcp.address, or stop what uses it", err)
	}
	a.lifecycle.add(step{name: "http server", limit: 5 * time.Second, stop: a.http.Stop})
	return a, nil
}

// Addr is where it listens, with the port it got; empty on standard input.
func (a *Agents) Addr() string {
	if a.http == nil {
		return ""
	}
	return a.http.Addr()
}

// ServeStdio serves one client until it ends or ctx does.
func (a *Agents) ServeStdio(ctx context.Context, in io.ReadCloser, out io.WriteCloser) error {
	return errors.Join(a.server.ServeStdio(ctx, in, out), a.Stop(context.WithoutCancel(ctx)))
}

// Run serves clients over HTTP until ctx ends.
func (a *Agents) Run(ctx context.Context) error {
	failed := make(chan error, 1)
	go func() { failed <- a.http.Serve() }()
	watching, end := context.WithCancel(ctx)
	watched := make(chan error, 1)
	go func() { watched <- keepReady(watching, a.http) }()
	defer func() { end(); <-watched }()
	select {
	case err := <-failed:
		return errors.Join(err, a.Stop(context.WithoutCancel(ctx)))
	case <-ctx.Done():
		return errors.Join(a.Stop(context.WithoutCancel(ctx)), <-failed)
	}
}

// Stop ends everything; see App.Stop.
func (a *Agents) Stop(ctx context.Context) error { return a.lifecycle.stop(ctx) }

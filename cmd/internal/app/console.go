package app

import (
	"context"
	"log/slog"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/postrider/postrider/cmd/internal/access"
	"github.com/postrider/postrider/cmd/internal/config"
	"github.com/postrider/postrider/cmd/internal/console"
	"github.com/postrider/postrider/cmd/internal/httpapi"
	"github.com/postrider/postrider/cmd/internal/oidclogin"
)

// Console serves the pages for people over the operations of the API, as the settings say.
func (d *Services) Console(c config.Config, api *httpapi.API, log *slog.Logger) (*console.Console, error) {
	return console.New(console.Config{
		API: api, Sessions: access.Recently{Store: d.Access}, Outbox: d.Outbox.Store(), Investigations: d.Investigations,
		Failures: api.Failures(), PageSizeMax: c.DLQ.PageSizeMax, URL: c.Console.URL, Name: c.Console.Name, Sources: c.HasSources(), SessionAge: c.Console.SessionAge, Logger: log,
		Groups: c.Console.Groups(), Provider: oidclogin.Of(c.Console), ProviderLabel: c.Console.OIDCLabel,
		Database:   &ownConnection{config: d.pool.Config()},
		UserHeader: c.Console.ProxyUserHeader, GroupsHeader: c.Console.ProxyGroupsHeader,
	})
}

// consoleConnections is the one over which the console pings the database.
const consoleConnections = 1

// ownConnection is a connection beside a pool, with the pool's settings: who pings over it does not wait for the requests
// that use the pool. It is not safe for concurrent use.
type ownConnection struct {
	config *pgxpool.Config
	conn   *pgx.Conn // nil until it is needed
}

// Ping implements console.Pinger.
func (o *ownConnection) Ping(ctx context.Context) error {
	if o.conn == nil || o.conn.IsClosed() {
		settings := o.config.ConnConfig.Copy()
		if o.config.BeforeConnect != nil {
			if err := o.config.BeforeConnect(ctx, settings); err != nil {
				return err
			}
		}
		conn, err := pgx.ConnectConfig(ctx, settings)
		if err != nil {
			return err
		}
		o.conn = conn
	}
	return o.conn.Ping(ctx) // the client closes it where ctx ends first
}

// Close implements console.Pinger.
func (o *ownConnection) Close(ctx context.Context) error {
	if o.conn == nil {
		return nil
	}
	return o.conn.Close(ctx)
}

// addConsole serves the console beside the API, where the settings say so.
func (a *App) addConsole(cfg *httpapi.Config, api *httpapi.API) error {
	c := a.options.Config
	if !c.Console.Enabled {
		return nil
	}
	pages, err := a.services.Console(c, api, a.options.Logger)
	if err != nil {
		return err
	}
	cfg.Console = pages
	a.parts = append(a.parts, part{name: "web console", run: pages.Run})
	return nil
}

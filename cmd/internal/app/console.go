package app

import (
	"log/slog"
	"time"

	"github.com/postrider/postrider/cmd/internal/access"
	"github.com/postrider/postrider/cmd/internal/config"
	"github.com/postrider/postrider/cmd/internal/console"
	"github.com/postrider/postrider/cmd/internal/httpapi"
)

// Console serves the pages for people over the operations of the API, as the settings say.
func (d *Services) Console(c config.Config, api *httpapi.API, log *slog.Logger) (*console.Console, error) {
	return console.New(console.Config{
		API: api, Sessions: access.Recently{Store: d.Access}, Outbox: d.Outbox.Store(), Investigations: d.Investigations,
		Failures: api.Failures(), URL: c.Console.URL, Name: c.Console.Name, SessionAge: c.Console.SessionAge, Logger: log,
	})
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
	a.parts = append(a.parts, part{name: "web console", limit: time.Second, run: pages.Run})
	return nil
}

package cli

import (
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/postrider/postrider/cmd/internal/app"
	"github.com/postrider/postrider/cmd/internal/config"
	"github.com/postrider/postrider/cmd/internal/obs"
)

func (c *commands) serve() *cobra.Command {
	var roles string
	var migrate bool
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Run the relay, the collector, the engines of tasks and the HTTP server until a signal ends them",
		Long: `Runs until SIGINT or SIGTERM, then finishes what is in hand within 30 seconds. Any number of
processes may run with the same settings; they share the work.

The database must be reachable and migrated (postrider migrate up, or --migrate). Brokers may come
later: /readyz says when they are there.

The sections sources and sources_dir of the file name further databases whose outboxes are carried; docs/sources.md
has the rest. They are read again every five seconds, and on SIGHUP. Other settings count after a restart.`,
		Args: exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			chosen, err := app.ParseRoles(roles)
			if err != nil {
				return usagef("--roles: %w", err)
			}
			load := func() (config.Config, error) {
				cfg, err := c.load(nil, "kafka.brokers")
				if err == nil && !cfg.HasSources() {
					if err = cfg.Require("database.url"); err != nil {
						err = &usageError{err}
					}
				}
				return cfg, err
			}
			cfg, err := load()
			if err != nil {
				return err
			}
			log, err := obs.NewLogger(c.stderr, cfg.Log.Level, cfg.Log.Format)
			if err != nil {
				return err
			}
			a, err := app.New(cmd.Context(), app.Options{Config: cfg, Roles: chosen, Migrate: migrate, Logger: log, Reload: load})
			if err != nil {
				return err
			}
			hangups := make(chan os.Signal, 1)
			signal.Notify(hangups, syscall.SIGHUP)
			defer signal.Stop(hangups)
			go func() {
				for {
					select {
					case <-hangups:
						a.Reload()
					case <-cmd.Context().Done():
						return
					}
				}
			}()
			return a.Run(cmd.Context())
		},
	}
	cmd.Flags().StringVar(&roles, "roles", "relay,collector,detector,archiver,operator,http", "what to run: any of relay, collector, detector, archiver, operator, http")
	_ = cmd.RegisterFlagCompletionFunc("roles", completeRoles)
	cmd.Flags().BoolVar(&migrate, "migrate", false, "apply missing migrations first")
	c.settings.bindAll(cmd.Flags(), nil)
	return cmd
}

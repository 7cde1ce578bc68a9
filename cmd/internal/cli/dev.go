package cli

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/postrider/postrider/cmd/internal/devstack"
	"github.com/postrider/postrider/cmd/internal/obs"
)

func (c *commands) dev() *cobra.Command {
	var options devstack.Options
	cmd := &cobra.Command{
		Use:   "dev",
		Short: "Run everything on this machine, PostgreSQL and Kafka included, for development",
		Long: `Starts a PostgreSQL of its own (installed here, or fetched once), a Kafka broker inside this
process, and Postrider. When all is ready it prints one line that begins with "postrider: ready" and
has the addresses. They are the same at each start, unless another program has a port. Ctrl-C stops everything, and
says whether the data is kept.`,
		Args: exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if cmd.Flags().Changed("data") && options.DataDir == "" {
				return usagef(`--data is ""; name a folder for the data, or leave --data out for a temporary one`)
			}
			for _, key := range everywhere {
				if c.settings.given(key) {
					return usagef("postrider dev starts its own database and broker; leave --%s out, or use postrider serve", strings.ReplaceAll(key, ".", "-"))
				}
			}
			// The variables of the shell may well be the settings of a real installation.
			c.environ = slices.DeleteFunc(slices.Clone(c.environ), func(entry string) bool {
				return strings.HasPrefix(entry, "DATABASE_URL=") || strings.HasPrefix(entry, "KAFKA_BROKERS=")
			})
			cfg, err := c.load(devstack.Defaults())
			if err != nil {
				return err
			}
			options.Config, options.Out = cfg, c.stdout
			if options.Logger, err = obs.NewLogger(c.stderr, cfg.Log.Level, cfg.Log.Format); err != nil {
				return err
			}
			return devstack.Run(cmd.Context(), options)
		},
	}
	flags := cmd.Flags()
	flags.BoolVar(&options.Demo, "demo", false, "run an order service that writes some twenty events a second")
	flags.StringVar(&options.DataDir, "data", "", "keep all data in this `folder` between runs (default: a temporary one)")
	flags.IntVar(&options.KafkaPort, "kafka-port", 0, fmt.Sprintf("port of Kafka on 127.0.0.1 (default: %d, or a free one where it is taken)", devstack.DefaultKafkaPort))
	flags.IntVar(&options.PostgresPort, "postgres-port", 0, fmt.Sprintf("port of PostgreSQL on 127.0.0.1 (default: %d, or a free one where it is taken)", devstack.DefaultPostgresPort))
	c.settings.bindAll(flags, devstack.Defaults())
	return cmd
}

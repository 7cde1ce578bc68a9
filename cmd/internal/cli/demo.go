package cli

import (
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/postrider/postrider/cmd/internal/app"
	"github.com/postrider/postrider/cmd/internal/demo"
	"github.com/postrider/postrider/cmd/internal/devstack"
	"github.com/postrider/postrider/cmd/internal/kafkaauth"
	"github.com/postrider/postrider/cmd/internal/obs"
)

// demoDial bounds a connection to a broker.
const demoDial = 5 * time.Second

func (c *commands) demo() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "An order service to look at, some of whose orders cannot be delivered, on purpose",
		Long: `An order service to look at. postrider dev --demo runs it by itself; beside an installation that is for
trying out it is a program of its own.`,
		Args: cobra.ArbitraryArgs,
		RunE: c.group,
	}
	cmd.AddCommand(c.demoRun(), c.demoMend())
	return cmd
}

func (c *commands) demoRun() *cobra.Command {
	return &cobra.Command{
		Use:   "run",
		Short: "Run the order service beside postrider serve, until Ctrl-C",
		Long: `Runs the order service in a migrated database, until Ctrl-C. It creates its two topics where they are missing,
a schema demo, and a template of tasks. It makes some tasks look two hours older than they are: it is for a
database that can be thrown away.`,
		Args: exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := c.load(inWords, "database.url", "kafka.brokers")
			if err != nil {
				return err
			}
			log, err := obs.NewLogger(c.stderr, cfg.Log.Level, cfg.Log.Format)
			if err != nil {
				return err
			}
			ctx := cmd.Context()
			pool, err := app.OpenPool(ctx, cfg.Database, 4)
			if err != nil {
				return err
			}
			defer pool.Close()
			auth, err := kafkaauth.Options(cfg.Kafka, demoDial)
			if err != nil {
				return err
			}
			client, err := kgo.NewClient(append(auth, kgo.SeedBrokers(cfg.Kafka.Brokers...), kgo.ClientID(cfg.Kafka.ClientID+"-demo"))...)
			if err != nil {
				return fmt.Errorf("make a client of Kafka: %w", err)
			}
			err = devstack.CreateTopics(ctx, client, demo.Topics())
			client.Close()
			if err != nil {
				return err
			}
			service, err := demo.New(ctx, demo.Config{Pool: pool, Out: c.stdout, Logger: log})
			if err != nil {
				return explain(err, "give database.url a user that may create a schema, for example the owner of the database")
			}
			service.Run(ctx)
			return nil
		},
	}
}

func (c *commands) demoMend() *cobra.Command {
	return &cobra.Command{
		Use:   "mend",
		Short: "Mend the mistake that the order service makes on purpose",
		Long: `Replaces the function demo.urgent_headers(), whose header is a number, by one whose header is text, as the
developer of the service would. Orders from then on can be sent; the orders before them wait for a redrive.`,
		Args: exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return c.withPool(cmd.Context(), func(pool *pgxpool.Pool) error {
				if err := demo.Mend(cmd.Context(), pool); err != nil {
					return err
				}
				_, err := fmt.Fprintln(c.stdout, "The order service writes the header priority as text from now on.")
				return err
			})
		},
	}
}

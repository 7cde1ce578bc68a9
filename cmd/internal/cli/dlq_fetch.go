package cli

import (
	"context"
	"io"
	"log/slog"
	"time"

	"github.com/spf13/cobra"

	"github.com/postrider/postrider/cmd/internal/api"
	"github.com/postrider/postrider/cmd/internal/app"
	"github.com/postrider/postrider/cmd/internal/kafkaauth"
	"github.com/postrider/postrider/internal/dlq"
)

// askBrokers lets the desk of a command ask for the records that letters point to, until done is called.
func (c *commands) askBrokers(d *app.Services) (done func(), err error) {
	cfg, err := c.load(nil, "kafka.brokers")
	if err != nil {
		return nil, err
	}
	auth, err := kafkaauth.Options(cfg.Kafka, 3*time.Second) // the command says soon that no broker answers
	if err != nil {
		return nil, err
	}
	log := slog.New(slog.DiscardHandler)
	originals, err := app.NewOriginals(cfg, log, auth)
	if err != nil {
		return nil, err
	}
	if err := d.AskBrokers(originals, log); err != nil {
		originals.Close()
		return nil, err
	}
	return originals.Close, nil
}

func (c *commands) dlqFetch() *cobra.Command {
	var out output
	var at acting
	cmd := &cobra.Command{
		Use:   "fetch ID...",
		Short: "Fetch the records that dead letters only point to, from their topics",
		Long: `Fetch the records that dead letters only point to, from their topics: letters of share groups, of failures to
produce in Kafka Streams, and of messages that did not fit. The collector does it when it reads the letter; this is for
records that it could not ask for, because brokers were away or the topic could not be read. requeue and operations
try by themselves. A fetched message is in the letter from then on, whatever becomes of the topic. The output says which
messages are gone and why, and when topics will delete the others. The exit code is 3 if a message is missing or gone.`,
		Args:              takes("ID..."),
		ValidArgsFunction: c.completeEntries,
		RunE: func(cmd *cobra.Command, args []string) error {
			ids, err := out.entries(args)
			if err != nil {
				return err
			}
			if _, err := c.load(nil, "database.url", "kafka.brokers"); err != nil {
				return err
			}
			return c.withServices(cmd.Context(), at, grant("postrider_operator"), func(ctx context.Context, d *app.Services, actor string) error {
				done, err := c.askBrokers(d)
				if err != nil {
					return err
				}
				defer done()
				fetched, err := d.Fetcher.Fetch(ctx, ids, actor)
				if err != nil {
					return noEntry(err)
				}
				views, missing := make([]api.Fetched, len(fetched)), false
				for i, f := range fetched {
					if views[i] = api.NewFetched(f); f.Err != nil {
						views[i].Error = api.OrNull(f.Err.Error())
					}
					missing = missing || f.Letter != "" && f.State != dlq.OriginalFetched
				}
				if err := out.print(c.stdout, api.ListOf(views, ""), func(w io.Writer) error { return fetchedTable(w, views) }); err != nil {
					return err
				}
				if missing {
					return &spokenError{errPartly}
				}
				return nil
			})
		},
	}
	c.actor(cmd, &at)
	out.bind(cmd)
	return cmd
}

func fetchedTable(w io.Writer, views []api.Fetched) error {
	rows := make([][]string, len(views))
	for i, v := range views {
		rows[i] = []string{v.Entry.String(), string(value(v.State)), v.Explanation}
	}
	return wideGrid(w, []string{"ID", "STATE", ""}, rows)
}

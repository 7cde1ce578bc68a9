package cli

import (
	"context"
	"fmt"
	"io"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/postrider/postrider/cmd/internal/app"
	"github.com/postrider/postrider/cmd/internal/obs"
	"github.com/postrider/postrider/internal/relay"
)

func (c *commands) outboxProcess() *cobra.Command {
	return c.outboxAction("process", "Publish what is pending, once, and end",
		`Publishes pending events until none is left, or --limit is reached, and sends the dead letters that are
due. It may run from a scheduler instead of postrider serve. Beside postrider serve it has only dead letters
to do: one relay leads the log, and it says so. When no broker answers it fails, and the events stay pending.`,
		(*relay.Relay).ProcessPending)
}

func (c *commands) outboxRetry() *cobra.Command {
	return c.outboxAction("retry", "Try again what is due to be tried again, once, and end",
		`Brings back failed and delayed events whose time has come, and a probe for each hold that is due, and
publishes them, until nothing comes back or --limit is reached. A topic that is still away keeps its
events. It may run from a scheduler instead of postrider serve. Beside postrider serve it has only dead letters
to do: one relay leads the log, and it says so.`,
		(*relay.Relay).ProcessRetries)
}

func (c *commands) outboxAction(name, short, long string, action func(*relay.Relay, context.Context, relay.ActionOptions) (relay.ActionResult, error)) *cobra.Command {
	var out output
	var o relay.ActionOptions
	cmd := &cobra.Command{
		Use:   name,
		Short: short,
		Long:  long,
		Args:  exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := out.check(); err != nil {
				return err
			}
			if o.Limit < 0 {
				return usagef("--limit is %d; it must be 0, for no limit, or more", o.Limit)
			}
			cfg, err := c.load(inWords, "database.url", "kafka.brokers")
			if err != nil {
				return err
			}
			log, err := obs.NewLogger(c.stderr, cfg.Log.Level, cfg.Log.Format)
			if err != nil {
				return err
			}
			got, err := app.Act(cmd.Context(), app.Options{Config: cfg, Logger: log}, func(r *relay.Relay) (relay.ActionResult, error) {
				return action(r, cmd.Context(), o)
			})
			if err == nil || did(got) { // what was done counts, also when the rest failed
				if printErr := out.print(c.stdout, got, func(w io.Writer) error { return actionTable(w, got) }); err == nil {
					err = printErr
				}
			}
			return explain(err, grant("postrider_relay"))
		},
	}
	cmd.Flags().IntVar(&o.Limit, "limit", 0, "work on so many events at most; 0 is no limit")
	out.bind(cmd)
	c.settings.bindAll(cmd.Flags(), inWords)
	return cmd
}

// did reports whether an action did anything.
func did(r relay.ActionResult) bool {
	return r.Processed+r.Returned+r.DeadLettered > 0
}

func actionTable(w io.Writer, r relay.ActionResult) error {
	if r.Elsewhere {
		fmt.Fprint(w, "Another relay leads the outbox and does this by itself; only dead letters were looked at.\n\n")
	}
	return grid(w, []string{"EVENTS", "", ""}, [][]string{
		{"returned", strconv.Itoa(r.Returned), "had waited, and were tried again"},
		{"processed", strconv.Itoa(r.Processed), "were settled:"},
		{"succeeded", strconv.Itoa(r.Succeeded), "acknowledged by their topics"},
		{"failed", strconv.Itoa(r.Failed), fmt.Sprintf("by their own fault; %d of them are given up", r.Exhausted)},
		{"parked", strconv.Itoa(r.Parked), "wait for a hold to end"},
		{"scheduled", strconv.Itoa(r.Scheduled), "wait for their time"},
		{"dead_lettered", strconv.Itoa(r.DeadLettered), "arrived at the dead-letter topic"},
	})
}

func (c *commands) outboxCleanup() *cobra.Command {
	var out output
	var at acting
	var o relay.CleanupOptions
	cmd := &cobra.Command{
		Use:   "cleanup",
		Short: "Remove at once what retention allows to go",
		Long: `Removes published events older than outbox.retention_days, dead-lettered events older than
outbox.dead_letter_retention_days whose investigation is closed, and idempotency keys older than
outbox.idempotency_retention_days, in small transactions that wait at most a second for a lock. Running relays do the
same little by little, so this is for people who cannot wait, or who changed a setting. Try
--dry-run first.`,
		Args: exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := out.check(); err != nil {
				return err
			}
			cfg, err := c.load(inWords, "database.url")
			if err != nil {
				return err
			}
			log, err := obs.NewLogger(c.stderr, cfg.Log.Level, cfg.Log.Format)
			if err != nil {
				return err
			}
			clean := func(ctx context.Context) (relay.CleanupResult, error) { return app.Cleanup(ctx, cfg, log, o) }
			shown := func(got relay.CleanupResult, err error) error {
				if got.Action != "" {
					if printErr := out.print(c.stdout, got, func(w io.Writer) error { return cleanupTable(w, got) }); err == nil {
						err = printErr
					}
				}
				return err
			}
			if o.DryRun {
				return explain(shown(clean(cmd.Context())), grant("postrider_relay"))
			}
			if err := app.CheckDatabase(cmd.Context(), cfg.Database, log); err != nil {
				return explain(err, grant("postrider_relay"))
			}
			return c.withServices(cmd.Context(), at, grant("postrider_relay"), func(ctx context.Context, d *app.Services, _ string) error {
				return shown(told(ctx, d, "outbox.cleanup", "outbox", func() (relay.CleanupResult, error) { return clean(ctx) }))
			})
		},
	}
	cmd.Flags().BoolVar(&o.DryRun, "dry-run", false, "count what would be removed, and remove nothing")
	c.actor(cmd, &at)
	out.bind(cmd)
	c.settings.bindAll(cmd.Flags(), inWords)
	return cmd
}

func cleanupTable(w io.Writer, r relay.CleanupResult) error {
	head := "REMOVED"
	if r.DryRun {
		head = "WOULD BE REMOVED"
	}
	rows := [][]string{
		{"published events", strconv.Itoa(r.Published)},
		{"dead-lettered events", strconv.Itoa(r.DeadLettered)},
		{"idempotency keys", strconv.Itoa(r.IdempotencyKeys)},
	}
	return grid(w, []string{"KIND", head}, rows)
}

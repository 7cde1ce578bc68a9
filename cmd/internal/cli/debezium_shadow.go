package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"

	"github.com/postrider/postrider/cmd/internal/adopt"
	"github.com/postrider/postrider/cmd/internal/config"
	"github.com/postrider/postrider/cmd/internal/debezium"
	"github.com/postrider/postrider/cmd/internal/debezium/check"
)

func (c *commands) debeziumShadow() *cobra.Command {
	var columns columnFlags
	var prefix, from string
	var run, replace, follow bool
	var every, wait int
	cmd := &cobra.Command{
		Use:   "shadow TABLE",
		Short: "Send the rows of a table a second time, into topics of other names, beside the connector",
		Long: `Makes the trigger of postrider adopt, with topics that begin with --prefix. The connector goes on.
So the records of both can be compared before anything depends on Postrider. Without --run it prints the
SQL, and changes nothing. Each table needs a --prefix of its own. postrider adopt TABLE --remove --run ends
the shadow.

--follow compares the records of both as they come, until it is stopped (Ctrl-C) or the shadow ends: pairs by
the header of the id, byte by byte, and in the order of each key. It prints each difference once. A record
that waits longer than --wait-seconds for its pair is a difference. Exit codes: 0 the same, 1 something
differed or failed, or nothing was compared.`,
		Args: exactly("TABLE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			making := from != "" || replace || columns.given(cmd) || cmd.Flags().Changed("prefix")
			switch {
			case prefix == "":
				return usagef("--prefix is empty: the topics of a shadow need other names than the connector's")
			case follow && !run && making:
				return usagef("--follow compares with the shadow that is there; the flags that make it go with --run")
			case !follow && (cmd.Flags().Changed("progress-seconds") || cmd.Flags().Changed("wait-seconds")):
				return usagef("--progress-seconds and --wait-seconds go with --follow")
			case every < 1 || wait < 1:
				return usagef("--progress-seconds is %d and --wait-seconds %d; they must be 1 or more", every, wait)
			}
			if follow { // what is missing is said before the trigger is made
				if _, err := c.load(nil, "database.url", "kafka.brokers"); err != nil {
					return err
				}
			}
			if run || !follow {
				w := adopt.Wish{Mode: adopt.ModeShadow, Prefix: prefix, Replace: replace}
				if err := c.makeShadow(cmd, args[0], w, columns, from, run); err != nil || !follow {
					return err
				}
			}
			return c.followShadow(cmd, args[0], time.Duration(every)*time.Second, time.Duration(wait)*time.Second)
		},
	}
	columns.bind(cmd, "debezium")
	cmd.Flags().StringVar(&from, "connector", "", connectorFlag)
	cmd.Flags().StringVar(&prefix, "prefix", "shadow.", "what the names of the topics begin with")
	cmd.Flags().BoolVar(&run, "run", false, "do it; without it the SQL is printed")
	cmd.Flags().BoolVar(&replace, "replace", false, "put this definition in the place of another one")
	cmd.Flags().BoolVar(&follow, "follow", false, "compare the records of both as they come; alone it changes nothing")
	cmd.Flags().IntVar(&every, "progress-seconds", 10, "with --follow: the time between two lines that say how far it has come")
	cmd.Flags().IntVar(&wait, "wait-seconds", 60, "with --follow: how long a record waits for its pair")
	c.settings.bindShowing(cmd.Flags(), "database", "kafka")
	return cmd
}

// makeShadow makes the trigger as wished, with the definition of the connector or of the flags, or prints its SQL.
func (c *commands) makeShadow(cmd *cobra.Command, table string, w adopt.Wish, columns columnFlags, from string, run bool) error {
	var found debezium.Connector
	var err error
	if from != "" {
		if columns.given(cmd) {
			return usagef("--connector says what the columns are: leave the flags about columns out")
		}
		found, err = c.connector(cmd.Context(), from)
		w.Connector = adopt.Connector{Slot: found.Slot, Publication: found.Publication}
	} else {
		w.Definition, err = columns.definition(cmd, table)
	}
	if err != nil {
		return err
	}
	return c.withAdopter(cmd, func(a *adopt.Adopter) error {
		if from != "" {
			t, err := adopt.FindTable(cmd.Context(), a.Conn, table)
			if err != nil {
				return err
			}
			w.Definition = adopt.FromConnector(found, t.Has)
		}
		if run {
			return a.Adopt(cmd.Context(), table, w)
		}
		script, err := a.Show(cmd.Context(), table, w, false)
		return c.script(script, err)
	})
}

// followShadow compares the shadow with the connector until it is stopped.
func (c *commands) followShadow(cmd *cobra.Command, table string, every, wait time.Duration) error {
	ctx := cmd.Context()
	return c.withSettings(ctx, func(pool *pgxpool.Pool, cfg config.Config) error {
		shadow, err := adopt.ReadShadow(ctx, pool, table)
		if err != nil {
			return err
		}
		say := func(format string, args ...any) {
			fmt.Fprintf(c.stdout, "%s %s\n", moment(time.Now()), visible(fmt.Sprintf(format, args...)))
		}
		progress, err := check.Follow{
			Kafka: check.Brokers(cfg.Kafka), Shadow: *shadow, Every: every, Wait: wait, Say: say,
			Found: func(d check.Difference) {
				say("this differs:")
				differenceLines(c.stdout, d)
			},
			Now: func(ctx context.Context) (*adopt.Forward, error) { return adopt.Read(ctx, pool, shadow.Table) },
		}.Run(ctx)
		say("%s", progress)
		if err != nil {
			return err
		}
		return judgeProgress(progress)
	})
}

// judgeProgress is the failure of a comparison that could go on to its end.
func judgeProgress(p check.Progress) error {
	switch {
	case !p.Same():
		return &spokenError{errors.New("something differs")}
	case p.Compared == 0:
		return errors.New("nothing was compared: see that the connector and postrider serve send the table's rows, that their records have the header of the id, " +
			"and give it more time than --wait-seconds")
	}
	return nil
}

package cli

import (
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/postrider/postrider/cmd/internal/app"
	"github.com/postrider/postrider/cmd/internal/obs"
	"github.com/postrider/postrider/cmd/internal/plural"
	"github.com/postrider/postrider/internal/dlq"
)

func (c *commands) outboxStats() *cobra.Command {
	var out output
	cmd := &cobra.Command{
		Use:   "stats",
		Short: "Count open investigations: how many, for how long, by which error, and which to look at first",
		Long: `Counts the open investigations of dead letters: the action dlqStats. As JSON it is size, oldestAgeMs,
byErrorCode and recentSampleIds, the newest ones. postrider dlq stats has the closed ones, too, by reason.`,
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
			got, err := app.DLQStats(cmd.Context(), cfg, log)
			if err != nil {
				return explain(err, grant("postrider_operator"))
			}
			return out.print(c.stdout, got, func(w io.Writer) error { return summaryTable(w, got) })
		},
	}
	out.bind(cmd)
	c.settings.bindShowing(cmd.Flags(), "tracing")
	return cmd
}

func summaryTable(w io.Writer, s dlq.Summary) error {
	if s.Size == 0 {
		_, err := fmt.Fprintln(w, "No investigation is open.")
		return err
	}
	oldest := time.Duration(s.OldestAgeMS) * time.Millisecond
	fmt.Fprintf(w, "%s open, the oldest for %v.\n\n", plural.Of(s.Size, "investigation is", "investigations are"), oldest.Round(time.Second))
	var rows [][]string
	for _, code := range sortedKeys(s.ByErrorCode) {
		rows = append(rows, []string{code, count(s.ByErrorCode[code])})
	}
	if err := grid(w, []string{"CODE", "OPEN"}, rows); err != nil {
		return err
	}
	fmt.Fprintln(w, "\nThe newest are:")
	for _, id := range s.RecentSampleIDs {
		fmt.Fprintf(w, "  postrider dlq show %s\n", id)
	}
	return nil
}

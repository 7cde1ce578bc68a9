package cli

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/postrider/postrider/cmd/internal/api"
	"github.com/postrider/postrider/cmd/internal/app"
	"github.com/postrider/postrider/internal/dlq"
)

func (c *commands) dlqRelease() *cobra.Command {
	var out output
	var at acting
	var wait time.Duration
	cmd := &cobra.Command{
		Use:   "release ID...",
		Short: "Let the keys go that the events of investigations halt",
		Long: `Let the keys go that the events of investigations halt (after_last_attempt: halt_key), all in one transaction. The
later events of the keys come back, in order. The events stay given up and the investigations open: what is sent again
of them later goes behind. Closing an investigation lets its key go, too.

The database of another source is asked, and lets the key go there. Asking again before it has answered changes
nothing. Investigations whose event halts no key are skipped; then the exit code is 3. An id that does not exist fails
the whole command, and nothing is let go.`,
		Args:              takes("ID..."),
		ValidArgsFunction: c.completeEntries,
		RunE: func(cmd *cobra.Command, args []string) error {
			ids, err := out.entries(args)
			if err != nil {
				return err
			}
			if err := checkWait(cmd, wait); err != nil {
				return err
			}
			return c.withServices(cmd.Context(), at, grant("postrider_operator"), func(ctx context.Context, d *app.Services, actor string) error {
				done, err := d.Redriver.Release(ctx, dlq.ReleaseRequest{Entries: ids, Wait: wait, Actor: actor})
				if err != nil {
					return noEntry(err)
				}
				view := api.NewReleasedKeys(ids, done)
				if err := out.print(c.stdout, view, func(w io.Writer) error { return releasedTable(w, view) }); err != nil {
					return err
				}
				if len(view.Skipped) > 0 {
					return &spokenError{errPartly}
				}
				return nil
			})
		},
	}
	waitFlag(cmd, &wait)
	c.actor(cmd, &at)
	out.bind(cmd)
	return cmd
}

func releasedTable(w io.Writer, v api.ReleasedKeys) error {
	fmt.Fprintf(w, "%d released, %d skipped.\n", len(v.Released), len(v.Skipped))
	if len(v.Asked) > 0 {
		fmt.Fprintf(w, "The sources of %d of them were asked, and have not answered yet; they are asked until they do.\n", len(v.Asked))
	}
	return skippedEntries(w, v.Skipped)
}

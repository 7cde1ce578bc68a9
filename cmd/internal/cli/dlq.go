package cli

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/postrider/postrider/cmd/internal/api"
	"github.com/postrider/postrider/cmd/internal/app"
	"github.com/postrider/postrider/internal/dlq"
)

func (c *commands) dlq() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "dlq",
		Short: "Look at the investigations that dead letters opened, send their messages again, close them",
		Args:  cobra.ArbitraryArgs,
		RunE:  c.group,
	}
	cmd.AddCommand(c.dlqList(), c.dlqShow(), c.dlqStats(), c.dlqGroups(), c.dlqGroup(), c.dlqComment(), c.dlqResolve(), c.dlqRequeue(), c.dlqRelease(), c.dlqFetch(), c.dlqPurge())
	return cmd
}

func (c *commands) dlqShow() *cobra.Command {
	var out output
	var at acting
	var reveal bool
	var look dlq.RevealRequest
	cmd := &cobra.Command{
		Use:   "show ID",
		Short: "Show an investigation: the error, the message, its dead letters",
		Long: `Show an investigation: the error, the message as the rules of redaction let it be seen (dlq.redact_paths and
dlq.redact_headers), its dead letters. With --payload a letter's key, headers and payload are shown as they
are, whatever the rules say; who looked is written to the audit log before. The id of a task shows the pending
investigation of the task, or of an event of it, else its newest.`,
		Args:              exactly("ID"),
		ValidArgsFunction: c.completeEntries,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := out.check(); err != nil {
				return err
			}
			if !reveal && (look.LetterID != "" || look.Reason != "") {
				return usagef("--letter and --why go with --payload")
			}
			id, err := parseID(args[0], "an investigation", listsEntries)
			if err != nil {
				return err
			}
			return c.withServices(cmd.Context(), at, grant("postrider_operator"), func(ctx context.Context, d *app.Services, actor string) error {
				detail, err := d.Investigations.Show(ctx, id)
				if errors.Is(err, dlq.ErrNotFound) {
					detail, err = d.Investigations.ShowTask(ctx, id)
				}
				if errors.Is(err, dlq.ErrNotFound) {
					return fmt.Errorf("there is no investigation %s, nor one of a task with this id or of its events; postrider dlq list shows them", id)
				}
				if err != nil {
					return err
				}
				var whole *dlq.Letter
				if reveal {
					look.Entry, look.Actor = detail.UUID, actor
					l, err := d.Investigations.Reveal(ctx, look)
					if err != nil {
						return err
					}
					whole = &l
				}
				done, err := d.Access.EntryHistory(ctx, detail.UUID.String(), api.OperationsOf(detail))
				if err != nil {
					return err
				}
				return out.print(c.stdout, api.NewDetail(detail, done, whole), func(w io.Writer) error { return showEntry(w, detail, whole) })
			})
		},
	}
	cmd.Flags().BoolVar(&reveal, "payload", false, "show a letter's key, headers and payload as they are; the audit log says who looked")
	cmd.Flags().StringVar(&look.LetterID, "letter", "", "with --payload: the letter with this `id`, not the newest")
	cmd.Flags().StringVar(&look.Reason, "why", "", "with --payload: why you look, for the audit log")
	c.actor(cmd, &at)
	out.bind(cmd)
	return cmd
}

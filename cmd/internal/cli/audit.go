package cli

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/postrider/postrider/cmd/internal/access"
	"github.com/postrider/postrider/cmd/internal/api"
	"github.com/postrider/postrider/cmd/internal/app"
)

func (c *commands) audit() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "audit",
		Short: "Read who changed what",
		Args:  cobra.ArbitraryArgs,
		RunE:  c.group,
	}
	cmd.AddCommand(c.auditList())
	return cmd
}

func (c *commands) auditList() *cobra.Command {
	var out output
	var f access.DoneFilter
	var from, to string
	var limit int
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List what was done, the newest first",
		Long: `List what was changed by the commands and the API, the newest first. BY is the person that they named. LOGIN is the
login of the database that wrote the row, which callers cannot choose; for a change by the API it is the login of serve.`,
		Args: exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			err := out.check()
			if err != nil {
				return err
			}
			if limit < 1 || limit > access.MaxHistory {
				return usagef("--limit is %d; it must be from 1 to %d", limit, access.MaxHistory)
			}
			f.Limit = limit + 1 // one more says whether there are more
			if f.From, err = parsePastTime("from", from); err != nil {
				return err
			}
			if f.To, err = parsePastTime("to", to); err != nil {
				return err
			}
			return c.withServices(cmd.Context(), acting{}, grant("postrider_operator"), func(ctx context.Context, d *app.Services, _ string) error {
				done, err := d.Access.History(ctx, f)
				if err != nil {
					return err
				}
				list := api.NewAuditList(done, limit)
				return out.print(c.stdout, list, func(w io.Writer) error { return doneTable(w, list) })
			})
		},
	}
	cmd.Flags().StringVar(&f.Actor, "by", "", "only changes by this `actor`: the name of a key, cli:LOGIN for all people with that login, or \"cli:LOGIN (PERSON)\"")
	cmd.Flags().StringVar(&f.Action, "action", "", "only this `action`, such as dlq.requeue")
	cmd.Flags().StringVar(&f.TargetType, "target-type", "", "only what was done to this `kind` of thing: entry, group, operation, event, task, key …")
	cmd.Flags().StringVar(&f.TargetID, "target-id", "", "only what was done to the one with this `ID`")
	cmd.Flags().StringVar(&from, "from", "", "only since this `time`, or so long ago: 2026-01-31T12:00:00Z, 36h, 30d")
	cmd.Flags().StringVar(&to, "to", "", "only until this `time`")
	cmd.Flags().BoolVar(&f.NoBatches, "no-batches", false, "leave out the rows of batches of operations; the row of an operation's start counts them")
	cmd.Flags().Int64Var(&f.Before, "after", 0, "go on with a list: the `next` of the one before")
	cmd.Flags().IntVar(&limit, "limit", 100, fmt.Sprintf("list at most so many, 1 to %d", access.MaxHistory))
	out.bind(cmd)
	return cmd
}

func doneTable(w io.Writer, list api.List[access.Done]) error {
	if len(list.Items) == 0 {
		_, err := fmt.Fprintln(w, "Nothing of the kind was done.")
		return err
	}
	rows := make([][]string, len(list.Items))
	for i, d := range list.Items {
		rows[i] = []string{count(d.ID), moment(d.At), d.Actor, d.SessionUser, d.Action, d.TargetType, d.TargetID, string(d.Details)}
	}
	if err := grid(w, []string{"NUMBER", "AT", "BY", "LOGIN", "ACTION", "TO", "TARGET ID", "DETAILS"}, rows); err != nil {
		return err
	}
	return goOn(w, list.Next)
}

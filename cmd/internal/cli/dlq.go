package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/postrider/postrider/cmd/internal/app"
	"github.com/postrider/postrider/dlq"
)

func (c *commands) dlq() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "dlq",
		Short: "Look at the investigations that dead letters opened, and treat them",
		Args:  cobra.ArbitraryArgs,
		RunE:  c.group,
	}
	cmd.AddCommand(c.dlqList(), c.dlqShow(), c.dlqStats(), c.dlqGroups(), c.dlqResolve(), c.dlqRequeue(), c.dlqFetch(), c.dlqPurge())
	return cmd
}

// listView is the JSON of dlq list.
type listView struct {
	Total   int         `json:"total"`
	Entries []entryView `json:"entries"`
}

func (c *commands) dlqList() *cobra.Command {
	var out output
	var filter dlq.Filter
	var status, reason string
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List investigations, the newest first",
		Args:  exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := out.check(); err != nil {
				return err
			}
			filter.Status, filter.Reason = dlq.Status(status), dlq.Reason(reason)
			if err := checkFilter(filter); err != nil {
				return err
			}
			return c.withDesk(cmd.Context(), atDesk{}, grant("postrider_operator"), func(ctx context.Context, d *app.Desk, _ string) error {
				page, err := d.Desk.Find(ctx, dlq.Search{Filter: filter})
				if err != nil {
					return err
				}
				view := listView{Total: int(page.Total), Entries: make([]entryView, len(page.Entries))}
				for i, e := range page.Entries {
					view.Entries[i] = viewEntry(e)
				}
				return out.print(c.stdout, view, func(w io.Writer) error { return entryTable(w, page.Entries, view.Total, filter) })
			})
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&status, "status", "", "only those with this `status`: "+join(dlq.Statuses()))
	flags.StringVar(&reason, "reason", "", "only those with this `reason`: "+join(dlq.Reasons()))
	flags.StringVar(&filter.Topic, "topic", "", "only those of messages bound for this `topic`")
	flags.IntVar(&filter.Limit, "limit", dlq.DefaultLimit, fmt.Sprintf("how many, 1 to %d", dlq.MaxLimit))
	flags.IntVar(&filter.Offset, "offset", 0, "how many of the newest to pass over")
	out.bind(cmd)
	return cmd
}

func checkFilter(f dlq.Filter) error {
	switch {
	case f.Status != "" && !slices.Contains(dlq.Statuses(), f.Status):
		return usagef("--status is %q; it must be one of %s", f.Status, join(dlq.Statuses()))
	case f.Reason != "" && !slices.Contains(dlq.Reasons(), f.Reason):
		return usagef("--reason is %q; it must be one of %s", f.Reason, join(dlq.Reasons()))
	case f.Limit < 1 || f.Limit > dlq.MaxLimit:
		return usagef("--limit is %d; it must be from 1 to %d", f.Limit, dlq.MaxLimit)
	case f.Offset < 0:
		return usagef("--offset is %d; it must not be negative", f.Offset)
	}
	return nil
}

func join[T ~string](values []T) string {
	words := make([]string, len(values))
	for i, v := range values {
		words[i] = string(v)
	}
	return strings.Join(words, ", ")
}

func entryTable(w io.Writer, entries []dlq.Entry, total int, f dlq.Filter) error {
	if total == 0 {
		_, err := fmt.Fprintln(w, "There are no such investigations.")
		return err
	}
	rows := make([][]string, len(entries))
	for i, e := range entries {
		rows[i] = []string{e.UUID.String(), string(e.Status), string(e.Reason), e.Topic, e.ErrorCode, strconv.Itoa(e.Occurrences), moment(e.LastOccurredAt), e.ErrorMessage}
	}
	if err := grid(w, []string{"ID", "STATUS", "REASON", "TOPIC", "CODE", "TIMES", "LAST", "ERROR"}, rows); err != nil {
		return err
	}
	if len(entries) == 0 {
		_, err := fmt.Fprintf(w, "None beyond the first %d; there are %d in all.\n", f.Offset, total)
		return err
	}
	if len(entries) < total {
		_, err := fmt.Fprintf(w, "%d to %d of %d; --offset and --limit show others.\n", f.Offset+1, f.Offset+len(entries), total)
		return err
	}
	return nil
}

func (c *commands) dlqShow() *cobra.Command {
	var out output
	var at atDesk
	var reveal bool
	var look dlq.RevealRequest
	cmd := &cobra.Command{
		Use:   "show ID",
		Short: "Show an investigation: the error, the message, its dead letters",
		Long: `Show an investigation: the error, the message as the rules of redaction let it be seen (dlq.redact_paths and
dlq.redact_headers), its dead letters. With --payload a letter's key, headers and payload are shown as they
are, whatever the rules say; who looked is written to the audit log before.`,
		Args:              exactly("ID"),
		ValidArgsFunction: c.completeEntries,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := out.check(); err != nil {
				return err
			}
			if !reveal && (look.LetterID != "" || look.Reason != "") {
				return usagef("--letter and --why go with --payload")
			}
			id, err := uuid.Parse(args[0])
			if err != nil {
				return usagef("%q is not the id of an investigation; postrider dlq list shows them", shorten(args[0], 80))
			}
			return c.withDesk(cmd.Context(), at, grant("postrider_operator"), func(ctx context.Context, d *app.Desk, actor string) error {
				detail, err := d.Desk.Show(ctx, id)
				if errors.Is(err, dlq.ErrNotFound) {
					return fmt.Errorf("there is no investigation %s; postrider dlq list shows them", id)
				}
				if err != nil {
					return err
				}
				var whole *dlq.Letter
				if reveal {
					look.Entry, look.Actor = id, actor
					l, err := d.Desk.Reveal(ctx, look)
					if err != nil {
						return err
					}
					whole = &l
				}
				return out.print(c.stdout, viewDetail(detail, whole), func(w io.Writer) error { return showEntry(w, detail, whole) })
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

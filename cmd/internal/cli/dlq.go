package cli

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"

	"github.com/postrider/postrider/dlq"
	"github.com/postrider/postrider/dlq/postgres"
)

func (c *commands) dlq() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "dlq",
		Short: "Look at the investigations that dead letters opened, and treat them",
		Args:  cobra.ArbitraryArgs,
		RunE:  c.group,
	}
	cmd.AddCommand(c.dlqList(), c.dlqShow(), c.dlqStats(), c.dlqGroups(), c.dlqResolve(), c.dlqRequeue(), c.dlqPurge())
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
			return c.withPool(cmd.Context(), func(pool *pgxpool.Pool) error {
				store, err := postgres.NewStore(postgres.Config{Pool: pool})
				if err != nil {
					return err
				}
				entries, total, err := store.List(cmd.Context(), filter)
				if err != nil {
					return err
				}
				view := listView{Total: total, Entries: make([]entryView, len(entries))}
				for i, e := range entries {
					view.Entries[i] = viewEntry(e)
				}
				return out.print(c.stdout, view, func(w io.Writer) error { return entryTable(w, entries, total, filter) })
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
	cmd := &cobra.Command{
		Use:   "show ID",
		Short: "Show an investigation: the error, the message, its dead letters",
		Args:  exactly("ID"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := out.check(); err != nil {
				return err
			}
			id, err := uuid.Parse(args[0])
			if err != nil {
				return usagef("%q is not the id of an investigation; postrider dlq list shows them", shorten(args[0], 80))
			}
			return c.withPool(cmd.Context(), func(pool *pgxpool.Pool) error {
				store, err := postgres.NewStore(postgres.Config{Pool: pool})
				if err != nil {
					return err
				}
				entry, letters, err := store.Get(cmd.Context(), id)
				if errors.Is(err, dlq.ErrNotFound) {
					return fmt.Errorf("there is no investigation %s; postrider dlq list shows them", id)
				}
				if err != nil {
					return err
				}
				return out.print(c.stdout, viewDetail(entry, letters), func(w io.Writer) error { return showEntry(w, entry, letters) })
			})
		},
	}
	out.bind(cmd)
	return cmd
}

package cli

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/postrider/postrider/cmd/internal/app"
	"github.com/postrider/postrider/internal/dlq"
)

// filterFlags are the flags that select investigations, for lists and for operations.
type filterFlags struct {
	filter   dlq.Filter
	from, to string
}

// bind defines the flags. The last parameter begins their help texts and says what they select from.
func (g *filterFlags) bind(c *commands, cmd *cobra.Command, those string) {
	f := cmd.Flags()
	f.StringVar(&g.filter.Topic, "topic", "", those+" of messages bound for this `topic`")
	f.StringVar((*string)(&g.filter.Reason), "reason", "", those+" with this `reason`: "+join(dlq.Reasons()))
	f.StringVar(&g.filter.ErrorCode, "code", "", those+" with this error `code`")
	f.StringVar(&g.filter.Message, "text", "", those+" with this `text` in their error message")
	f.StringVar(&g.filter.Assignee, "assignee", "", those+" that this `person` looks at")
	f.StringVar(&g.from, "from", "", those+" opened since this `time`, or so long ago: 2026-01-31T12:00:00Z, 36h, 30d")
	f.StringVar(&g.to, "to", "", those+" opened until this `time`, likewise")
	_ = cmd.RegisterFlagCompletionFunc("reason", cobra.FixedCompletions(texts(dlq.Reasons()), cobra.ShellCompDirectiveNoFileComp))
	_ = cmd.RegisterFlagCompletionFunc("topic", c.completeTopics)
}

// read makes the filter of what was given.
func (g *filterFlags) read() (err error) {
	if g.filter.From, err = instant("from", g.from); err != nil {
		return err
	}
	g.filter.To, err = instant("to", g.to)
	return err
}

// listView is the JSON of dlq list.
type listView struct {
	Total int64 `json:"total"`
	// TotalExact says whether Total was counted to the end.
	TotalExact bool        `json:"total_exact"`
	Entries    []entryView `json:"entries"`
	// Next is the --after of the next page; null on the last.
	Next *string `json:"next"`
	// Incomplete says that not all was looked at before the page was full: there may be others behind Next.
	Incomplete bool `json:"incomplete"`
}

func (c *commands) dlqList() *cobra.Command {
	var out output
	var which filterFlags
	var s dlq.Search
	var group string
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List investigations, the newest first or the oldest",
		Long: `List investigations by when they were opened, or by when they last changed (--order-by updated_at): the newest first,
or with --ascending the oldest. Those that are listed fit all filters given.

A --text without three letters or digits in a row is looked for in 10000 investigations at a time. Where these do not
fill the list, it says so, and --after goes on.`,
		Args: exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			err := out.check()
			if err != nil {
				return err
			}
			if which.filter.Group, err = identity("group", "a group", group); err != nil {
				return err
			}
			if err := which.read(); err != nil {
				return err
			}
			s.Filter = which.filter
			if err := checkSearch(s); err != nil {
				return err
			}
			return c.withServices(cmd.Context(), acting{}, grant("postrider_operator"), func(ctx context.Context, d *app.Services, _ string) error {
				page, err := d.Editor.Find(ctx, s)
				if err != nil {
					return err
				}
				view := listView{Total: page.Total, TotalExact: page.TotalExact, Entries: make([]entryView, len(page.Entries)), Next: given(page.Next), Incomplete: page.Incomplete}
				for i, e := range page.Entries {
					view.Entries[i] = viewEntry(e)
				}
				return out.print(c.stdout, view, func(w io.Writer) error { return entryTable(w, page, s) })
			})
		},
	}
	f := cmd.Flags()
	f.StringVar((*string)(&which.filter.Status), "status", "", "only those with this `status`: "+join(dlq.Statuses()))
	f.StringVar((*string)(&which.filter.Subject.Type), "subject-type", "", "only those about this `kind` of thing: "+join(subjectTypes))
	f.StringVar(&which.filter.Subject.ID, "subject-id", "", "only those about the event, task or record with this `ID`")
	f.StringVar(&group, "group", "", "only those of the group with this `ID`")
	which.bind(c, cmd, "only those")
	f.StringVar((*string)(&s.OrderBy), "order-by", string(dlq.ByCreated), "list by: "+join(orders))
	f.BoolVar(&s.Ascending, "ascending", false, "the oldest first")
	f.IntVar(&which.filter.Limit, "limit", dlq.DefaultLimit, fmt.Sprintf("how many, 1 to %d", dlq.MaxLimit))
	f.IntVar(&which.filter.Offset, "offset", 0, fmt.Sprintf("how many to pass over, %d at most", dlq.MaxOffset))
	f.StringVar(&s.After, "after", "", "go on after the page whose `next` this is")
	_ = cmd.RegisterFlagCompletionFunc("status", cobra.FixedCompletions(texts(dlq.Statuses()), cobra.ShellCompDirectiveNoFileComp))
	_ = cmd.RegisterFlagCompletionFunc("order-by", cobra.FixedCompletions(texts(orders), cobra.ShellCompDirectiveNoFileComp))
	out.bind(cmd)
	return cmd
}

var (
	subjectTypes = []dlq.SubjectType{dlq.SubjectEvent, dlq.SubjectTask, dlq.SubjectRecord}
	orders       = []dlq.OrderBy{dlq.ByCreated, dlq.ByUpdated}
)

// checkSearch says of a mistake which flag it is in.
func checkSearch(s dlq.Search) error {
	f := s.Filter
	switch {
	case f.Status != "" && !slices.Contains(dlq.Statuses(), f.Status):
		return usagef("--status is %q; it must be one of %s", f.Status, join(dlq.Statuses()))
	case f.Reason != "" && !slices.Contains(dlq.Reasons(), f.Reason):
		return usagef("--reason is %q; it must be one of %s", f.Reason, join(dlq.Reasons()))
	case f.Subject.Type != "" && !slices.Contains(subjectTypes, f.Subject.Type):
		return usagef("--subject-type is %q; it must be one of %s", f.Subject.Type, join(subjectTypes))
	case !slices.Contains(orders, s.OrderBy):
		return usagef("--order-by is %q; it must be one of %s", s.OrderBy, join(orders))
	case f.Limit < 1 || f.Limit > dlq.MaxLimit:
		return usagef("--limit is %d; it must be from 1 to %d", f.Limit, dlq.MaxLimit)
	case f.Offset < 0 || f.Offset > dlq.MaxOffset:
		return usagef("--offset is %d; it must be from 0 to %d; --after goes further", f.Offset, dlq.MaxOffset)
	}
	if err := s.Check(); err != nil {
		return &usageError{err}
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

func entryTable(w io.Writer, page dlq.Page, s dlq.Search) error {
	if page.Total == 0 && len(page.Entries) == 0 && !page.Incomplete {
		_, err := fmt.Fprintln(w, "There are no such investigations.")
		return err
	}
	rows := make([][]string, len(page.Entries))
	for i, e := range page.Entries {
		rows[i] = []string{e.UUID.String(), string(e.Status), string(e.Reason), e.Topic, e.ErrorCode, strconv.Itoa(e.Occurrences),
			moment(e.CreatedAt), moment(shownTime(e, s.OrderBy)), e.ErrorMessage}
	}
	last := "LAST"
	if s.OrderBy == dlq.ByUpdated {
		last = "CHANGED"
	}
	if err := grid(w, []string{"ID", "STATUS", "REASON", "TOPIC", "CODE", "TIMES", "OPENED", last, "ERROR"}, rows); err != nil {
		return err
	}
	total, n := strconv.FormatInt(page.Total, 10), len(page.Entries)
	if !page.TotalExact {
		total = "about " + total
	}
	var below string
	switch next := visible(page.Next); {
	case page.Incomplete:
		below = fmt.Sprintf("%d in the %d that were looked at; a --text with three letters or digits in a row is looked for in all. On with: --after %s\n", n, dlq.MaxSkim, next)
	case n == 0 && s.After == "":
		below = fmt.Sprintf("None beyond the first %d; there are %s in all.\n", s.Filter.Offset, total)
	case s.After != "" && next == "":
		below = fmt.Sprintf("The last %d of %s.\n", n, total)
	case s.After != "":
		below = fmt.Sprintf("%d of %s; the next: --after %s\n", n, total, next)
	case next != "" || int64(n) < page.Total:
		below = fmt.Sprintf("%d to %d of %s; --offset and --limit show others", s.Filter.Offset+1, s.Filter.Offset+n, total)
		if next != "" {
			below += ", and the next: --after " + next
		}
		below += "\n"
	}
	_, err := io.WriteString(w, below)
	return err
}

// shownTime is, beside when it was opened, what a list in some order shows of an investigation.
func shownTime(e dlq.Entry, by dlq.OrderBy) time.Time {
	if by == dlq.ByUpdated {
		return e.UpdatedAt
	}
	return e.LastOccurredAt
}

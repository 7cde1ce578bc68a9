package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/postrider/postrider/cmd/internal/api"
	"github.com/postrider/postrider/cmd/internal/app"
	"github.com/postrider/postrider/internal/dlq"
)

// filterFlags are the flags that select investigations, for lists and for operations.
type filterFlags struct {
	api.EntryFilter
	// names are the names of the flags of the fields that are not called as their flags.
	names map[string]string
}

// bind defines the flags. selected begins their help texts and says what they select from; status is the flag of the status.
func (g *filterFlags) bind(c *commands, cmd *cobra.Command, selected, status string) {
	g.names = map[string]string{"resolution_status": status, "dlq_reason": "dlq-reason", "subject_type": "subject-type", "error_code": "code", "event_id": "event"}
	f := cmd.Flags()
	f.StringVar(&g.Source, "source", "", selected+" of this `source`, a database by its name; main is the desk's own")
	f.StringVar(&g.Topic, "topic", "", selected+" of messages bound for this `topic`")
	f.StringVar(&g.DLQReason, "dlq-reason", "", selected+" dead-lettered for this `reason`: "+join(dlq.Reasons()))
	f.StringVar(&g.ErrorCode, "code", "", selected+" with this error `code`")
	f.StringVar(&g.Reason, "reason", "", selected+" with this `reason`, as lists and statistics show it")
	f.StringVar(&g.Text, "text", "", selected+" with this `text` in the error message, root cause or frame; not with --reason")
	f.StringVar(&g.ConsumerGroup, "consumer-group", "", selected+" that this `consumer group` gave up")
	f.StringVar(&g.DLQTopic, "dlq-topic", "", selected+" whose dead letter was read from this `topic`")
	f.StringVar(&g.EventID, "event", "", selected+" with a dead letter about the event with this `UUID`")
	f.StringVar(&g.Assignee, "assignee", "", selected+" that this `person` looks at")
	f.StringVar(&g.From, "from", "", selected+" opened since this `time`, or so long ago: 2026-01-31, 2026-01-31T12:00:00Z, 36h, 30d")
	f.StringVar(&g.To, "to", "", selected+" opened until this `time`, likewise")
	_ = cmd.RegisterFlagCompletionFunc("dlq-reason", cobra.FixedCompletions(texts(dlq.Reasons()), cobra.ShellCompDirectiveNoFileComp))
	_ = cmd.RegisterFlagCompletionFunc("topic", c.completeTopics)
}

// read makes the filter of what was given.
func (g *filterFlags) read() (dlq.Filter, error) {
	asked := g.EntryFilter
	for _, bound := range []*string{&asked.From, &asked.To} {
		if ago, err := parseAge("", *bound); err == nil {
			*bound = time.Now().Add(-ago).Format(time.RFC3339Nano)
		}
	}
	f, err := asked.Parse()
	return f, flagOf(err, g.names)
}

// flagOf says which flag an error about a field of a filter is about: names has the flags of the fields that are not called
// as their flags.
func flagOf(err error, names map[string]string) error {
	wrong, is := errors.AsType[*api.FieldError](err)
	if !is {
		return err
	}
	flag, want := wrong.Field, wrong.Want
	if named, is := names[flag]; is {
		flag = named
	}
	if flag == "from" || flag == "to" {
		want += ", or how long ago, such as 36h or 30d"
	}
	return usagef("--%s is %q; it must be %s", flag, shorten(wrong.Text, 60), want)
}

func (c *commands) dlqList() *cobra.Command {
	var out output
	var which filterFlags
	var s dlq.Search
	var limit, offset int
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List investigations, the newest first or the oldest",
		Long: `List investigations by when they were opened, or by when they last changed (--order-by updated_at): the newest first,
or with --ascending the oldest. An investigation is listed if it fits all filters given. A page and the count below it
are of one moment; while dead letters arrive, the next command counts more.

A --reason that no investigation has is taken for a --text. A text without three letters or digits in a row is looked
for in 10000 investigations at a time. Where these do not fill the list, it says so, and --after goes on.`,
		Args: exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			err := out.check()
			if err != nil {
				return err
			}
			if s.Filter, err = which.read(); err != nil {
				return err
			}
			s.Filter.Limit, s.Filter.Offset = limit, offset
			if err := checkSearch(s); err != nil {
				return err
			}
			return c.withServices(cmd.Context(), acting{}, grant("postrider_operator"), func(ctx context.Context, d *app.Services, _ string) error {
				found, err := d.Investigations.Find(ctx, s)
				if err != nil {
					return err
				}
				list := api.NewEntryList(found, s.Filter)
				return out.print(c.stdout, list, func(w io.Writer) error { return entryTable(w, list, s) })
			})
		},
	}
	f := cmd.Flags()
	f.StringVar(&which.Status, "status", "", "only investigations with this `status`: "+join(dlq.Statuses()))
	f.StringVar(&which.SubjectType, "subject-type", "", "only investigations about this `kind` of thing: "+join(dlq.SubjectTypes()))
	f.StringVar(&which.SubjectID, "subject-id", "", "only investigations about the event, task or record with this `ID`; of another source than main, SOURCE/ID")
	f.StringVar(&which.Group, "group", "", "only investigations of the group with this `ID`")
	which.bind(c, cmd, "only investigations", "status")
	f.StringVar((*string)(&s.OrderBy), "order-by", string(dlq.ByCreated), "list by: "+join(orders))
	f.BoolVar(&s.Ascending, "ascending", false, "the oldest first")
	f.IntVar(&limit, "limit", dlq.DefaultLimit, fmt.Sprintf("how many, 1 to %d", dlq.MaxLimit))
	f.IntVar(&offset, "offset", 0, fmt.Sprintf("how many to pass over, %d at most", dlq.MaxOffset))
	f.StringVar(&s.After, "after", "", "go on after the page whose `next` this is")
	_ = cmd.RegisterFlagCompletionFunc("status", cobra.FixedCompletions(texts(dlq.Statuses()), cobra.ShellCompDirectiveNoFileComp))
	_ = cmd.RegisterFlagCompletionFunc("order-by", cobra.FixedCompletions(texts(orders), cobra.ShellCompDirectiveNoFileComp))
	out.bind(cmd)
	return cmd
}

var orders = []dlq.OrderBy{dlq.ByCreated, dlq.ByUpdated}

// checkSearch says of a mistake which flag it is in.
func checkSearch(s dlq.Search) error {
	f := s.Filter
	switch {
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

// itself is who closed an investigation that no person closed.
const itself = "postrider"

// statusText is a status as a person reads it: manually_resolved, a word of the schema, is also what an investigation
// becomes whose message was sent again and arrived.
func statusText(s dlq.Status, by string) string {
	if s == dlq.ManuallyResolved && by == itself {
		return string(s) + " (by itself)"
	}
	return string(s)
}

// gridOfSources is grid with the source of each row behind its id, if one of them is not main.
func gridOfSources(w io.Writer, head []string, rows [][]string, sources []string) error {
	if slices.ContainsFunc(sources, func(s string) bool { return s != dlq.MainSource }) {
		head = slices.Insert(head, 1, "SOURCE")
		for i := range rows {
			rows[i] = slices.Insert(rows[i], 1, sources[i])
		}
	}
	return grid(w, head, rows)
}

func entryTable(w io.Writer, list api.EntryList, s dlq.Search) error {
	if *list.Total == 0 && len(list.Items) == 0 && !list.Incomplete {
		_, err := fmt.Fprintln(w, "There are no such investigations.")
		return err
	}
	last := "LAST"
	if s.OrderBy == dlq.ByUpdated {
		last = "CHANGED"
	}
	rows, sources := make([][]string, len(list.Items)), make([]string, len(list.Items))
	for i, e := range list.Items {
		sources[i] = e.Source
		at := value(e.LastOccurredAt)
		if s.OrderBy == dlq.ByUpdated {
			at = e.UpdatedAt
		}
		rows[i] = []string{e.ID, statusText(e.Status, value(e.ResolvedBy)), string(e.DLQReason), value(e.Topic), value(e.ErrorCode), strconv.Itoa(e.Occurrences),
			moment(e.CreatedAt), moment(at), cmp.Or(value(e.RootCause), e.Message)}
	}
	if err := gridOfSources(w, []string{"ID", "STATUS", "REASON", "TOPIC", "CODE", "TIMES", "OPENED", last, "ERROR"}, rows, sources); err != nil {
		return err
	}
	total, n := strconv.FormatInt(*list.Total, 10), len(list.Items)
	if !*list.TotalExact {
		total = "about " + total
	}
	var below string
	switch next := visible(value(list.Next)); {
	case list.Incomplete:
		below = fmt.Sprintf("%d in the %d that were looked at; a text with three letters or digits in a row is looked for in all. On with: --after %s\n", n, dlq.MaxSkim, next)
	case n == 0 && s.After == "":
		below = fmt.Sprintf("None beyond the first %d; there are %s in all.\n", s.Filter.Offset, total)
	case s.After != "" && next == "":
		below = fmt.Sprintf("The last %d of %s.\n", n, total)
	case s.After != "":
		below = fmt.Sprintf("%d of %s; the next: --after %s\n", n, total, next)
	case next != "" || int64(n) < *list.Total:
		below = fmt.Sprintf("%d to %d of %s; --offset and --limit show others", s.Filter.Offset+1, s.Filter.Offset+n, total)
		if next != "" {
			below += ", and the next: --after " + next
		}
		below += "\n"
	}
	_, err := io.WriteString(w, below)
	return err
}

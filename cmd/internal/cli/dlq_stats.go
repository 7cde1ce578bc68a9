package cli

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/postrider/postrider/cmd/internal/api"
	"github.com/postrider/postrider/cmd/internal/app"
	"github.com/postrider/postrider/cmd/internal/plural"
	"github.com/postrider/postrider/internal/dlq"
)

func (c *commands) dlqStats() *cobra.Command {
	var out output
	cmd := &cobra.Command{
		Use:   "stats",
		Short: "Count investigations by reason, error code and status",
		Long: `Count investigations by reason, error code and status. All numbers of one answer are of one moment, which is shown.
While dead letters arrive, the numbers of two commands differ by what arrived between them.`,
		Args: exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := out.check(); err != nil {
				return err
			}
			return c.withServices(cmd.Context(), acting{}, grant("postrider_operator"), func(ctx context.Context, d *app.Services, _ string) error {
				at := time.Now()
				found, err := d.Investigations.Stats(ctx)
				if err != nil {
					return err
				}
				s := api.NewStats(found)
				return out.print(c.stdout, s, func(w io.Writer) error { return statsTable(w, s, at) })
			})
		},
	}
	out.bind(cmd)
	return cmd
}

// statsTable prints numbers that were read at a time.
func statsTable(w io.Writer, s api.Stats, at time.Time) error {
	fmt.Fprintf(w, "%s, %d pending, %d opened during the last 24 hours. Counted at %s.\n", plural.Of(s.Total, "investigation", "investigations"), s.Pending, s.Last24h, moment(at))
	if s.OldestPending != nil {
		fmt.Fprintf(w, "The oldest pending one was opened %s.\n", moment(*s.OldestPending))
	}
	if s.Total == 0 {
		return nil
	}
	var rows [][]string
	for _, r := range s.Reasons {
		rows = append(rows, []string{string(r.Reason), count(r.Total), count(r.Pending), count(r.ManuallyResolved), count(r.PermanentFailures), count(r.Cancelled), moment(value(r.Newest))})
	}
	fmt.Fprintln(w)
	if err := grid(w, []string{"REASON", "TOTAL", "PENDING", "RESOLVED", "FAILED FOR GOOD", "CANCELLED", "NEWEST"}, rows); err != nil {
		return err
	}
	rows = nil
	for _, code := range sortedKeys(s.ByErrorCode) {
		rows = append(rows, []string{code, count(s.ByErrorCode[code])})
	}
	if len(rows) == 0 {
		return nil
	}
	fmt.Fprintln(w)
	return grid(w, []string{"CODE", "PENDING"}, rows)
}

func (c *commands) dlqGroups() *cobra.Command {
	var out output
	var which api.GroupFilter
	var asked dlq.GroupSearch
	cmd := &cobra.Command{
		Use:   "groups [ID]",
		Short: "List investigations by their cause, or show one group and why it is one",
		Long: `List groups of investigations, each with one cause, or show one group and why it is one. The states: new (seen for
less than a day, and no person has done anything about it), ongoing (some investigations are pending), resolved (none
is pending), regressed (it was resolved and has happened again), muted (its cause is known, until a time or until a
person says otherwise).`,
		Args: takes("[ID]"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := out.check(); err != nil {
				return err
			}
			ids, err := identities("a group", listsGroups, args)
			if err != nil {
				return err
			}
			s, err := which.Parse()
			if err != nil {
				return flagOf(err, nil)
			}
			s.OrderBy, s.Ascending, s.After, s.Limit = asked.OrderBy, asked.Ascending, asked.After, asked.Limit
			if err := s.Check(); err != nil {
				return &usageError{err}
			}
			return c.withServices(cmd.Context(), acting{}, grant("postrider_operator"), func(ctx context.Context, d *app.Services, _ string) error {
				if len(ids) == 1 {
					found, err := d.Investigations.ShowGroup(ctx, ids[0])
					if err != nil {
						return noGroup(err)
					}
					g := api.NewGroupDetail(found)
					return out.print(c.stdout, g, func(w io.Writer) error { return showGroup(w, g) })
				}
				found, err := d.Investigations.ListGroups(ctx, s)
				if err != nil {
					return err
				}
				list := api.NewGroupList(found)
				return out.print(c.stdout, list, func(w io.Writer) error { return groupTable(w, list) })
			})
		},
	}
	f := cmd.Flags()
	f.StringVar(&which.State, "state", "", "only groups in this `state`: "+join(dlq.GroupStates()))
	f.StringVar(&which.Source, "source", "", "only groups of this `source`, a database by its name; main is the desk's own")
	f.StringVar(&which.Topic, "topic", "", "only groups of this `topic`")
	f.StringVar(&which.ErrorCode, "code", "", "only groups with this error `code`")
	f.StringVar(&which.Assignee, "assignee", "", "only groups that this `person` looks at")
	f.StringVar(&which.Text, "text", "", "only groups with this `text` in their title, error code, topic or template")
	f.StringVar((*string)(&asked.OrderBy), "order-by", string(dlq.GroupsByLastSeen), "list by: "+join(dlq.GroupOrders()))
	f.BoolVar(&asked.Ascending, "ascending", false, "the smallest first")
	f.StringVar(&asked.After, "after", "", "go on after the page whose `next` this is")
	f.IntVar(&asked.Limit, "limit", dlq.DefaultLimit, "list at most so many, 1 to "+strconv.Itoa(dlq.MaxLimit))
	_ = cmd.RegisterFlagCompletionFunc("state", cobra.FixedCompletions(texts(dlq.GroupStates()), cobra.ShellCompDirectiveNoFileComp))
	_ = cmd.RegisterFlagCompletionFunc("order-by", cobra.FixedCompletions(texts(dlq.GroupOrders()), cobra.ShellCompDirectiveNoFileComp))
	_ = cmd.RegisterFlagCompletionFunc("topic", c.completeTopics)
	out.bind(cmd)
	return cmd
}

func groupTable(w io.Writer, list api.List[api.Group]) error {
	if len(list.Items) == 0 {
		_, err := fmt.Fprintln(w, "There are no such groups.")
		return err
	}
	rows, sources := make([][]string, len(list.Items)), make([]string, len(list.Items))
	for i, g := range list.Items {
		sources[i] = g.Source
		rows[i] = []string{g.UUID.String(), string(g.State), count(g.Pending), count(g.Total), g.Where(), moment(g.LastSeenAt), g.Parts.ErrorCode, g.Title}
	}
	if err := gridOfSources(w, []string{"ID", "STATE", "PENDING", "TOTAL", "WHERE", "LAST", "CODE", "TITLE"}, rows, sources); err != nil {
		return err
	}
	if list.Next != nil {
		_, err := fmt.Fprintf(w, "There are %d in all: --after %s\n", *list.Total, visible(*list.Next))
		return err
	}
	return nil
}

// groupRemedy recommends the next command for a group.
func groupRemedy(g api.GroupDetail) string {
	switch {
	case g.Pending > 0 && g.Parts.Template != "" && api.OtherSource(g.Source) != "":
		return fmt.Sprintf("They are about tasks in the database of the source %s, which are repaired there. Close them together with: postrider op plan --kind resolve --group %s --name NAME", g.Source, g.UUID)
	case g.Pending > 0 && g.Parts.Template != "":
		return fmt.Sprintf("They are about tasks, which are not sent again: repair their steps (postrider task step), or put a task back to its beginning\n(postrider task retry). Close them together with: postrider op plan --kind resolve --group %s --name NAME", g.UUID)
	case g.Pending > 0 && g.Pending < g.Entries:
		return fmt.Sprintf("Plan to send the %d pending ones again with: postrider op plan --group %s --name NAME", g.Pending, g.UUID)
	case g.Pending > 0:
		return fmt.Sprintf("Plan to send all of them again with: postrider op plan --group %s --name NAME", g.UUID)
	case g.Entries == 0:
		return "All of them were purged. There is nothing left to do. When it happens again, the group is shown as regressed: open again after all of it was closed."
	}
	closed := make([]string, 0, len(g.Statuses))
	for _, s := range dlq.Statuses()[1:] {
		if n := g.Statuses[s]; n > 0 {
			closed = append(closed, fmt.Sprintf("%d %s", n, s))
		}
	}
	return fmt.Sprintf("All of them are closed (%s). There is nothing left to do. A message that was sent again and arrived\ncounts as manually_resolved. When it happens again, the group is shown as regressed: open again after all of it was closed.", strings.Join(closed, ", "))
}

// groupFields are the fields of a group alone, without its details.
func groupFields(g api.Group) [][2]string {
	muted := moment(value(g.MutedUntil))
	if g.State == dlq.GroupMuted && g.MutedUntil == nil {
		muted = "a person ends it"
	}
	return [][2]string{
		{"Group", g.UUID.String()},
		{"Title", g.Title},
		{"Source", api.OtherSource(g.Source)},
		{"State", string(g.State)},
		{"Muted until", muted},
		{"Where", g.Where()},
		{"Code", g.Parts.ErrorCode},
		{"Pending", fmt.Sprintf("%d of %d", g.Pending, g.Total)},
		{"Dead letters", count(g.Occurrences)},
		{"First seen", moment(g.FirstSeenAt)},
		{"Last seen", moment(g.LastSeenAt)},
		{"Assignee", value(g.Assignee)},
		{"Note", value(g.Note)},
	}
}

func showGroup(w io.Writer, g api.GroupDetail) error {
	last := ""
	if g.Recommended != nil {
		last = "postrider dlq show " + g.Recommended.String()
	}
	if err := fields(w, append(groupFields(g.Group), [2]string{"Look at", last})...); err != nil {
		return err
	}
	fmt.Fprintln(w, "\nThey are in one group because:")
	for _, why := range g.Why {
		fmt.Fprintf(w, "  %s\n", visible(why))
	}
	if len(g.Variants) > 1 {
		fmt.Fprintln(w, "\nTheir messages, the newest first; these may be different faults (postrider dlq group split):")
		for _, v := range g.Variants {
			fmt.Fprintf(w, "  %s  %s  %s\n", moment(v.OpenedAt), v.Newest, visible(shorten(v.Message, maxCell)))
		}
	}
	_, err := io.WriteString(w, "\n"+groupRemedy(g)+"\n")
	return err
}

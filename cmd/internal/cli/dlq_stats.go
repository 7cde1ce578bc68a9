package cli

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/postrider/postrider/cmd/internal/app"
	"github.com/postrider/postrider/internal/dlq"
)

// statsView is the JSON of dlq stats, as that of the API.
type statsView struct {
	Total         int64             `json:"total"`
	Pending       int64             `json:"pending"`
	ByReason      map[string]int64  `json:"by_reason"`
	ByErrorCode   map[string]int64  `json:"by_error_code"`
	Last24h       int64             `json:"last_24h"`
	OldestPending *time.Time        `json:"oldest_pending_at"`
	Recent        []uuid.UUID       `json:"recent_sample_ids"`
	Reasons       []reasonStatsView `json:"reasons"`
}

type reasonStatsView struct {
	Reason            string     `json:"dlq_reason"`
	Total             int64      `json:"total_entries"`
	Pending           int64      `json:"pending"`
	ManuallyResolved  int64      `json:"manually_resolved"`
	PermanentFailures int64      `json:"permanent_failures"`
	Cancelled         int64      `json:"cancelled"`
	Oldest            *time.Time `json:"oldest_entry"`
	Newest            *time.Time `json:"newest_entry"`
}

func viewStats(s dlq.Stats) statsView {
	v := statsView{Total: s.Total, Pending: s.Pending, ByReason: s.ByReason, ByErrorCode: s.ByErrorCode, Last24h: s.Last24h,
		OldestPending: given(s.OldestPending), Recent: append([]uuid.UUID{}, s.Recent...), Reasons: []reasonStatsView{}}
	for _, r := range s.Reasons {
		v.Reasons = append(v.Reasons, reasonStatsView{string(r.Reason), r.Total, r.Pending, r.ManuallyResolved, r.PermanentFailures, r.Cancelled, given(r.Oldest), given(r.Newest)})
	}
	return v
}

func (c *commands) dlqStats() *cobra.Command {
	var out output
	cmd := &cobra.Command{
		Use:   "stats",
		Short: "Count investigations by reason, error code and status",
		Args:  exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := out.check(); err != nil {
				return err
			}
			return c.withServices(cmd.Context(), acting{}, grant("postrider_operator"), func(ctx context.Context, d *app.Services, _ string) error {
				s, err := d.Editor.Stats(ctx)
				if err != nil {
					return err
				}
				return out.print(c.stdout, viewStats(s), func(w io.Writer) error { return statsTable(w, s) })
			})
		},
	}
	out.bind(cmd)
	return cmd
}

func statsTable(w io.Writer, s dlq.Stats) error {
	fmt.Fprintf(w, "%d investigations, %d of them pending; %d were opened during the last 24 hours.\n", s.Total, s.Pending, s.Last24h)
	if !s.OldestPending.IsZero() {
		fmt.Fprintf(w, "The oldest pending one was opened %s.\n", moment(s.OldestPending))
	}
	if s.Total == 0 {
		return nil
	}
	var rows [][]string
	for _, r := range s.Reasons {
		rows = append(rows, []string{string(r.Reason), count(r.Total), count(r.Pending), count(r.ManuallyResolved), count(r.PermanentFailures), count(r.Cancelled), moment(r.Newest)})
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

// groupView is the JSON of a group, as that of the API.
type groupView struct {
	UUID        uuid.UUID  `json:"dlq_group_uuid"`
	Fingerprint string     `json:"fingerprint"`
	Title       string     `json:"title"`
	Topic       *string    `json:"topic"`
	State       string     `json:"state"`
	MutedUntil  *time.Time `json:"muted_until"`
	Total       int64      `json:"total"`
	Pending     int64      `json:"pending"`
	Occurrences int64      `json:"occurrences"`
	FirstSeenAt *time.Time `json:"first_seen_at"`
	LastSeenAt  *time.Time `json:"last_seen_at"`
	LastEntry   *uuid.UUID `json:"last_entry_uuid"`
	Assignee    *string    `json:"assignee"`
	Note        *string    `json:"note"`
}

func viewGroup(g dlq.Group) groupView {
	return groupView{UUID: g.UUID, Fingerprint: g.Fingerprint, Title: g.Title, Topic: given(g.Topic), State: string(g.State), MutedUntil: given(g.MutedUntil),
		Total: g.Total, Pending: g.Pending, Occurrences: g.Occurrences, FirstSeenAt: given(g.FirstSeenAt), LastSeenAt: given(g.LastSeenAt),
		LastEntry: given(g.LastEntryUUID), Assignee: given(g.Assignee), Note: given(g.Note)}
}

// groupListView is the JSON of dlq groups.
type groupListView struct {
	Groups []groupView `json:"groups"`
	Total  int64       `json:"total"`
	// Next is the --after of the next page; null on the last.
	Next *string `json:"next"`
}

// groupDetailView is the JSON of dlq groups ID.
type groupDetailView struct {
	groupView
	Why         []string             `json:"why"`
	Recommended *uuid.UUID           `json:"recommended_entry_uuid"`
	Statuses    map[dlq.Status]int64 `json:"statuses"`
}

func (c *commands) dlqGroups() *cobra.Command {
	var out output
	var s dlq.GroupSearch
	cmd := &cobra.Command{
		Use:   "groups [ID]",
		Short: "List investigations by their cause, or show one group and why it is one",
		Args:  cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := out.check(); err != nil {
				return err
			}
			ids, err := identities("a group", listsGroups, args)
			if err != nil {
				return err
			}
			if err := s.Check(); err != nil {
				return &usageError{err}
			}
			return c.withServices(cmd.Context(), acting{}, grant("postrider_operator"), func(ctx context.Context, d *app.Services, _ string) error {
				if len(ids) == 1 {
					g, err := d.Editor.ShowGroup(ctx, ids[0])
					if err != nil {
						return noGroup(err)
					}
					view := groupDetailView{viewGroup(g.Group), append([]string{}, g.Why...), given(g.Recommended), g.Statuses}
					return out.print(c.stdout, view, func(w io.Writer) error { return showGroup(w, g) })
				}
				page, err := d.Editor.ListGroups(ctx, s)
				if err != nil {
					return err
				}
				view := groupListView{[]groupView{}, page.Total, given(page.Next)}
				for _, g := range page.Groups {
					view.Groups = append(view.Groups, viewGroup(g))
				}
				return out.print(c.stdout, view, func(w io.Writer) error { return groupTable(w, page) })
			})
		},
	}
	f := cmd.Flags()
	f.StringVar((*string)(&s.State), "state", "", "only those in this `state`: "+join(dlq.GroupStates()))
	f.StringVar(&s.Topic, "topic", "", "only those of this `topic`")
	f.StringVar(&s.ErrorCode, "code", "", "only those with this error `code`")
	f.StringVar(&s.Text, "text", "", "only those with this `text` in their title")
	f.StringVar((*string)(&s.OrderBy), "order-by", string(dlq.GroupsByLastSeen), "list by: "+join(dlq.GroupOrders()))
	f.BoolVar(&s.Ascending, "ascending", false, "the smallest first")
	f.StringVar(&s.After, "after", "", "go on after the page whose `next` this is")
	f.IntVar(&s.Limit, "limit", dlq.DefaultLimit, "list at most so many, 1 to "+strconv.Itoa(dlq.MaxLimit))
	_ = cmd.RegisterFlagCompletionFunc("state", cobra.FixedCompletions(texts(dlq.GroupStates()), cobra.ShellCompDirectiveNoFileComp))
	_ = cmd.RegisterFlagCompletionFunc("order-by", cobra.FixedCompletions(texts(dlq.GroupOrders()), cobra.ShellCompDirectiveNoFileComp))
	_ = cmd.RegisterFlagCompletionFunc("topic", c.completeTopics)
	out.bind(cmd)
	return cmd
}

func groupTable(w io.Writer, page dlq.GroupPage) error {
	if len(page.Groups) == 0 {
		_, err := fmt.Fprintln(w, "There are no such groups.")
		return err
	}
	rows := make([][]string, len(page.Groups))
	for i, g := range page.Groups {
		rows[i] = []string{g.UUID.String(), string(g.State), count(g.Pending), count(g.Total), g.Topic, moment(g.LastSeenAt), g.Title}
	}
	if err := grid(w, []string{"ID", "STATE", "PENDING", "TOTAL", "TOPIC", "LAST", "TITLE"}, rows); err != nil {
		return err
	}
	if page.Next != "" {
		_, err := fmt.Fprintf(w, "There are %d in all: --after %s\n", page.Total, visible(page.Next))
		return err
	}
	return nil
}

// groupRemedy recommends the next command for a group.
func groupRemedy(g dlq.GroupDetail) string {
	switch {
	case g.Pending > 0 && g.Parts.Template != "":
		return fmt.Sprintf("They are about tasks, which are not sent again: repair their steps (postrider task step), or put a task back to its beginning\n(postrider task retry). Close them together with: postrider op plan --kind resolve --group %s --name NAME", g.UUID)
	case g.Pending > 0 && g.Pending < g.Entries:
		return fmt.Sprintf("Plan to send the %d pending ones again with: postrider op plan --group %s --name NAME", g.Pending, g.UUID)
	case g.Pending > 0:
		return fmt.Sprintf("Plan to send all of them again with: postrider op plan --group %s --name NAME", g.UUID)
	case g.Entries == 0:
		return "All of them were purged. There is nothing left to do; when it happens again, the group regresses."
	}
	closed := make([]string, 0, len(g.Statuses))
	for _, s := range dlq.Statuses()[1:] {
		if n := g.Statuses[s]; n > 0 {
			closed = append(closed, fmt.Sprintf("%d %s", n, s))
		}
	}
	return fmt.Sprintf("All of them are closed (%s). There is nothing left to do; when it happens again, the group regresses.", strings.Join(closed, ", "))
}

// groupFields are the fields of a group alone, without its details.
func groupFields(g dlq.Group) [][2]string {
	muted := moment(g.MutedUntil)
	if g.State == dlq.GroupMuted && g.MutedUntil.IsZero() {
		muted = "somebody ends it"
	}
	return [][2]string{
		{"Group", g.UUID.String()},
		{"Title", g.Title},
		{"State", string(g.State)},
		{"Muted until", muted},
		{"Topic", g.Topic},
		{"Pending", fmt.Sprintf("%d of %d", g.Pending, g.Total)},
		{"Letters", count(g.Occurrences)},
		{"First seen", moment(g.FirstSeenAt)},
		{"Last seen", moment(g.LastSeenAt)},
		{"Assignee", g.Assignee},
		{"Note", g.Note},
	}
}

func showGroup(w io.Writer, g dlq.GroupDetail) error {
	last := ""
	if g.Recommended != uuid.Nil {
		last = "postrider dlq show " + g.Recommended.String()
	}
	if err := fields(w, append(groupFields(g.Group), [2]string{"Look at", last})...); err != nil {
		return err
	}
	fmt.Fprintln(w, "\nThey are in one group because:")
	for _, why := range g.Why {
		fmt.Fprintf(w, "  %s\n", visible(why))
	}
	_, err := io.WriteString(w, "\n"+groupRemedy(g)+"\n")
	return err
}

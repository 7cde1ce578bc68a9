package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/postrider/postrider/cmd/internal/app"
	"github.com/postrider/postrider/internal/dlq"
)

const (
	listsOperations = "postrider op list"
	listsGroups     = "postrider dlq groups"
)

func (c *commands) op() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "op",
		Short: "Treat many investigations at once: plan, start, watch, pause, resume, abort",
		Long: `An operation treats many investigations at once. op plan freezes which, and says what it would do; op start
begins, and postrider serve does the work, which goes on wherever it was when a process dies. Redrives may
send a few first (--canary), keep to a rate, and halt by themselves when too many come back dead.`,
		Args: cobra.ArbitraryArgs,
		RunE: c.group,
	}
	cmd.AddCommand(c.opPlan(), c.opList(), c.opShow(), c.opStart(),
		c.opCommand(dlq.Pause, "Stop an operation after the batch in hand"),
		c.opCommand(dlq.Resume, "Go on with an operation that was paused, or halted by itself"),
		c.opCommand(dlq.Abort, "End an operation for good; what was sent stays sent"))
	return cmd
}

// operationView is the JSON of an operation.
type operationView struct {
	UUID       uuid.UUID            `json:"operation_uuid"`
	Kind       string               `json:"kind"`
	Name       string               `json:"name"`
	Reason     *string              `json:"reason"`
	Actor      string               `json:"actor"`
	State      string               `json:"state"`
	Scope      dlq.Scope            `json:"scope"`
	Options    dlq.OperationOptions `json:"options"`
	Plan       dlq.Plan             `json:"plan"`
	Items      int64                `json:"items"`
	Done       int64                `json:"done"`
	Skipped    int64                `json:"skipped"`
	Failed     int64                `json:"failed"`
	Delivered  int64                `json:"delivered"`
	CameBack   int64                `json:"came_back"`
	Error      *string              `json:"error"`
	CreatedAt  *time.Time           `json:"created_at"`
	StartedAt  *time.Time           `json:"started_at"`
	TreatedAt  *time.Time           `json:"treated_at"`
	FinishedAt *time.Time           `json:"finished_at"`
	UpdatedAt  *time.Time           `json:"updated_at"`
}

func viewOperation(o dlq.Operation) operationView {
	return operationView{
		UUID: o.UUID, Kind: string(o.Kind), Name: o.Name, Reason: given(o.Reason), Actor: o.Actor, State: string(o.State), Scope: o.Scope,
		Options: o.Options, Plan: o.Plan, Items: o.Items, Done: o.Done, Skipped: o.Skipped, Failed: o.Failed, Delivered: o.Delivered,
		CameBack: o.CameBack, Error: given(o.Error), CreatedAt: given(o.CreatedAt), StartedAt: given(o.StartedAt),
		TreatedAt: given(o.TreatedAt), FinishedAt: given(o.FinishedAt), UpdatedAt: given(o.UpdatedAt),
	}
}

func (c *commands) opPlan() *cobra.Command {
	var out output
	var at acting
	var n dlq.NewOperation
	var kind, group string
	var which filterFlags
	var headers givenHeaders
	n.Options.HaltRatio, n.Options.HaltMinimum = new(float64), new(int)
	cmd := &cobra.Command{
		Use:   "plan (ID... | --group ID | filters | --all) --name NAME",
		Short: "Freeze which investigations an operation is about, and say what it would do",
		Long: `Freeze which investigations an operation is about, and say what it would do: those named, the pending ones of a
group, or the pending ones that all filters given select (--topic, --reason, --code, --text, --assignee, --from,
--to). A purge may be about closed ones, with --where-status. Nothing is treated before op start.

Messages of which some headers cannot be read are left alone, unless --header or --header-none says what to send:
--header NAME=VALUE is added to those that can be read. Other messages keep the headers that they have.`,
		Args:              cobra.ArbitraryArgs,
		ValidArgsFunction: c.completeEntries,
		RunE: func(cmd *cobra.Command, args []string) error {
			var err error
			if n.Scope.Entries, err = out.entries(args); err != nil {
				return err
			}
			if n.Scope.Group, err = identity("group", "a group", group); err != nil {
				return err
			}
			if err := which.read(); err != nil {
				return err
			}
			if all, _ := cmd.Flags().GetBool("all"); all || which.filter != (dlq.Filter{}) {
				n.Scope.Filter = &which.filter
			}
			if strings.TrimSpace(n.Name) == "" {
				return usagef("--name is missing: a name for people, such as the incident's")
			}
			n.Kind, n.Actor = dlq.OperationKind(kind), "whoever" // the name is not known before the database is
			if p, err := headers.repair(); err != nil {
				return err
			} else if p != nil {
				n.Options.NoHeaders = p.None
				for _, h := range p.Headers {
					n.Options.Headers = append(n.Options.Headers, []string{h.Name, string(h.Value)})
				}
			}
			if err := n.Check(); err != nil {
				return &usageError{err}
			}
			return c.withServices(cmd.Context(), at, grant("postrider_operator"), func(ctx context.Context, d *app.Services, actor string) error {
				n.Actor = actor
				o, err := d.Redriver.PlanOperation(ctx, n)
				if err != nil {
					return notPlanned(err, n)
				}
				return out.print(c.stdout, viewOperation(o), func(w io.Writer) error {
					if err := showOperation(w, o); err != nil {
						return err
					}
					if o.Kind == dlq.OpRedrive && o.Plan.Tasks > 0 {
						fmt.Fprintf(w, "\n%d are about tasks and will be left alone: repair their steps, or retry the task.\n", o.Plan.Tasks)
					}
					_, err := fmt.Fprintf(w, "\nNothing was done yet. Begin with: postrider op start %s --wait\n", o.UUID)
					return err
				})
			})
		},
	}
	f := cmd.Flags()
	f.StringVar(&kind, "kind", string(dlq.OpRedrive), "what to do with each: redrive, resolve or purge")
	f.StringVar(&n.Name, "name", "", "a `name` for people, such as the incident's; those that have not ended have different ones")
	f.StringVar(&n.Reason, "why", "", "why, for the audit log")
	f.StringVar(&group, "group", "", "the pending ones of the group with this `ID`")
	which.bind(c, cmd, "the pending ones")
	f.StringVar((*string)(&which.filter.Status), "where-status", "", "with --kind purge: those with this `status`, not the pending ones: "+join(dlq.Statuses()))
	f.Bool("all", false, "all pending ones")
	f.StringVar(&n.Options.Target, "target", "", "send to this `topic`, or to group, the retry topic of the consumer group that failed; by default to where each message was bound for or came from")
	f.IntVar(&n.Options.MaxHops, "max-hops", 0, "how often a message is sent again in all, 1 to 1000; 0 is 3")
	f.Float64Var(&n.Options.Rate, "rate", 0, "treat so many a second at most; 0 is no limit")
	f.IntVar(&n.Options.Canary, "canary", 0, "send so many first, and wait for what becomes of them")
	f.Float64Var(n.Options.HaltRatio, "halt-ratio", dlq.DefaultHaltRatio, "halt when more than this share came back dead, 0 to 1; 0 halts as soon as --halt-minimum did")
	f.IntVar(n.Options.HaltMinimum, "halt-minimum", dlq.DefaultHaltMinimum, "do not halt before so many came back dead, 1 or more; a canary halts when it is over")
	headers.bind(f, "for messages of which some headers cannot be read: send `NAME=VALUE`, too; once for each", "send those messages without headers")
	f.StringVar(&n.Options.Notes, "notes", "", "with --kind resolve: what to write into each")
	f.StringVar((*string)(&n.Options.Status), "status", "", "with --kind resolve: what they came to")
	f.BoolVar(&n.Options.ReleaseKeys, "release-keys", false, "with --kind purge: let the keys go that they hold")
	_ = cmd.RegisterFlagCompletionFunc("kind", cobra.FixedCompletions([]string{"redrive", "resolve", "purge"}, cobra.ShellCompDirectiveNoFileComp))
	c.actor(cmd, &at)
	out.bind(cmd)
	return cmd
}

func (c *commands) opList() *cobra.Command {
	var out output
	var open bool
	var limit int
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List operations, the newest first",
		Args:  exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := out.check(); err != nil {
				return err
			}
			if limit < 1 || limit > 1000 {
				return usagef("--limit is %d; it must be from 1 to 1000", limit)
			}
			return c.withServices(cmd.Context(), acting{}, grant("postrider_operator"), func(ctx context.Context, d *app.Services, _ string) error {
				ops, err := d.Redriver.ListOperations(ctx, open, uuid.Nil, limit)
				if err != nil {
					return err
				}
				views := make([]operationView, len(ops))
				for i, o := range ops {
					views[i] = viewOperation(o)
				}
				return out.print(c.stdout, views, func(w io.Writer) error { return operationTable(w, ops) })
			})
		},
	}
	cmd.Flags().BoolVar(&open, "open", false, "only those that have not ended")
	cmd.Flags().IntVar(&limit, "limit", 50, "list at most so many, 1 to 1000")
	out.bind(cmd)
	return cmd
}

func operationTable(w io.Writer, ops []dlq.Operation) error {
	if len(ops) == 0 {
		_, err := fmt.Fprintln(w, "There are no such operations.")
		return err
	}
	rows := make([][]string, len(ops))
	for i, o := range ops {
		rows[i] = []string{o.UUID.String(), string(o.Kind), o.Name, string(o.State), fmt.Sprintf("%d of %d", treated(o), o.Items),
			count(o.Skipped), count(o.Delivered), count(o.CameBack), o.Actor, moment(o.CreatedAt), o.Error}
	}
	return grid(w, []string{"ID", "KIND", "NAME", "STATE", "TREATED", "SKIPPED", "DELIVERED", "CAME BACK", "BY", "PLANNED", "ERROR"}, rows)
}

func treated(o dlq.Operation) int64 { return o.Done + o.Skipped + o.Failed }

func count(n int64) string { return strconv.FormatInt(n, 10) }

func (c *commands) opShow() *cobra.Command {
	var out output
	var items bool
	var state string
	var limit int
	cmd := &cobra.Command{
		Use:   "show ID",
		Short: "Show an operation, and with --items what became of each investigation",
		Long: `Show an operation. With --items its investigations are listed, in the order in which they are treated, and what
became of each: waiting, done, skipped or failed. --state lists only those.`,
		Args:              exactly("ID"),
		ValidArgsFunction: c.completeOperations,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := out.check(); err != nil {
				return err
			}
			ids, err := identities("an operation", listsOperations, args)
			if err != nil {
				return err
			}
			switch {
			case limit < 1 || limit > 10_000:
				return usagef("--limit is %d; it must be from 1 to 10000", limit)
			case state != "" && !slices.Contains(itemStates, state):
				return usagef("--state is %q; it must be one of %s", shorten(state, 60), strings.Join(itemStates, ", "))
			}
			items = items || state != ""
			return c.withServices(cmd.Context(), acting{}, grant("postrider_operator"), func(ctx context.Context, d *app.Services, _ string) error {
				o, err := d.Redriver.Operation(ctx, ids[0])
				if err != nil {
					return noOperation(err)
				}
				view := struct {
					operationView
					Listed []itemView `json:"listed_items,omitzero"`
				}{operationView: viewOperation(o)}
				if items {
					view.Listed = []itemView{}
					found, err := d.Redriver.Items(ctx, o.UUID, state, 0, limit)
					if err != nil {
						return err
					}
					for _, i := range found {
						view.Listed = append(view.Listed, itemView{i.Place, i.Entry, i.State, given(i.Reason)})
					}
				}
				return out.print(c.stdout, view, func(w io.Writer) error {
					if err := showOperation(w, o); err != nil || !items {
						return err
					}
					fmt.Fprintln(w)
					return itemTable(w, view.Listed, limit)
				})
			})
		},
	}
	cmd.Flags().BoolVar(&items, "items", false, "list its investigations, too, and what became of each")
	cmd.Flags().StringVar(&state, "state", "", "list those in this `state`: "+strings.Join(itemStates, ", "))
	cmd.Flags().IntVar(&limit, "limit", 100, "list at most so many items, 1 to 10000")
	_ = cmd.RegisterFlagCompletionFunc("state", cobra.FixedCompletions(itemStates, cobra.ShellCompDirectiveNoFileComp))
	out.bind(cmd)
	return cmd
}

// itemStates are what may have become of an investigation of an operation.
var itemStates = []string{"waiting", "done", "skipped", "failed"}

// itemView is the JSON of an item.
type itemView struct {
	Place  int64     `json:"item"`
	Entry  uuid.UUID `json:"dlq_entry_uuid"`
	State  string    `json:"state"`
	Reason *string   `json:"reason"`
}

func itemTable(w io.Writer, items []itemView, limit int) error {
	if len(items) == 0 {
		_, err := fmt.Fprintln(w, "There are no such items.")
		return err
	}
	rows := make([][]string, len(items))
	for i, item := range items {
		why := ""
		if item.Reason != nil {
			why = dlq.SkipReason(*item.Reason).Explain()
		}
		rows[i] = []string{count(item.Place), item.Entry.String(), item.State, why}
	}
	if err := wideGrid(w, []string{"ITEM", "INVESTIGATION", "STATE", "WHY"}, rows); err != nil || len(items) < limit {
		return err
	}
	_, err := fmt.Fprintf(w, "There may be more: --limit is %d.\n", limit)
	return err
}

// notPlanned says where to look when an operation is not planned because of something that is there, or not there.
func notPlanned(err error, n dlq.NewOperation) error {
	switch {
	case errors.Is(err, dlq.ErrExists):
		return fmt.Errorf("%w (postrider op list --open shows it)", err)
	case errors.Is(err, dlq.ErrNotFound) && n.Scope.Group != uuid.Nil:
		return fmt.Errorf("%w; %s shows them", err, listsGroups)
	}
	return noEntry(err)
}

// noOperation says where to look when an operation is not there.
func noOperation(err error) error {
	if errors.Is(err, dlq.ErrNotFound) {
		return fmt.Errorf("%w; %s shows them", err, listsOperations)
	}
	return err
}

func showOperation(w io.Writer, o dlq.Operation) error {
	rate := "no limit"
	if o.Options.Rate > 0 {
		rate = fmt.Sprintf("%g a second", o.Options.Rate)
	}
	canary := ""
	if o.Options.Canary > 0 {
		canary = strconv.Itoa(o.Options.Canary)
	}
	p := o.Plan
	topics := ""
	for _, name := range sortedKeys(p.Topics) {
		at := name
		if at == "" {
			at = "none"
		}
		topics += fmt.Sprintf("%s (%d) ", at, p.Topics[name])
	}
	return fields(w,
		[2]string{"Operation", o.UUID.String()},
		[2]string{"Name", o.Name},
		[2]string{"Why", o.Reason},
		[2]string{"Kind", string(o.Kind)},
		[2]string{"State", string(o.State)},
		[2]string{"Error", o.Error},
		[2]string{"Planned by", o.Actor},
		[2]string{"Planned", moment(o.CreatedAt)},
		[2]string{"Started", moment(o.StartedAt)},
		[2]string{"Ended", moment(o.FinishedAt)},
		[2]string{"Target", o.Options.Target},
		[2]string{"Rate", rate},
		[2]string{"Canary", canary},
		[2]string{"Plan", fmt.Sprintf("%d investigations, %d bytes, of %d keys; %d were redriven before, %d halt their key, %d are about tasks", p.Items, p.Bytes, p.Keys, p.Redriven, p.Halting, p.Tasks)},
		[2]string{"Headers", unreadable(o)},
		[2]string{"Topics", topics},
		[2]string{"Progress", progress(o)},
	)
}

// unreadable says what becomes of messages with headers that cannot be read.
func unreadable(o dlq.Operation) string {
	if o.Plan.Unreadable == 0 || o.Kind != dlq.OpRedrive {
		return ""
	}
	what := "are left alone: " + dlq.UnreadableHeaders.Explain()
	switch p := o.Options.Repair(); {
	case p == nil:
	case p.None:
		what = "are sent without any"
	default:
		names := make([]string, len(p.Headers))
		for i, h := range p.Headers {
			names[i] = visible(h.Name)
		}
		what = "are sent with those that can be read, and " + strings.Join(names, ", ")
	}
	return fmt.Sprintf("%d have some that cannot be read, and %s", o.Plan.Unreadable, what)
}

// progress says in one line how far an operation is.
func progress(o dlq.Operation) string {
	line := fmt.Sprintf("%d of %d treated (%d left alone, %d failed)", treated(o), o.Items, o.Skipped, o.Failed)
	if o.Kind == dlq.OpRedrive {
		line += fmt.Sprintf("; %d delivered, %d came back dead", o.Delivered, o.CameBack)
	}
	return line
}

package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/postrider/postrider/cmd/internal/api"
	"github.com/postrider/postrider/cmd/internal/app"
	"github.com/postrider/postrider/cmd/internal/plural"
	"github.com/postrider/postrider/internal/dlq"
)

const (
	listsOperations = "postrider op list"
	listsGroups     = "postrider dlq groups"
)

func (c *commands) op() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "op",
		Short: "Redrive, close or purge many investigations at once: plan, start, watch, pause, resume, abort",
		Long: `An operation redrives, closes or purges many investigations at once. op plan says which and what would be done;
investigations that are opened later are not added. op start begins, and postrider serve does the work, which goes on
wherever it was when a process dies. Redrives may send a few first (--canary), keep to a rate, and halt by themselves
when too many messages become dead letters again (came_back).`,
		Args: cobra.ArbitraryArgs,
		RunE: c.group,
	}
	cmd.AddCommand(c.opPlan(), c.opList(), c.opShow(), c.opItems(), c.opStart(),
		c.opCommand(dlq.Pause, "Stop an operation after the batch in hand"),
		c.opCommand(dlq.Resume, "Go on with an operation that was paused, or halted by itself"),
		c.opCommand(dlq.Abort, "End an operation for good; messages that were sent stay sent"))
	return cmd
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
		Short: "Plan an operation: choose its investigations, and say what it would do",
		Long: `Plan an operation: choose its investigations, and say what it would do. They are the named ones, the pending ones of a
group, or the pending ones that all filters given select (--topic, --reason, --code, --consumer-group, --assignee,
--from, --to and others). A purge may be about closed ones, with --where-status. Nothing is done before op start, and
investigations that are opened later are not added.

Messages with unreadable headers are skipped, unless a flag says what to send. --header NAME=VALUE is
added to the headers that can be read, with one value for all of the messages. --header-text sends each header as the
text of its own value: a priority of 5 as "5", and that of another message as its own. Other messages keep the headers
that they have.`,
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
			f, err := which.read()
			if err != nil {
				return err
			}
			if all, _ := cmd.Flags().GetBool("all"); all || which.EntryFilter != (api.EntryFilter{}) {
				n.Scope.Filter = &f
			}
			if strings.TrimSpace(n.Name) == "" {
				return usagef("--name is missing: a name for people, such as the incident's")
			}
			if err := checkScope(n.Scope); err != nil {
				return err
			}
			n.Kind, n.Actor = dlq.OperationKind(kind), unknownActor
			if p, err := headers.repair(); err != nil {
				return err
			} else if p != nil {
				n.Options.HeadersAsText, n.Options.NoHeaders = p.AsText, p.None
				for _, h := range p.Headers {
					n.Options.Headers = append(n.Options.Headers, []string{h.Name, string(h.Value)})
				}
			}
			if err := n.Check(); err != nil {
				return &usageError{err}
			}
			return c.withServices(cmd.Context(), at, grant("postrider_operator"), func(ctx context.Context, d *app.Services, actor string) error {
				n.Actor = actor
				if done, err := c.askBrokers(d); err == nil {
					defer done()
				} // otherwise the plan says that the groups that read the topics are not known
				planned, err := d.Sender().PlanOperation(ctx, n)
				if err != nil {
					return notPlanned(err, n)
				}
				o := api.NewOperation(planned)
				return out.print(c.stdout, o, func(w io.Writer) error {
					if err := showOperation(w, o); err != nil {
						return err
					}
					if o.Kind == dlq.OpRedrive && o.Plan.Tasks > 0 {
						fmt.Fprintf(w, "\n%s about tasks and will be skipped: repair their steps, or retry the task.\n", plural.Of(o.Plan.Tasks, "is", "are"))
					}
					_, err := fmt.Fprintf(w, "\nNothing was done yet. Begin with: postrider op start %s --wait\n", o.UUID)
					return err
				})
			})
		},
	}
	f := cmd.Flags()
	f.StringVar(&kind, "kind", string(dlq.OpRedrive), "what to do with each: redrive, resolve or purge")
	f.StringVar(&n.Name, "name", "", "a `name` for people, such as the incident's; two operations that have not ended cannot share one")
	f.StringVar(&n.Reason, "why", "", "why, for the audit log")
	f.StringVar(&group, "group", "", "the pending ones of the group with this `ID`")
	which.bind(c, cmd, "the pending ones", "where-status")
	f.StringVar(&which.Status, "where-status", "", "with --kind purge: investigations with this `status`, not the pending ones: "+join(dlq.Statuses()))
	f.Bool("all", false, "all pending ones")
	f.StringVar(&n.Options.Target, "target", "", targetHelp)
	f.IntVar(&n.Options.MaxHops, "max-hops", 0, "how often a message is sent again in all, 1 to 1000; 0 is 3")
	f.Float64Var(&n.Options.Rate, "rate", 0, "handle so many a second at most; 0 is no limit")
	f.IntVar(&n.Options.Canary, "canary", 0, "send so many first, and wait for what becomes of them")
	f.Float64Var(n.Options.HaltRatio, "halt-ratio", dlq.DefaultHaltRatio, "halt when more than this share of the messages became dead letters again, 0 to 1; 0 halts as soon as --halt-minimum did")
	f.IntVar(n.Options.HaltMinimum, "halt-minimum", dlq.DefaultHaltMinimum, "do not halt before so many became dead letters again, 1 or more; a canary halts when it is over")
	headers.bindRepair(f)
	f.StringVar(&n.Options.Notes, "notes", "", "with --kind resolve: what to write into each")
	f.StringVar((*string)(&n.Options.Status), "status", "", "with --kind resolve: what they came to")
	f.BoolVar(&n.Options.ReleaseKeys, "release-keys", false, "with --kind purge: let the keys go that they hold")
	_ = cmd.RegisterFlagCompletionFunc("kind", cobra.FixedCompletions([]string{"redrive", "resolve", "purge"}, cobra.ShellCompDirectiveNoFileComp))
	c.actor(cmd, &at)
	out.bind(cmd)
	return cmd
}

// checkScope says in the words of the command line what an operation is about too little or too much.
func checkScope(s dlq.Scope) error {
	var given []string
	if len(s.Entries) > 0 {
		given = append(given, "ids")
	}
	if s.Group != uuid.Nil {
		given = append(given, "--group")
	}
	if s.Filter != nil {
		given = append(given, "filters or --all")
	}
	switch len(given) {
	case 0:
		return usagef("it is not said what the operation is about; give ids, --group ID, filters such as --topic, or --all")
	case 1:
		return nil
	}
	return usagef("%s are given; give one of them", strings.Join(given, " and "))
}

func (c *commands) opList() *cobra.Command {
	var out output
	var open bool
	var limit int
	var after, group string
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
			behind, err := identity("after", "an operation, the next of an earlier list", after)
			if err != nil {
				return err
			}
			of, err := identity("group", "a group", group)
			if err != nil {
				return err
			}
			return c.withServices(cmd.Context(), acting{}, grant("postrider_operator"), func(ctx context.Context, d *app.Services, _ string) error {
				found, err := d.Redriver.ListOperations(ctx, dlq.OperationFilter{Open: open, Group: of}, behind, limit+1)
				if err != nil {
					return err
				}
				list := api.NewOperationList(found, limit)
				return out.print(c.stdout, list, func(w io.Writer) error { return operationTable(w, list) })
			})
		},
	}
	cmd.Flags().BoolVar(&open, "open", false, "only operations that have not ended")
	cmd.Flags().StringVar(&group, "group", "", "only operations whose scope is this `group`")
	_ = cmd.RegisterFlagCompletionFunc("group", c.completeGroups(""))
	cmd.Flags().IntVar(&limit, "limit", 50, "list at most so many, 1 to 1000")
	cmd.Flags().StringVar(&after, "after", "", "go on after the page whose `next` this is")
	out.bind(cmd)
	return cmd
}

func operationTable(w io.Writer, list api.List[api.Operation]) error {
	if len(list.Items) == 0 {
		_, err := fmt.Fprintln(w, "There are no such operations. One is planned with: postrider op plan")
		return err
	}
	rows := make([][]string, len(list.Items))
	for i, o := range list.Items {
		rows[i] = []string{o.UUID.String(), string(o.Kind), o.Name, string(o.State), fmt.Sprintf("%d of %d", handled(o), o.Items),
			count(o.Skipped), count(o.Delivered), count(o.CameBack), o.Actor, moment(o.CreatedAt), value(o.Error)}
	}
	if err := grid(w, []string{"ID", "KIND", "NAME", "STATE", "HANDLED", "SKIPPED", "DELIVERED", "DEAD AGAIN", "BY", "PLANNED", "ERROR"}, rows); err != nil {
		return err
	}
	return goOn(w, list.Next)
}

func handled(o api.Operation) int64 { return o.Done + o.Skipped + o.Failed }

func count(n int64) string { return strconv.FormatInt(n, 10) }

func (c *commands) opShow() *cobra.Command {
	var out output
	cmd := &cobra.Command{
		Use:               "show ID",
		Short:             "Show an operation, and who did what with it; op items lists what became of each investigation",
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
			return c.withServices(cmd.Context(), acting{}, grant("postrider_operator"), func(ctx context.Context, d *app.Services, _ string) error {
				if done, err := c.askBrokers(d); err == nil {
					defer done()
				}
				found, err := d.Sender().Operation(ctx, ids[0])
				if err != nil {
					return noOperation(err)
				}
				done, err := d.Access.OperationHistory(ctx, ids[0].String())
				if err != nil {
					return err
				}
				o := api.NewOperationDetail(found, done)
				return out.print(c.stdout, o, func(w io.Writer) error {
					if err := showOperation(w, o.Operation); err != nil {
						return err
					}
					return commandTable(w, o.Commands)
				})
			})
		},
	}
	out.bind(cmd)
	return cmd
}

func (c *commands) opItems() *cobra.Command {
	var out output
	var f dlq.ItemFilter
	var limit int
	var after int64
	cmd := &cobra.Command{
		Use:   "items ID",
		Short: "List the investigations of an operation, and what became of each",
		Long: `List the investigations of an operation in the order in which they are handled, each with topic, key, error and event,
and what became of each: waiting, done, skipped or failed; of messages that were sent again whether they are still on
their way (sent), were delivered, or became dead letters again (came_back), and then which investigation goes on.
--state and --outcome list only the items with that state or outcome.`,
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
			case after < 0:
				return usagef("--after is %d; it must be the next of an earlier list", after)
			case f.State != "" && !slices.Contains(api.ItemStates(), f.State):
				return usagef("--state is %q; it must be one of %s", shorten(f.State, 60), strings.Join(api.ItemStates(), ", "))
			case f.Outcome != "" && !slices.Contains(api.ItemOutcomes(), f.Outcome):
				return usagef("--outcome is %q; it must be one of %s", shorten(f.Outcome, 60), strings.Join(api.ItemOutcomes(), ", "))
			}
			return c.withServices(cmd.Context(), acting{}, grant("postrider_operator"), func(ctx context.Context, d *app.Services, _ string) error {
				if _, err := d.Redriver.Operation(ctx, ids[0]); err != nil {
					return noOperation(err)
				}
				found, err := d.Redriver.Items(ctx, ids[0], f, after, limit+1)
				if err != nil {
					return err
				}
				list := api.NewItemList(found, limit)
				return out.print(c.stdout, list, func(w io.Writer) error { return itemTable(w, list) })
			})
		},
	}
	cmd.Flags().StringVar(&f.State, "state", "", "list items in this `state`: "+strings.Join(api.ItemStates(), ", "))
	cmd.Flags().StringVar(&f.Outcome, "outcome", "", "list items that were sent again with this `outcome`: "+strings.Join(api.ItemOutcomes(), ", "))
	cmd.Flags().IntVar(&limit, "limit", 100, "list at most so many, 1 to 10000")
	cmd.Flags().Int64Var(&after, "after", 0, "go on after the page whose `next` this is")
	_ = cmd.RegisterFlagCompletionFunc("state", cobra.FixedCompletions(api.ItemStates(), cobra.ShellCompDirectiveNoFileComp))
	_ = cmd.RegisterFlagCompletionFunc("outcome", cobra.FixedCompletions(api.ItemOutcomes(), cobra.ShellCompDirectiveNoFileComp))
	out.bind(cmd)
	return cmd
}

func itemTable(w io.Writer, list api.List[api.OperationItem]) error {
	if len(list.Items) == 0 {
		_, err := fmt.Fprintln(w, "There are no such items.")
		return err
	}
	rows := make([][]string, len(list.Items))
	for i, item := range list.Items {
		why := ""
		if item.Reason != nil {
			why = item.Reason.Explain()
		}
		goesOn := ""
		if item.Successor != nil {
			goesOn = item.Successor.String()
		}
		about := ""
		switch {
		case item.EventID != nil:
			about = item.EventID.String()
		case item.TaskUUID != nil:
			about = "task " + item.TaskUUID.String()
		}
		rows[i] = []string{count(item.Item), item.Entry.String(), item.State, value(item.Outcome), value(item.Topic), value(item.Key),
			cmp.Or(value(item.ErrorCode), string(value(item.DLQReason))), about, goesOn, why}
	}
	if err := wideGrid(w, []string{"ITEM", "INVESTIGATION", "STATE", "OUTCOME", "TOPIC", "KEY", "ERROR", "EVENT", "GOES ON IN", "WHY"}, rows); err != nil {
		return err
	}
	return goOn(w, list.Next)
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

func showOperation(w io.Writer, o api.Operation) error {
	rate := "no limit"
	if o.Options.Rate > 0 {
		rate = fmt.Sprintf("%g a second", o.Options.Rate)
	}
	canary := ""
	if o.Options.Canary > 0 {
		canary = strconv.Itoa(o.Options.Canary)
	}
	p := o.Plan
	var topics []string
	for _, name := range sortedKeys(p.Topics) {
		at := name
		if at == "" {
			at = "none"
		}
		topics = append(topics, fmt.Sprintf("%s (%d)", at, p.Topics[name]))
	}
	if err := fields(w,
		[2]string{"Operation", o.UUID.String()},
		[2]string{"Name", o.Name},
		[2]string{"Why", value(o.Reason)},
		[2]string{"Kind", string(o.Kind)},
		[2]string{"State", string(o.State)},
		[2]string{"Error", value(o.Error)},
		[2]string{"Planned by", o.Actor},
		[2]string{"Planned", moment(o.CreatedAt)},
		[2]string{"Started", moment(value(o.StartedAt))},
		[2]string{"Ended", moment(value(o.FinishedAt))},
		[2]string{"Target", o.Options.Target},
		[2]string{"Rate", rate},
		[2]string{"Canary", canary},
		[2]string{"Plan", fmt.Sprintf("%s, %s, of %s; redriven before: %d, halting their key: %d, about tasks: %d", plural.Of(p.Items, "investigation", "investigations"),
			plural.Of(p.Bytes, "byte", "bytes"), plural.Of(p.Keys, "key", "keys"), p.Redriven, p.Halting, p.Tasks)},
		[2]string{"Headers", unreadable(o)},
		[2]string{"Topics", strings.Join(topics, " ")},
		[2]string{"Progress", progress(o)},
	); err != nil {
		return err
	}
	showReaches(w, o.Reaches)
	showLeftOut(w, o)
	for _, v := range p.Overlaps {
		if o.State.Ended() {
			break // it is done, whatever the other one has yet to handle
		}
		fmt.Fprintf(w, "Note: operation %s (%s, %s) has yet to handle %d of these investigations, too.\n", visible(v.Name), v.UUID, v.State, v.Items)
	}
	return nil
}

// commandTable lists what people did with an operation.
func commandTable(w io.Writer, commands []api.OperationCommand) error {
	if len(commands) == 0 {
		return nil // the audit log does not have them any more
	}
	rows := make([][]string, len(commands))
	for i, c := range commands {
		rows[i] = []string{moment(c.At), c.Command, c.Actor, value(c.Reason), value(c.Halted)}
	}
	fmt.Fprintln(w)
	return grid(w, []string{"AT", "COMMAND", "BY", "WHY", "HAD HALTED"}, rows)
}

// showLeftOut says which items of a planned redrive would be skipped, a line for each reason.
func showLeftOut(w io.Writer, o api.Operation) {
	if o.State != dlq.Planned {
		return // the items say it of one that began
	}
	among := ""
	if o.Plan.Foreseen < o.Plan.Items {
		among = fmt.Sprintf(" of the first %d", o.Plan.Foreseen)
	}
	for _, why := range slices.Sorted(maps.Keys(o.Plan.LeftOut)) {
		if why == dlq.UnreadableHeaders && o.Options.Repair() == nil && o.Plan.Unreadable > 0 {
			continue // Headers says it
		}
		fmt.Fprintf(w, "%d%s would be skipped (%s): %s.\n", o.Plan.LeftOut[why], among, why, why.Explain())
	}
}

// unreadable says what becomes of messages with headers that cannot be read.
func unreadable(o api.Operation) string {
	if o.Plan.Unreadable == 0 || o.Kind != dlq.OpRedrive {
		return ""
	}
	what := "are skipped: " + dlq.UnreadableHeaders.Explain()
	switch p := o.Options.Repair(); {
	case p == nil:
	case p.None:
		what = "are sent without any"
	default:
		names := make([]string, len(p.Headers))
		for i, h := range p.Headers {
			names[i] = visible(h.Name)
		}
		if p.AsText {
			names = append([]string{"the others as texts"}, names...)
		}
		what = "are sent with the headers that can be read, and " + strings.Join(names, ", ")
	}
	return fmt.Sprintf("%d have some that cannot be read, and %s", o.Plan.Unreadable, what)
}

// progress says in one line how far an operation is.
func progress(o api.Operation) string {
	line := fmt.Sprintf("%d of %d handled (%d skipped, %d failed)", handled(o), o.Items, o.Skipped, o.Failed)
	if o.Kind == dlq.OpRedrive {
		line += fmt.Sprintf("; %d delivered, %d dead-lettered again", o.Delivered, o.CameBack)
	}
	return line
}

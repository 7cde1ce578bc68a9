package cli

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/postrider/postrider/cmd/internal/actions"
	"github.com/postrider/postrider/cmd/internal/api"
	"github.com/postrider/postrider/cmd/internal/app"
	"github.com/postrider/postrider/cmd/internal/plural"
	"github.com/postrider/postrider/internal/relay"
)

// eventFlags are the names of the flags of fields of api.EventFilter that are not called as their flags.
var eventFlags = map[string]string{"error_code": "code", "hold_id": "hold", "event_id": "event", "task_uuid": "task"}

func (c *commands) outboxList() *cobra.Command {
	var out output
	var asked api.EventFilter
	var after int64
	var limit int
	var oldestFirst bool
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List events, the newest first",
		Args:  exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			err := out.check()
			if err != nil {
				return err
			}
			if limit < 1 || limit > 1000 {
				return usagef("--limit is %d; it must be from 1 to 1000", limit)
			}
			for _, bound := range []*string{&asked.From, &asked.To} {
				if ago, err := parseAge("", *bound); err == nil {
					*bound = time.Now().Add(-ago).Format(time.RFC3339Nano)
				}
			}
			f, err := asked.Parse()
			if err != nil {
				return flagOf(err, eventFlags)
			}
			f.OldestFirst, f.After, f.Limit = oldestFirst, after, limit
			return c.withServices(cmd.Context(), acting{}, grant("postrider_operator"), func(ctx context.Context, d *app.Services, _ string) error {
				var all relay.EventPage
				for { // a page may be short, and have a next one
					page, err := d.Outbox.Store().Events(ctx, f)
					if err != nil {
						return err
					}
					all = relay.EventPage{Events: append(all.Events, page.Events...), Next: page.Next}
					f.After, f.Limit = page.Next, limit-len(all.Events)
					if page.Next == 0 || f.Limit == 0 {
						break
					}
				}
				list := api.NewEventList(all)
				return out.print(c.stdout, list, func(w io.Writer) error { return eventTable(w, list) })
			})
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&asked.Status, "status", "", "only events with this `status`: "+strings.Join(relay.EventStatuses(), ", "))
	flags.StringVar(&asked.State, "state", "", "only events in this `state`, which is finer: "+strings.Join(relay.EventStates(), ", "))
	flags.StringVar(&asked.Topic, "topic", "", "only events for this `topic`")
	flags.StringVar(&asked.Key, "key", "", "only events with this `key`")
	flags.StringVar(&asked.ErrorCode, "code", "", "only events whose last failure has this error `code`")
	flags.StringVar(&asked.HoldID, "hold", "", "only events that wait behind the hold with this `number`")
	flags.StringVar(&asked.EventID, "event", "", "only the one with this event `UUID`")
	flags.StringVar(&asked.TaskUUID, "task", "", "only events of the task with this `UUID`")
	flags.StringVar(&asked.From, "from", "", "only events written since this `time`, or so long ago: 2026-01-31, 2026-01-31T12:00:00Z, 36h, 30d")
	flags.StringVar(&asked.To, "to", "", "only events written until this `time`, likewise")
	flags.BoolVar(&oldestFirst, "oldest-first", false, "list the oldest first")
	flags.Int64Var(&after, "after", 0, "go on with a list: the `next` of the one before")
	flags.IntVar(&limit, "limit", 25, "list at most so many, 1 to 1000")
	_ = cmd.RegisterFlagCompletionFunc("status", cobra.FixedCompletions(relay.EventStatuses(), cobra.ShellCompDirectiveNoFileComp))
	_ = cmd.RegisterFlagCompletionFunc("state", cobra.FixedCompletions(relay.EventStates(), cobra.ShellCompDirectiveNoFileComp))
	out.bind(cmd)
	return cmd
}

func eventTable(w io.Writer, list api.List[relay.EventStatus]) error {
	if len(list.Items) == 0 {
		_, err := fmt.Fprintln(w, "There are no such events.")
		return err
	}
	rows := make([][]string, len(list.Items))
	for i, e := range list.Items {
		rows[i] = []string{count(e.ID), e.Status, e.State, e.Topic, value(e.Key), strconv.Itoa(e.Attempts), value(e.LastErrorCode),
			moment(value(e.NextAttemptAt)), moment(e.CreatedAt)}
	}
	if err := grid(w, []string{"ID", "STATUS", "STATE", "TOPIC", "KEY", "ATTEMPTS", "CODE", "NEXT", "CREATED"}, rows); err != nil {
		return err
	}
	return goOn(w, list.Next)
}

func (c *commands) outboxPurge() *cobra.Command {
	var out output
	var at acting
	var sure confirmation
	var older string
	cmd := &cobra.Command{
		Use:   "purge --older-than AGE",
		Short: "Remove delivered events that are older, whatever retention says",
		Long: `Remove events that their topics acknowledged longer ago than --older-than, in small transactions, each with its
row in the audit log. It needs the rights of postrider_relay, as cleanup does. What retention says anyway,
outbox cleanup removes.`,
		Args: exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := out.check(); err != nil {
				return err
			}
			d, err := parseAge("older-than", older)
			if err != nil {
				return err
			}
			before := time.Now().Add(-d)
			if err := sure.ask(cmd, fmt.Sprintf("Every event that was delivered before %s will be removed.", moment(before))); err != nil {
				return err
			}
			return c.withServices(cmd.Context(), at, grant("postrider_relay"), func(ctx context.Context, d *app.Services, actor string) error {
				var view api.PurgedEvents
				ask := actions.PurgeDelivered{OlderThan: before}
				for {
					done, err := d.Outbox.Purge(ctx, actor, ask)
					view.Purged, view.More = view.Purged+done.Rows, done.More || err != nil
					if err != nil || !done.More {
						if view.Purged > 0 || err == nil { // what was done counts, also when the rest failed
							if printErr := out.print(c.stdout, view, func(w io.Writer) error {
								_, err := fmt.Fprintf(w, "%s removed.\n", plural.Of(view.Purged, "delivered event is", "delivered events are"))
								return err
							}); err == nil {
								err = printErr
							}
						}
						return err
					}
				}
			})
		},
	}
	cmd.Flags().StringVar(&older, "older-than", "", "only events delivered longer `AGO` than this, such as 36h or 90d")
	sure.bind(cmd)
	c.actor(cmd, &at)
	out.bind(cmd)
	return cmd
}

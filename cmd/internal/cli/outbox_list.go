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

	"github.com/postrider/postrider/cmd/internal/actions"
	"github.com/postrider/postrider/cmd/internal/api"
	"github.com/postrider/postrider/cmd/internal/app"
	"github.com/postrider/postrider/cmd/internal/plural"
	"github.com/postrider/postrider/internal/relay"
)

func (c *commands) outboxList() *cobra.Command {
	var out output
	var f relay.EventFilter
	var event, task string
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List events, the newest first",
		Args:  exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			err := out.check()
			if err != nil {
				return err
			}
			switch {
			case f.Status != "" && !slices.Contains(relay.EventStatuses(), f.Status):
				return usagef("--status is %q; it must be one of %s", f.Status, strings.Join(relay.EventStatuses(), ", "))
			case f.Limit < 1 || f.Limit > 1000:
				return usagef("--limit is %d; it must be from 1 to 1000", f.Limit)
			}
			if f.EventID, err = identity("event", "an event", event); err != nil {
				return err
			}
			if f.TaskUUID, err = identity("task", "a task", task); err != nil {
				return err
			}
			return c.withServices(cmd.Context(), acting{}, grant("postrider_operator"), func(ctx context.Context, d *app.Services, _ string) error {
				var all relay.EventPage
				wanted := f.Limit
				for { // a page may be short, and have a next one
					page, err := d.Outbox.Store().Events(ctx, f)
					if err != nil {
						return err
					}
					all = relay.EventPage{Events: append(all.Events, page.Events...), Next: page.Next}
					f.Before, f.Limit = page.Next, wanted-len(all.Events)
					if page.Next == 0 || f.Limit == 0 {
						break
					}
				}
				list := api.NewEventList(all)
				return out.print(c.stdout, list, func(w io.Writer) error { return eventTable(w, list) })
			})
		},
	}
	cmd.Flags().StringVar(&f.Status, "status", "", "only events with this `status`: "+strings.Join(relay.EventStatuses(), ", "))
	cmd.Flags().StringVar(&f.Topic, "topic", "", "only events for this `topic`")
	cmd.Flags().StringVar(&event, "event", "", "only the one with this event `UUID`")
	cmd.Flags().StringVar(&task, "task", "", "only events of the task with this `UUID`")
	cmd.Flags().Int64Var(&f.Before, "after", 0, "go on with a list: the `next` of the one before")
	cmd.Flags().IntVar(&f.Limit, "limit", 25, "list at most so many, 1 to 1000")
	_ = cmd.RegisterFlagCompletionFunc("status", cobra.FixedCompletions(relay.EventStatuses(), cobra.ShellCompDirectiveNoFileComp))
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
								_, err := fmt.Fprintf(w, "%s removed.\n", plural.Of(view.Purged, "event is", "events are"))
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
	cmd.Flags().StringVar(&older, "older-than", "", "those delivered longer `AGO` than this, such as 36h or 90d")
	sure.bind(cmd)
	c.actor(cmd, &at)
	out.bind(cmd)
	return cmd
}

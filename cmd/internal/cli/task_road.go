package cli

import (
	"context"
	"fmt"
	"io"
	"strconv"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/postrider/postrider/cmd/internal/actions"
	"github.com/postrider/postrider/cmd/internal/api"
	"github.com/postrider/postrider/cmd/internal/app"
	"github.com/postrider/postrider/internal/tasks/ledger"
)

func (c *commands) taskRetry() *cobra.Command {
	var out output
	var at acting
	var which retryScope
	var dry bool
	cmd := &cobra.Command{
		Use:   "retry ID... | --group GROUP",
		Short: "Put failed tasks back to their beginning",
		Long: `Put tasks back to the initial state of their machine, from a state that the machine calls retryable. The error
is cleared, steps that are not done are pending again with all their retries, and the event that starts the
task is written again, if its template has one. Its pending investigation, and that of an event whose loss
moved it, is closed: nothing of it is left to be sent again. To go on with single steps: postrider task step.

Many are named by their ids, by --group, the group of their pending investigations, or by filters such as
--namespace and --state, which select failed tasks. Each is retried in a transaction of its own, with its row in
the audit log. A task that cannot be retried is skipped, and the output says why; then the exit code is 3.
--dry-run says what would be done. As JSON one task that is named is what POST /tasks/{id}/retry of the API answers; in
every other case the output is what POST /tasks/retry answers.`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := out.check(); err != nil {
				return err
			}
			ids, err := identities("a task", "postrider task list", args)
			if err != nil {
				return err
			}
			portion, err := which.read(ids)
			if err != nil {
				return err
			}
			return c.withServices(cmd.Context(), at, grant("postrider_operator"), func(ctx context.Context, d *app.Services, actor string) error {
				if len(ids) == 1 && !dry {
					retried, err := d.Tasks.Retry(ctx, ids[0], actor)
					if err != nil {
						return noTask(err)
					}
					return out.print(c.stdout, api.NewRetriedTask(ids[0], retried), func(w io.Writer) error { return showRetried(w, ids[0], retried) })
				}
				view, err := retryAll(ctx, d, actor, dry, portion)
				if err == nil || len(view.Retried)+len(view.Skipped) > 0 { // what was done stays done
					if printErr := out.print(c.stdout, view, func(w io.Writer) error { return retriedTable(w, view) }); err == nil {
						err = printErr
					}
				}
				if err == nil && len(view.Skipped) > 0 {
					err = &spokenError{errPartly}
				}
				return noGroup(err)
			})
		},
	}
	which.bind(cmd)
	cmd.Flags().BoolVar(&dry, "dry-run", false, "change nothing: say what would be retried, and what would not")
	_ = cmd.RegisterFlagCompletionFunc("group", c.completeGroups(""))
	c.actor(cmd, &at)
	out.bind(cmd)
	return cmd
}

func showRetried(w io.Writer, id uuid.UUID, r ledger.Retried) error {
	fmt.Fprintf(w, "Task %s is back at its beginning; event %s says so.\n", id, r.Event)
	for _, entry := range r.Closed {
		fmt.Fprintf(w, "Investigation %s is closed: the retry does the work again.\n", entry)
	}
	for _, entry := range r.UnderWay {
		fmt.Fprintf(w, "Investigation %s stays pending: its event is being sent again, so the work may start twice.\n", entry)
	}
	return nil
}

func (c *commands) taskUnflag() *cobra.Command {
	var at acting
	var notes string
	cmd := &cobra.Command{
		Use:   "unflag ID",
		Short: "Let a task go on that was found to be stale and left in place",
		Long: `End the flag of a task that was found to be stale and left in place (manual_review, or with the actions of
detection off). The time in its state and its lifetime count from now, so that workers get it again. A flag
ends by itself when the task moves, or when it is not stale by the thresholds any more.`,
		Args: exactly("ID"),
		RunE: func(cmd *cobra.Command, args []string) error {
			id, err := taskID(args[0])
			if err != nil {
				return err
			}
			return c.withTasks(cmd.Context(), at, func(ctx context.Context, tasks *actions.Tasks, actor string) error {
				unflagged, err := tasks.Unflag(ctx, id, actor, notes)
				if err != nil {
					return err
				}
				if !unflagged {
					return fmt.Errorf("task %s has no flag; postrider task show %[1]s says its state", id)
				}
				fmt.Fprintf(c.stdout, "Task %s may go on: its time counts from now.\n", id)
				return nil
			})
		},
	}
	cmd.Flags().StringVar(&notes, "notes", "", "why, for its event and the audit log")
	c.actor(cmd, &at)
	return cmd
}

func (c *commands) taskDLQ() *cobra.Command {
	var at acting
	var reason string
	cmd := &cobra.Command{
		Use:   "dlq ID --reason TEXT",
		Short: "Dead-letter a task by hand, so that it is investigated",
		Long: `Write the dead letter of a task, with the task as it is, and move it to the dead-letter or failed state of
its machine, unless it failed before. The collector opens the investigation: postrider dlq list. A task that
has a pending one, or a letter that the collector has yet to record, is refused.`,
		Args: exactly("ID"),
		RunE: func(cmd *cobra.Command, args []string) error {
			id, err := taskID(args[0])
			if err != nil {
				return err
			}
			if reason == "" {
				return usagef("--reason is missing; it says why, to the person who investigates")
			}
			return c.withTasks(cmd.Context(), at, func(ctx context.Context, tasks *actions.Tasks, actor string) error {
				letter, err := tasks.DeadLetter(ctx, id, reason, actor)
				if err != nil {
					return err
				}
				fmt.Fprintf(c.stdout, "Task %s is dead-lettered; its letter is event %s.\n", id, letter)
				return nil
			})
		},
	}
	cmd.Flags().StringVar(&reason, "reason", "", "why; 1 to 4096 bytes")
	c.actor(cmd, &at)
	return cmd
}

// undeliveredTable shows the events of a task that were given up without moving it.
func undeliveredTable(w io.Writer, events []ledger.UndeliveredEvent) error {
	rows := make([][]string, len(events))
	for i, e := range events {
		rows[i] = []string{e.EventID.String(), e.Topic, moment(e.NotedAt), strconv.Itoa(e.Attempts), e.ErrorCode, e.Outcome, e.Detail}
	}
	return grid(w, []string{"EVENT", "TOPIC", "GIVEN UP", "ATTEMPTS", "CODE", "TASK", "WHY"}, rows)
}

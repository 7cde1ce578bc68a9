package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"

	"github.com/postrider/postrider/cmd/internal/actions"
	"github.com/postrider/postrider/cmd/internal/api"
	"github.com/postrider/postrider/cmd/internal/app"
	"github.com/postrider/postrider/internal/tasks/ledger"
	"github.com/postrider/postrider/internal/tasks/postgres"
)

func (c *commands) task() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "task",
		Short: "Look at tasks and their steps, and mend tasks that are stuck",
		Args:  cobra.ArbitraryArgs,
		RunE:  c.group,
	}
	cmd.AddCommand(c.taskCreate(), c.taskList(), c.taskShow(), c.taskSteps(), c.taskTransitions(), c.taskTransition(), c.taskStep(),
		c.taskRetry(), c.taskUnflag(), c.taskDLQ(), c.taskCancel(), c.taskHeartbeat(), c.taskDetectStale(), c.taskDetector())
	return cmd
}

// withLedger runs do on the ledger of the database.
func (c *commands) withLedger(ctx context.Context, do func(postgres.Ledger) error) error {
	return c.withPool(ctx, func(pool *pgxpool.Pool) error {
		return noTask(do(postgres.On(pool)))
	})
}

// withTasks runs do at the desk, in the name of the caller: each change of a task is in the audit log.
func (c *commands) withTasks(ctx context.Context, at acting, do func(ctx context.Context, tasks *actions.Tasks, actor string) error) error {
	return c.withServices(ctx, at, grant("postrider_operator"), func(ctx context.Context, d *app.Services, actor string) error {
		return noTask(do(ctx, d.Tasks, actor))
	})
}

// noTask says where to look when a task is not there.
func noTask(err error) error {
	if errors.Is(err, ledger.ErrNotFound) && !strings.Contains(err.Error(), "postrider ") {
		return fmt.Errorf("%w; postrider task list shows the tasks of the ledger, postrider archive list the archived ones", err)
	}
	return err
}

// taskID reads the uuid of a task.
func taskID(s string) (uuid.UUID, error) {
	return parseID(s, "a task", "postrider task list")
}

func (c *commands) taskList() *cobra.Command {
	var out output
	var f ledger.Filter
	var after, from, to string
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List tasks, the newest first",
		Long: `List tasks, the newest first. Tasks in the archived state of their machine are left out unless --state asks
for them.`,
		Args: exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := out.check(); err != nil {
				return err
			}
			switch {
			case f.Limit < 1 || f.Limit > ledger.MaxLimit:
				return usagef("--limit is %d; it must be from 1 to %d", f.Limit, ledger.MaxLimit)
			case f.Offset < 0:
				return usagef("--offset is %d; it must not be negative", f.Offset)
			case f.Offset > 0 && after != "":
				return usagef("give --after or --offset, not both")
			case f.NearStale && f.Flagged:
				return usagef("give --near-stale or --flagged, not both: a flagged task was found to be stale")
			}
			var err error
			if f.After, err = identity("after", "a task, the next of an earlier list", after); err != nil {
				return err
			}
			if f.From, err = api.ParseBound("--from", from, false); err == nil {
				f.To, err = api.ParseBound("--to", to, true)
			}
			if err != nil {
				return usagef("%w", err)
			}
			return c.withLedger(cmd.Context(), func(l postgres.Ledger) error {
				tasks, more, err := l.List(cmd.Context(), f)
				if errors.Is(err, ledger.ErrInvalid) {
					return &usageError{err}
				}
				if err != nil {
					return err
				}
				list := api.NewTaskList(tasks, more)
				return out.print(c.stdout, list, func(w io.Writer) error { return taskTable(w, list) })
			})
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&f.Namespace, "namespace", "", "only tasks of this `namespace`")
	flags.StringVar(&f.Name, "name", "", "only tasks of the template with this `name`")
	flags.StringVar(&f.Version, "template-version", "", "only tasks of this `version` of their template")
	flags.StringVar(&f.State, "state", "", "only tasks in this `state`")
	flags.BoolVar(&f.NearStale, "near-stale", false, "only live tasks past staleness.warn_percent of a threshold, the 1000 longest of each template and state; not with --flagged")
	flags.BoolVar(&f.Flagged, "flagged", false, "only live tasks that were found to be stale and left in place")
	flags.StringVar(&from, "from", "", "only tasks created from this `time` on: 2026-01-31 or 2026-01-31T08:00:00Z")
	flags.StringVar(&to, "to", "", "only tasks created up to this `time`")
	flags.IntVar(&f.Limit, "limit", ledger.DefaultLimit, fmt.Sprintf("how many, 1 to %d", ledger.MaxLimit))
	flags.IntVar(&f.Offset, "offset", 0, "how many of the newest to pass over")
	flags.StringVar(&after, "after", "", "go on with a list: the `next` of the one before")
	out.bind(cmd)
	return cmd
}

// templateOf names the template of a task.
func templateOf(t *ledger.Task) string { return t.Namespace + "/" + t.Name + "@" + t.Version }

func taskTable(w io.Writer, list api.List[ledger.Task]) error {
	if len(list.Items) == 0 {
		_, err := fmt.Fprintln(w, "There are no such tasks.")
		return err
	}
	rows := make([][]string, len(list.Items))
	for i := range list.Items {
		t := &list.Items[i]
		rows[i] = []string{t.UUID.String(), templateOf(t), t.State, moment(t.StateEnteredAt), strconv.Itoa(t.Priority), moment(t.CreatedAt), value(t.ErrorReason)}
	}
	if err := grid(w, []string{"ID", "TEMPLATE", "STATE", "SINCE", "PRIORITY", "CREATED", "ERROR"}, rows); err != nil {
		return err
	}
	return goOn(w, list.Next)
}

// goOn says below a table how the list goes on, if it does.
func goOn(w io.Writer, next *string) error {
	if next == nil {
		return nil
	}
	_, err := fmt.Fprintf(w, "There are more: --after %s\n", *next)
	return err
}

// value is what a pointer points to; the zero value for nil.
func value[T any](p *T) T {
	if p == nil {
		var zero T
		return zero
	}
	return *p
}

func (c *commands) taskShow() *cobra.Command {
	var out output
	cmd := &cobra.Command{
		Use:   "show ID",
		Short: "Show a task: its state, its steps, its history",
		Long: `Show a task: its state, its steps, the newest part of its history. A dead-lettered task that did not change
for 7 days is moved to the archived state of its machine by that, if it has one; a pending investigation of it
stays open. A task in the archive is shown in the same way. As JSON it is what GET /tasks/{id}/payload of the API
answers.`,
		Args: exactly("ID"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := out.check(); err != nil {
				return err
			}
			id, err := taskID(args[0])
			if err != nil {
				return err
			}
			return c.withServices(cmd.Context(), acting{}, grant("postrider_operator"), func(ctx context.Context, d *app.Services, _ string) error {
				if _, err := d.Tasks.Ledger().ArchiveOnRead(ctx, id); err != nil {
					return err
				}
				whole, err := d.Tasks.Whole(ctx, id)
				if errors.Is(err, ledger.ErrNotFound) {
					old, archiveErr := ledger.ReadArchived(ctx, d.Archive, id)
					if errors.Is(archiveErr, ledger.ErrNotArchived) {
						return fmt.Errorf("%w, nor is it in the archive; postrider task list shows the existing ones", err)
					}
					if archiveErr != nil {
						return archiveErr
					}
					return out.print(c.stdout, api.WholeTaskOf(old), func(w io.Writer) error { return showTask(w, old) })
				}
				if err != nil {
					return err
				}
				return out.print(c.stdout, api.WholeTaskOf(whole), func(w io.Writer) error { return showTask(w, whole) })
			})
		},
	}
	out.bind(cmd)
	return cmd
}

// stepsOf reads the steps of a task. None is an answer only for a task that is there.
func stepsOf(ctx context.Context, l postgres.Ledger, id uuid.UUID) ([]ledger.Step, error) {
	steps, err := l.Steps(ctx, id)
	if err == nil && len(steps) == 0 {
		_, err = l.Task(ctx, id)
	}
	return steps, err
}

func showTask(w io.Writer, whole ledger.WholeTask) error {
	v := &whole.Task
	flagged := ""
	if v.StaleFlaggedAt != nil {
		flagged = "since " + moment(*v.StaleFlaggedAt)
	}
	archived := ""
	if v.ArchivedAt != nil {
		archived = moment(*v.ArchivedAt) + " as " + string(value(v.FinalState))
	}
	retries := ""
	if v.RetryCount > 0 {
		retries = strconv.Itoa(v.RetryCount)
	}
	if err := fields(w,
		[2]string{"Task", v.UUID.String()},
		[2]string{"Template", templateOf(v)},
		[2]string{"State", fmt.Sprintf("%s (%s)", v.State, v.Kind)},
		[2]string{"Since", moment(v.StateEnteredAt)},
		[2]string{"Stay counts from", moment(value(v.StayFrom))},
		[2]string{"Lifetime counts from", moment(value(v.ResumedAt))},
		[2]string{"Stale", flagged},
		[2]string{"Error", value(v.ErrorReason)},
		[2]string{"Priority", strconv.Itoa(v.Priority)},
		[2]string{"Retried", retries},
		[2]string{"Idempotency key", value(v.IdempotencyKey)},
		[2]string{"Created", moment(v.CreatedAt)},
		[2]string{"Updated", moment(v.UpdatedAt)},
		[2]string{"Completed", moment(value(v.CompletedAt))},
		[2]string{"Archived", archived},
		[2]string{"Dead letters", strings.Join(v.DeadLetters, ", ")},
	); err != nil {
		return err
	}
	fmt.Fprintf(w, "\nContext:\n%s\n", indented(v.Context))
	if len(v.Metadata) > 0 && string(v.Metadata) != "{}" {
		fmt.Fprintf(w, "\nMetadata:\n%s\n", indented(v.Metadata))
	}
	if len(whole.Steps) > 0 {
		fmt.Fprintln(w, "\nSteps:")
		if err := stepTable(w, whole.Steps); err != nil {
			return err
		}
	}
	if len(whole.Undelivered) > 0 {
		fmt.Fprintln(w, "\nEvents that could not be delivered, and did not move the task at once:")
		if err := undeliveredTable(w, whole.Undelivered); err != nil {
			return err
		}
	}
	fmt.Fprintln(w, "\nTransitions, the newest first:")
	if err := transitionTable(w, whole.Transitions); err != nil || whole.TransitionsNext == nil {
		return err
	}
	_, err := fmt.Fprintf(w, "There are more: postrider task transitions %s --after %s\n", v.UUID, *whole.TransitionsNext)
	return err
}

func (c *commands) taskSteps() *cobra.Command {
	var out output
	cmd := &cobra.Command{
		Use:   "steps ID",
		Short: "List the steps of a task",
		Args:  exactly("ID"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := out.check(); err != nil {
				return err
			}
			id, err := taskID(args[0])
			if err != nil {
				return err
			}
			return c.withLedger(cmd.Context(), func(l postgres.Ledger) error {
				steps, err := stepsOf(cmd.Context(), l, id)
				if err != nil {
					return err
				}
				return out.print(c.stdout, api.All(api.StepOf, steps), func(w io.Writer) error {
					if len(steps) == 0 {
						fmt.Fprintln(w, "The task has no steps.")
						return nil
					}
					return stepTable(w, steps)
				})
			})
		},
	}
	out.bind(cmd)
	return cmd
}

func stepTable(w io.Writer, steps []ledger.Step) error {
	rows := make([][]string, len(steps))
	for i := range steps {
		s := &steps[i]
		next := ""
		if s.NextRetryAt != nil {
			next = "retry " + s.NextRetryAt.UTC().Format(time.RFC3339)
		}
		rows[i] = []string{s.Name, string(s.Status), moment(s.StateEnteredAt), fmt.Sprintf("%d/%d", s.RetryCount, s.MaxRetries), next,
			strings.Join(s.Dependencies, ", "), s.UUID.String(), value(s.LastError)}
	}
	return grid(w, []string{"STEP", "STATUS", "SINCE", "RETRIES", "NEXT", "AFTER", "ID", "ERROR"}, rows)
}

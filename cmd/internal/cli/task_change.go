package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"strings"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/postrider/postrider/cmd/internal/actions"
	"github.com/postrider/postrider/cmd/internal/api"
	"github.com/postrider/postrider/internal/tasks/ledger"
	"github.com/postrider/postrider/internal/tasks/postgres"
)

// document reads JSON that is given as itself, or as @FILE.
func document(flag, given string) (json.RawMessage, error) {
	text := []byte(given)
	if name, ok := strings.CutPrefix(given, "@"); ok {
		var err error
		if text, err = os.ReadFile(name); err != nil {
			return nil, usagef("--%s: %w", flag, err)
		}
	}
	if len(text) == 0 {
		return nil, nil
	}
	if err := json.Unmarshal(text, new(any)); err != nil {
		return nil, usagef("--%s is not JSON: %w; give it as text, or as @FILE", flag, err)
	}
	return text, nil
}

func (c *commands) taskCreate() *cobra.Command {
	var out output
	var n ledger.NewTask
	var at acting
	var input, steps, id string
	cmd := &cobra.Command{
		Use:   "create NAMESPACE/NAME[@VERSION]",
		Short: "Create a task of a template",
		Long: `Create a task of a template, the newest version unless one is named, and print its id. Its context must
fit the template's input_schema. With an idempotency key a second call prints the first task's id. As JSON it is
the task.`,
		Args: exactly("NAMESPACE/NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := out.check(); err != nil {
				return err
			}
			name, version, _ := strings.Cut(args[0], "@")
			var named bool
			if n.Namespace, n.Name, named = strings.Cut(name, "/"); !named || n.Namespace == "" || n.Name == "" {
				return usagef("%q is not NAMESPACE/NAME or NAMESPACE/NAME@VERSION of a template", shorten(args[0], 80))
			}
			n.Version = version
			if n.Priority != int(int32(n.Priority)) {
				return usagef("--priority is %d; it must be from %d to %d", n.Priority, math.MinInt32, math.MaxInt32)
			}
			var err error
			if n.Context, err = document("context", input); err != nil {
				return err
			}
			if n.Steps, err = document("steps", steps); err != nil {
				return err
			}
			if n.UUID, err = identity("id", "a task", id); err != nil {
				return err
			}
			return c.withTasks(cmd.Context(), at, func(ctx context.Context, tasks *actions.Tasks, actor string) error {
				n.Actor = actor
				created, err := tasks.Create(ctx, n)
				if errors.Is(err, ledger.ErrNotFound) {
					return fmt.Errorf("%w; postrider template list shows the existing ones", err)
				} else if err != nil {
					return err
				}
				var task ledger.Task
				if out.format != "table" { // for its id it need not be in the ledger any more
					if task, err = tasks.Ledger().Task(ctx, created); err != nil {
						return err
					}
				}
				return out.print(c.stdout, api.TaskOf(task), func(w io.Writer) error {
					_, err := fmt.Fprintln(w, created)
					return err
				})
			})
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&input, "context", "", "its input: `JSON`, or @FILE")
	flags.StringVar(&steps, "steps", "", "steps in place of the template's: a `JSON` list, or @FILE")
	flags.IntVar(&n.Priority, "priority", 0, "higher goes first")
	flags.StringVar(&n.IdempotencyKey, "idempotency-key", "", "create it only once under this `key`")
	flags.StringVar(&id, "id", "", "its `uuid`, instead of one that is drawn")
	c.actor(cmd, &at)
	out.bind(cmd)
	return cmd
}

func (c *commands) taskTransition() *cobra.Command {
	var at acting
	var reason string
	cmd := &cobra.Command{
		Use:   "transition ID FROM TO",
		Short: "Move a task from one state to another, if its machine allows it",
		Long: `Move a task from one state to another, if it is in the first and its machine allows it. Steps lead their
task by themselves: this is for machines without steps, and for what only a person can say, such as
resolved_manually.`,
		Args: exactly("ID", "FROM", "TO"),
		RunE: func(cmd *cobra.Command, args []string) error {
			id, err := taskID(args[0])
			if err != nil {
				return err
			}
			return c.withTasks(cmd.Context(), at, func(ctx context.Context, tasks *actions.Tasks, actor string) error {
				moved, err := tasks.Transition(ctx, id, args[1], args[2], actor, reason)
				if err != nil {
					return err
				}
				if !moved {
					return fmt.Errorf("task %s is not in %s (any more); postrider task show %[1]s says where it is", id, args[1])
				}
				fmt.Fprintf(c.stdout, "Task %s is in %s.\n", id, args[2])
				return nil
			})
		},
	}
	cmd.Flags().StringVar(&reason, "reason", "", "why, for the history")
	c.actor(cmd, &at)
	return cmd
}

func (c *commands) taskStep() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "step",
		Short: "Do something with a step by hand; its task follows",
		Args:  cobra.ArbitraryArgs,
		RunE:  c.group,
	}
	cmd.AddCommand(
		c.stepAction("retry", ledger.ActionRetry, "Give a step to a worker now, whatever it waits for"),
		c.stepAction("reset-retry-count", ledger.ActionResetRetryCount, "Give a step all its retries again; one that failed is pending again"),
		c.stepAction("cancel", ledger.ActionCancel, "Take a step out of the work"),
		c.stepAction("complete", ledger.ActionCompleteManually, "Say that a person did a step by hand"))
	return cmd
}

func (c *commands) stepAction(use string, action ledger.Action, short string) *cobra.Command {
	notes := map[ledger.Action]string{
		ledger.ActionRetry: `

In a failed task a step that a worker has in hand is taken from it: this repairs a task whose worker died. The
next worker that asks for work gets the step.`,
		ledger.ActionCancel: `

Its template says what becomes of the steps that depend on it (cancelled_steps): they are cancelled, too, unless it says
otherwise. When every step is done or cancelled the task ends.`,
	}
	a := ledger.StepAction{Action: action}
	var at acting
	var results string
	cmd := &cobra.Command{
		Use:   use + " ID STEP",
		Short: short,
		Long:  short + `. STEP is its name or its id.` + notes[action],
		Args:  exactly("ID", "STEP"),
		RunE: func(cmd *cobra.Command, args []string) error {
			id, err := taskID(args[0])
			if err != nil {
				return err
			}
			if a.Results, err = document("results", results); err != nil {
				return err
			}
			return c.withTasks(cmd.Context(), at, func(ctx context.Context, tasks *actions.Tasks, actor string) error {
				steps, err := stepsOf(ctx, tasks.Ledger(), id)
				if err != nil {
					return tasks.UnlessArchived(ctx, id, err)
				}
				step, err := findStep(id, steps, args[1])
				if err != nil {
					return err
				}
				a.Actor = actor
				status, err := tasks.ActOnStep(ctx, id, step.UUID, a)
				if err != nil {
					return err
				}
				task, err := tasks.Ledger().Task(ctx, id)
				if err != nil {
					return err
				}
				fmt.Fprintf(c.stdout, "Step %s is %s; the task is in %s.\n", visible(step.Name), status, task.State)
				return nil
			})
		},
	}
	cmd.Flags().StringVar(&a.Notes, "notes", "", "why, for the history")
	if action == ledger.ActionCompleteManually {
		cmd.Flags().StringVar(&results, "results", "", "what came out of it: `JSON`, or @FILE")
	}
	c.actor(cmd, &at)
	return cmd
}

// findStep finds a step of a task by its name, its id or the beginning of its id.
func findStep(task uuid.UUID, steps []ledger.Step, given string) (ledger.Step, error) {
	names := make([]string, len(steps))
	var begin []ledger.Step // the steps whose ids begin so
	for i, s := range steps {
		if short := strings.ToLower(given); beginning.MatchString(short) && strings.HasPrefix(s.UUID.String(), short) {
			begin = append(begin, s)
		}
		if s.Name == given || s.UUID.String() == strings.ToLower(given) {
			return s, nil
		}
		names[i] = s.Name
	}
	switch {
	case len(names) == 0:
		return ledger.Step{}, fmt.Errorf("task %s has no steps", task)
	case len(begin) == 1:
		return begin[0], nil
	case len(begin) > 1:
		return ledger.Step{}, usagef("%s is the beginning of several ids: %s and %s; give more of it", given, begin[0].UUID, begin[1].UUID)
	}
	return ledger.Step{}, fmt.Errorf("task %s has no step %q; it has %s", task, given, strings.Join(names, ", "))
}

func (c *commands) taskCancel() *cobra.Command {
	var at acting
	var notes string
	cmd := &cobra.Command{
		Use:   "cancel ID",
		Short: "Cancel a task and its steps that are not done",
		Args:  exactly("ID"),
		RunE: func(cmd *cobra.Command, args []string) error {
			id, err := taskID(args[0])
			if err != nil {
				return err
			}
			return c.withTasks(cmd.Context(), at, func(ctx context.Context, tasks *actions.Tasks, actor string) error {
				cancelled, err := tasks.Cancel(ctx, id, actor, notes)
				if err != nil {
					return err
				}
				if !cancelled {
					return fmt.Errorf("task %s had ended before; postrider task show %[1]s says how", id)
				}
				fmt.Fprintf(c.stdout, "Task %s is cancelled.\n", id)
				return nil
			})
		},
	}
	cmd.Flags().StringVar(&notes, "notes", "", "why, for the history")
	c.actor(cmd, &at)
	return cmd
}

func (c *commands) taskHeartbeat() *cobra.Command {
	return &cobra.Command{
		Use:   "heartbeat NAMESPACE WORKER",
		Short: "Say that a worker of a namespace is there",
		Long: `Say that a worker of a namespace is there, for workers that cannot call the database function
worker_heartbeat. While a namespace has workers and none was heard of, its stale tasks say
worker_unavailable.`,
		Args: exactly("NAMESPACE", "WORKER"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.withLedger(cmd.Context(), func(l postgres.Ledger) error {
				if err := l.Heartbeat(cmd.Context(), args[0], args[1]); err != nil {
					return err
				}
				fmt.Fprintf(c.stdout, "Worker %s of %s is there.\n", visible(args[1]), visible(args[0]))
				return nil
			})
		},
	}
}

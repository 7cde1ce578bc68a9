package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"

	"github.com/postrider/postrider/cmd/internal/api"
	"github.com/postrider/postrider/internal/tasks/ledger"
	"github.com/postrider/postrider/internal/tasks/postgres"
)

func (c *commands) taskTransitions() *cobra.Command {
	var out output
	var steps bool
	var p ledger.HistoryPage
	cmd := &cobra.Command{
		Use:   "transitions ID",
		Short: "List the history of a task, or of its steps, the newest first",
		Long:  `List the history of a task, or of its steps, the newest first. A task in the archive is looked up there.`,
		Args:  exactly("ID"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := out.check(); err != nil {
				return err
			}
			id, err := taskID(args[0])
			if err != nil {
				return err
			}
			if p.Limit < 1 || p.Limit > ledger.MaxLimit {
				return usagef("--limit is %d; it must be from 1 to %d", p.Limit, ledger.MaxLimit)
			}
			return c.withPool(cmd.Context(), func(pool *pgxpool.Pool) error {
				if steps {
					history, next, err := historyOf(cmd.Context(), pool, id, p, postgres.Ledger.StepTransitions, (*postgres.Archive).StepTransitions)
					if err != nil {
						return err
					}
					return printHistory(c, out, api.StepTransitionOf, history, next, stepTransitionTable)
				}
				history, next, err := historyOf(cmd.Context(), pool, id, p, postgres.Ledger.Transitions, (*postgres.Archive).Transitions)
				if err != nil {
					return err
				}
				return printHistory(c, out, api.TransitionOf, history, next, transitionTable)
			})
		},
	}
	cmd.Flags().BoolVar(&steps, "steps", false, "the history of its steps instead")
	cmd.Flags().IntVar(&p.Limit, "limit", ledger.HistoryLimit, fmt.Sprintf("how many, 1 to %d", ledger.MaxLimit))
	cmd.Flags().StringVar(&p.After, "after", "", "go on with a list: the `next` of the one before")
	out.bind(cmd)
	return cmd
}

// historyOf reads a page of a history in the ledger or, where the task is there, in the archive.
func historyOf[T any](ctx context.Context, pool *pgxpool.Pool, id uuid.UUID, p ledger.HistoryPage, live func(postgres.Ledger, context.Context, uuid.UUID, ledger.HistoryPage) ([]T, string, error),
	archived func(*postgres.Archive, context.Context, uuid.UUID, ledger.HistoryPage) ([]T, string, error)) (history []T, next string, err error) {
	l := postgres.On(pool)
	history, next, err = live(l, ctx, id, p)
	if err == nil && len(history) == 0 {
		_, err = l.Task(ctx, id)
	}
	if errors.Is(err, ledger.ErrNotFound) {
		var archiveErr error
		if history, next, archiveErr = archived(postgres.NewArchive(pool), ctx, id, p); !errors.Is(archiveErr, ledger.ErrNotArchived) {
			return history, next, archiveErr
		}
	}
	if errors.Is(err, ledger.ErrInvalid) {
		err = &usageError{err}
	}
	return history, next, noTask(err)
}

// printHistory prints a page of a history, and how it goes on.
func printHistory[T any](c *commands, out output, show func(T) T, history []T, next string, table func(io.Writer, []T) error) error {
	list := api.All(show, history)
	list.Next = api.OrNull(next)
	return out.print(c.stdout, list, func(w io.Writer) error {
		if err := table(w, history); err != nil {
			return err
		}
		return goOn(w, list.Next)
	})
}

// why is what the metadata of a transition say about it.
func why(metadata json.RawMessage) (actor, reason string) {
	var m struct{ Actor, Worker, Reason string }
	// The metadata is written freely by the mover of the task; values that are no text are not shown.
	_ = json.Unmarshal(metadata, &m)
	if m.Actor == "" {
		m.Actor = m.Worker
	}
	return m.Actor, m.Reason
}

func transitionTable(w io.Writer, history []ledger.Transition) error {
	rows := make([][]string, len(history))
	for i, h := range history {
		actor, reason := why(h.Metadata)
		rows[i] = []string{strconv.Itoa(h.SortKey), moment(h.CreatedAt), value(h.FromState), h.ToState, actor, reason}
	}
	return grid(w, []string{"NO", "AT", "FROM", "TO", "BY", "WHY"}, rows)
}

func stepTransitionTable(w io.Writer, history []ledger.StepTransition) error {
	rows := make([][]string, len(history))
	for i, h := range history {
		actor, reason := why(h.Metadata)
		rows[i] = []string{moment(h.CreatedAt), h.StepName, value(h.FromStatus), h.ToStatus, actor, reason}
	}
	return grid(w, []string{"AT", "STEP", "FROM", "TO", "BY", "WHY"}, rows)
}

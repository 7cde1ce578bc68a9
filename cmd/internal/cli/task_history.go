package cli

import (
	"encoding/json"
	"io"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/postrider/postrider/cmd/internal/api"
	"github.com/postrider/postrider/internal/tasks/ledger"
	"github.com/postrider/postrider/internal/tasks/postgres"
)

func (c *commands) taskTransitions() *cobra.Command {
	var out output
	var steps bool
	cmd := &cobra.Command{
		Use:   "transitions ID",
		Short: "List the history of a task, or of its steps",
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
				if _, err := l.Task(cmd.Context(), id); err != nil {
					return err
				}
				if steps {
					history, err := l.StepTransitions(cmd.Context(), id)
					if err != nil {
						return err
					}
					return out.print(c.stdout, api.All(api.StepTransitionOf, history), func(w io.Writer) error { return stepTransitionTable(w, history) })
				}
				history, err := l.Transitions(cmd.Context(), id)
				if err != nil {
					return err
				}
				return out.print(c.stdout, api.All(api.TransitionOf, history), func(w io.Writer) error { return transitionTable(w, history) })
			})
		},
	}
	cmd.Flags().BoolVar(&steps, "steps", false, "the history of its steps instead")
	out.bind(cmd)
	return cmd
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

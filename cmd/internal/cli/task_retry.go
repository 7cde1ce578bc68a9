package cli

import (
	"context"
	"fmt"
	"io"
	"slices"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/postrider/postrider/cmd/internal/api"
	"github.com/postrider/postrider/cmd/internal/app"
	"github.com/postrider/postrider/cmd/internal/plural"
	"github.com/postrider/postrider/internal/dlq"
)

// retryPortion is how many tasks of a group or a filter are looked up at once.
const retryPortion = 500

// retryScope are the flags that select the tasks of a retry, where no ids do.
type retryScope struct {
	api.TaskFilter
	group string
}

func (s *retryScope) bind(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&s.group, "group", "", "the tasks behind the pending investigations of this `group`: what they are about, or what their events belong to")
	flags.StringVar(&s.Namespace, "namespace", "", "the failed tasks of this `namespace`")
	flags.StringVar(&s.Name, "name", "", "the failed tasks of the template with this `name`")
	flags.StringVar(&s.Version, "template-version", "", "the failed tasks of this `version` of their template")
	flags.StringVar(&s.Status, "state", "", "the failed tasks in this `state`")
	flags.StringVar(&s.From, "from", "", "the failed tasks created from this `time` on: 2026-01-31 or 2026-01-31T08:00:00Z")
	flags.StringVar(&s.To, "to", "", "the failed tasks created up to this `time`")
}

// portions finds tasks behind a place, and the next place; empty is the beginning, and the end.
type portions func(ctx context.Context, d *app.Services, after string) (ids []uuid.UUID, next string, err error)

// read says how the tasks are found. Exactly one of ids, the group and the filter names them.
func (s *retryScope) read(ids []uuid.UUID) (portions, error) {
	if filtered := s.TaskFilter != (api.TaskFilter{}); !api.ExactlyOne(len(ids) > 0, s.group != "", filtered) {
		return nil, usagef("name the tasks in one way: by their ids, by --group, or by filters such as --namespace and --state")
	}
	group, err := identity("group", "a group", s.group)
	if err != nil {
		return nil, err
	}
	f, err := s.Parse()
	if err != nil {
		return nil, usagef("--%w", err)
	}
	return func(ctx context.Context, d *app.Services, after string) ([]uuid.UUID, string, error) {
		switch {
		case len(ids) > 0:
			return ids, "", nil
		case s.group != "":
			page, err := d.Investigations.GroupTasks(ctx, dlq.GroupTasks{Group: group, After: after, Limit: retryPortion})
			return page.Tasks, page.Next, err
		}
		f.Limit = retryPortion
		found, more, err := d.Tasks.Ledger().Retryable(ctx, f)
		if !more {
			return found, "", err
		}
		f.After = found[len(found)-1]
		return found, f.After.String(), err
	}, nil
}

// retryAll retries portion after portion. What was done before an error is returned with it.
func retryAll(ctx context.Context, d *app.Services, actor string, dry bool, portion portions) (api.RetriedTasks, error) {
	var view api.RetriedTasks
	seen := map[uuid.UUID]bool{} // a task may have investigations in several portions
	for after := ""; ; {
		ids, next, err := portion(ctx, d, after)
		if err != nil {
			view.Incomplete = true
			return view, err
		}
		ids = slices.DeleteFunc(ids, func(id uuid.UUID) bool {
			was := seen[id]
			seen[id] = true
			return was
		})
		done, err := d.Tasks.RetryMany(ctx, ids, actor, dry)
		view = view.Add(api.NewRetriedTasks(done, dry, err != nil, ""))
		if err != nil || next == "" {
			return view, err
		}
		after = next
	}
}

func retriedTable(w io.Writer, v api.RetriedTasks) error {
	what := "back at the beginning"
	if v.DryRun {
		what = "to be put back to the beginning; this was a dry run, and nothing was changed"
	}
	if len(v.Retried)+len(v.Skipped) == 0 {
		_, err := fmt.Fprintln(w, "There is no such task to retry.")
		return err
	}
	fmt.Fprintf(w, "%s %s.\n", plural.Of(len(v.Retried), "task is", "tasks are"), what)
	if n := len(v.ClosedInvestigations); n > 0 {
		fmt.Fprintf(w, "%s closed: the retry does the work again.\n", plural.Of(n, "investigation is", "investigations are"))
	}
	for _, entry := range v.InvestigationsUnderWay {
		fmt.Fprintf(w, "Investigation %s stays pending: its event is being sent again, so the work may start twice.\n", entry)
	}
	if len(v.Skipped) == 0 {
		return nil
	}
	fmt.Fprintf(w, "%s skipped:\n", plural.Of(len(v.Skipped), "task was", "tasks were"))
	rows := make([][]string, len(v.Skipped))
	for i, s := range v.Skipped {
		rows[i] = []string{s.TaskUUID.String(), string(s.Reason), s.Explanation}
	}
	return wideGrid(w, []string{"SKIPPED", "REASON", ""}, rows)
}

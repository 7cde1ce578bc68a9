package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/postrider/postrider/cmd/internal/actions"
	"github.com/postrider/postrider/cmd/internal/api"
	"github.com/postrider/postrider/internal/tasks/ledger"
	"github.com/postrider/postrider/internal/tasks/task"
)

func (c *commands) templateNamespace() *cobra.Command {
	var out output
	var at acting
	var lifecycle, description string
	cmd := &cobra.Command{
		Use:   "namespace [NAME]",
		Short: "Show namespaces, or say what holds for all templates of one",
		Long: `Show namespaces, or say what holds for all templates of one. The file of --lifecycle has the keys that a
template has under lifecycle; a template's own go before them, the settings after. It takes the place of
what the namespace had.`,
		Args: takes("[NAME]"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := out.check(); err != nil {
				return err
			}
			name := strings.Join(args, "")
			changes := lifecycle != "" || description != ""
			if changes && name == "" {
				return usagef("name the namespace that is to change")
			}
			var holds *task.Lifecycle
			if lifecycle != "" {
				raw, err := os.ReadFile(lifecycle)
				if err != nil {
					return usagef("%w", err)
				}
				if holds, err = task.ParseLifecycle(lifecycle, raw); err != nil {
					return err
				}
			}
			return c.withTasks(cmd.Context(), at, func(ctx context.Context, tasks *actions.Tasks, actor string) error {
				if changes {
					if err := tasks.ApplyNamespace(ctx, actor, name, holds, description); err != nil {
						return err
					}
				}
				all, err := tasks.Ledger().Namespaces(ctx, name)
				if err != nil {
					return err
				}
				if name != "" && len(all) == 0 {
					return fmt.Errorf("there is no namespace %s; postrider template namespace shows what there is", visible(shorten(name, 130)))
				}
				return out.print(c.stdout, api.All(api.NamespaceOf, all), func(w io.Writer) error { return namespaceTable(w, all) })
			})
		},
	}
	cmd.Flags().StringVar(&lifecycle, "lifecycle", "", "`file` with the thresholds of all its templates")
	cmd.Flags().StringVar(&description, "description", "", "what it is, for people")
	c.actor(cmd, &at)
	out.bind(cmd)
	return cmd
}

func namespaceTable(w io.Writer, all []ledger.Namespace) error {
	if len(all) == 0 {
		_, err := fmt.Fprintln(w, "There are no namespaces; the first template of one makes it.")
		return err
	}
	rows := make([][]string, len(all))
	for i, n := range all {
		var l task.Lifecycle
		limits := ""
		if err := json.Unmarshal(n.Lifecycle, &l); err == nil {
			limits = l.String()
		}
		rows[i] = []string{n.Name, moment(n.UpdatedAt), limits, value(n.Description)}
	}
	return wideGrid(w, []string{"NAMESPACE", "UPDATED", "LIFECYCLE", "DESCRIPTION"}, rows)
}

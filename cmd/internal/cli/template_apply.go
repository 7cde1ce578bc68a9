package cli

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/postrider/postrider/cmd/internal/actions"
	"github.com/postrider/postrider/cmd/internal/api"
	"github.com/postrider/postrider/internal/tasks/ledger"
	"github.com/postrider/postrider/internal/tasks/task"
)

func (c *commands) templateApply() *cobra.Command {
	var out output
	var at acting
	var shipped bool
	var environment string
	cmd := &cobra.Command{
		Use:   "apply FILE|DIRECTORY…",
		Short: "Put templates into the database, all or none",
		Long: `Put templates into the database, all of them or none. Applying the same again changes nothing. A changed
lifecycle holds for the tasks that are there, too; changed steps hold for new ones. The states of a version
that has tasks cannot change: raise the version.`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := out.check(); err != nil {
				return err
			}
			all, err := templatesToApply(args, shipped, environment)
			if err != nil {
				return err
			}
			return c.withTasks(cmd.Context(), at, func(ctx context.Context, tasks *actions.Tasks, actor string) error {
				applied, err := tasks.ApplyTemplates(ctx, actor, all...)
				if err != nil {
					return fmt.Errorf("nothing was applied: %w", err)
				}
				return out.print(c.stdout, api.ListOf(applied, ""), func(w io.Writer) error {
					for _, v := range applied {
						fmt.Fprintf(w, "Template %s is %s.\n", v.Template, outcomeText(v.Outcome))
					}
					return nil
				})
			})
		},
	}
	cmd.Flags().BoolVar(&shipped, "shipped", false, "apply the templates that come with Postrider")
	cmd.Flags().StringVar(&environment, "environment", "", "apply them as they are in this `environment`")
	c.actor(cmd, &at)
	out.bind(cmd)
	return cmd
}

func templatesToApply(paths []string, shipped bool, environment string) ([]*task.Template, error) {
	var all []*task.Template
	switch {
	case shipped && len(paths) > 0:
		return nil, usagef("give files or --shipped, not both")
	case shipped:
		var err error
		if all, err = task.Shipped(); err != nil {
			return nil, err
		}
	case len(paths) == 0:
		return nil, usagef("name the files of templates, or give --shipped")
	default:
		files, err := templateFiles(paths)
		if err != nil {
			return nil, err
		}
		if err := allValid(files); err != nil {
			return nil, fmt.Errorf("nothing was applied:\n%w", err)
		}
		for _, f := range files {
			all = append(all, f.template)
		}
	}
	return all, inEnvironment(all, environment)
}

func outcomeText(a ledger.Applied) string {
	switch a {
	case ledger.AppliedNew:
		return "there now"
	case ledger.AppliedChanged:
		return "changed"
	}
	return "there already, as it is"
}

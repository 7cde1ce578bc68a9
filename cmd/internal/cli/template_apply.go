package cli

import (
	"fmt"
	"io"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"

	"github.com/postrider/postrider/relay/ledger"
	"github.com/postrider/postrider/relay/ledger/postgres"
	"github.com/postrider/postrider/relay/task"
)

// appliedTemplate is a template in the JSON of template apply.
type appliedTemplate struct {
	UUID     string         `json:"named_task_uuid"`
	Template string         `json:"template"`
	Outcome  ledger.Applied `json:"outcome"`
}

func (c *commands) templateApply() *cobra.Command {
	var out output
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
			return c.withPool(cmd.Context(), func(pool *pgxpool.Pool) error {
				var views []appliedTemplate
				err := pgx.BeginFunc(cmd.Context(), pool, func(tx pgx.Tx) error {
					for _, t := range all {
						id, outcome, err := postgres.On(tx).ApplyTemplate(cmd.Context(), t)
						if err != nil {
							return err
						}
						views = append(views, appliedTemplate{id.String(), t.String(), outcome})
					}
					return nil
				})
				if err != nil {
					return fmt.Errorf("nothing was applied: %w", err)
				}
				return out.print(c.stdout, views, func(w io.Writer) error {
					for _, v := range views {
						fmt.Fprintf(w, "Template %s is %s.\n", v.Template, outcomeText(v.Outcome))
					}
					return nil
				})
			})
		},
	}
	cmd.Flags().BoolVar(&shipped, "shipped", false, "apply the templates that come with Postrider")
	cmd.Flags().StringVar(&environment, "environment", "", "apply them as they are in this `environment`")
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

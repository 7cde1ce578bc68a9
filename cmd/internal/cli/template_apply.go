package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

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

// validatedView is a file in the JSON of template validate.
type validatedView struct {
	File     string         `json:"file"`
	Template string         `json:"template,omitempty"`
	Problems []task.Problem `json:"problems"`
}

func (c *commands) templateValidate() *cobra.Command {
	var out output
	cmd := &cobra.Command{
		Use:   "validate FILE|DIRECTORY…",
		Short: "Check templates without a database",
		Long:  `Check templates without a database. Everything that is wrong is told, with its line and what to do.`,
		Args:  cobra.ArbitraryArgs,
		RunE: func(_ *cobra.Command, args []string) error {
			if err := out.check(); err != nil {
				return err
			}
			if len(args) == 0 {
				return usagef("name the files of templates")
			}
			files, err := templateFiles(args)
			if err != nil {
				return err
			}
			views := make([]validatedView, len(files))
			for i, f := range files {
				views[i] = viewValidated(f)
			}
			wrong := allValid(files)
			if wrong == nil || out.format == "json" {
				err = out.print(c.stdout, views, func(w io.Writer) error {
					for _, f := range files {
						fmt.Fprintf(w, "%s: template %s is valid.\n", visible(f.name), f.template)
					}
					return nil
				})
			}
			return errors.Join(err, wrong)
		},
	}
	out.bind(cmd)
	return cmd
}

func viewValidated(f templateFile) validatedView {
	v := validatedView{File: f.name, Problems: []task.Problem{}}
	if f.template != nil {
		v.Template = f.template.String()
	}
	var invalid *task.InvalidError
	switch {
	case errors.As(f.err, &invalid):
		v.Problems = invalid.Problems
	case f.err != nil:
		v.Problems = []task.Problem{{Line: 1, Text: f.err.Error()}}
	}
	return v
}

func (c *commands) templateNamespace() *cobra.Command {
	var out output
	var lifecycle, description string
	cmd := &cobra.Command{
		Use:   "namespace [NAME]",
		Short: "Show namespaces, or say what holds for all templates of one",
		Long: `Show namespaces, or say what holds for all templates of one. The file of --lifecycle has the keys that a
template has under lifecycle; a template's own go before them, the settings after. It takes the place of
what the namespace had.`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 1 {
				return fmt.Errorf("%s takes one NAME at most, but was given %d arguments", cmd.CommandPath(), len(args))
			}
			return nil
		},
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
			return c.withPool(cmd.Context(), func(pool *pgxpool.Pool) error {
				l := postgres.On(pool)
				if changes {
					if _, err := l.ApplyNamespace(cmd.Context(), name, holds, description); err != nil {
						return err
					}
				}
				all, err := l.Namespaces(cmd.Context(), name)
				if err != nil {
					return err
				}
				if name != "" && len(all) == 0 {
					return fmt.Errorf("there is no namespace %s; postrider template namespace shows what there is", visible(shorten(name, 130)))
				}
				if all == nil {
					all = []ledger.Namespace{}
				}
				return out.print(c.stdout, all, func(w io.Writer) error { return namespaceTable(w, all) })
			})
		},
	}
	cmd.Flags().StringVar(&lifecycle, "lifecycle", "", "`file` with the thresholds of all its templates")
	cmd.Flags().StringVar(&description, "description", "", "what it is, for people")
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
		description := ""
		if n.Description != nil {
			description = *n.Description
		}
		rows[i] = []string{n.Name, moment(n.UpdatedAt), limits, description}
	}
	return wideGrid(w, []string{"NAMESPACE", "UPDATED", "LIFECYCLE", "DESCRIPTION"}, rows)
}

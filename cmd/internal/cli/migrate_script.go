package cli

import (
	"cmp"
	"fmt"
	"io"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/spf13/cobra"

	"github.com/postrider/postrider/internal/migrations"
)

// The commands that print SQL, for operators who review it or run it themselves.

func (c *commands) migrateSQL() *cobra.Command {
	var pending, tool bool
	var only parts
	cmd := &cobra.Command{
		Use:   "sql",
		Short: "Print what migrating would run, as a script for psql or another migration tool",
		Long: `Prints what migrating an empty database would run, without asking any; with --pending what
postrider migrate up would run in the database as it is. The script is for psql; with --tool for what
runs a script in a transaction of its own (Flyway, Liquibase, psql --single-transaction). A database
that ran it counts as migrated: postrider migrate up finds nothing to do there.`,
		Args: exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			form := migrations.ForPsql
			if tool {
				form = migrations.ForTool
			}
			if pending {
				return c.withRunner(cmd, only, func(r *migrations.Runner) error {
					script, err := r.PendingSQL(cmd.Context(), form)
					if err != nil {
						return err
					}
					_, err = io.WriteString(c.stdout, script)
					return err
				})
			}
			all, err := migrations.All()
			if err != nil {
				return err
			}
			named, err := only.named(cmd)
			if err != nil {
				return err
			}
			_, err = io.WriteString(c.stdout, migrations.New(nil, all, migrations.WithOnly(named...)).SQL(form))
			return err
		},
	}
	only.bind(cmd)
	cmd.Flags().BoolVar(&tool, "tool", false, "write no begin and commit: a migration tool runs the script in one transaction")
	cmd.Flags().BoolVar(&pending, "pending", false, "ask the database what it lacks, and print that")
	return cmd
}

func (c *commands) migrateRoles() *cobra.Command {
	var apply bool
	var only parts
	cmd := &cobra.Command{
		Use:   "roles",
		Short: "Print, or run, the script that creates roles with the least rights",
		Long: `Prints a script for psql that creates the roles postrider_writer, postrider_relay and
postrider_operator and sets their rights. Run it after every migration, as the schema's owner; running
it again changes nothing. It gives rights in the parts of the schema that --only names, all without it.
With --apply these are the parts that the database has.`,
		Args: exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			named, err := only.named(cmd)
			if err != nil {
				return err
			}
			if !apply {
				if named == nil {
					named = migrations.Parts()
				}
				_, err := io.WriteString(c.stdout, migrations.RolesScript(named))
				return err
			}
			return c.withDatabase(cmd.Context(), func(conn *pgx.Conn) error {
				if have, err := migrations.New(conn, nil).Parts(cmd.Context()); err != nil {
					return err
				} else if named != nil && !slices.Equal(named, have) {
					return fmt.Errorf("the database was installed with %s, and --only names %s: leave --only out, or migrate first", cmp.Or(migrations.JoinParts(have), "nothing"), migrations.JoinParts(named))
				}
				if err := migrations.ApplyRoles(cmd.Context(), conn); err != nil {
					return fmt.Errorf("%w; it needs a migrated database (postrider migrate up) and a role that owns the schema and may create roles", err)
				}
				_, err := fmt.Fprintln(c.stdout, "the roles postrider_writer, postrider_relay and postrider_operator have their rights")
				return err
			})
		},
	}
	only.bind(cmd)
	cmd.Flags().BoolVar(&apply, "apply", false, "run it in the database instead of printing it")
	return cmd
}

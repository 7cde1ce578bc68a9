package cli

import (
	"fmt"
	"io"

	"github.com/jackc/pgx/v5"
	"github.com/spf13/cobra"

	"github.com/postrider/postrider/internal/migrations"
)

// The commands that print SQL, for operators who review it or run it themselves.

func (c *commands) migrateSQL() *cobra.Command {
	var pending bool
	cmd := &cobra.Command{
		Use:   "sql",
		Short: "Print what migrating would run, as a script for psql",
		Long: `Prints what migrating an empty database would run, without asking any; with --pending what
postrider migrate up would run in the database as it is.`,
		Args: exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if pending {
				return c.withRunner(cmd.Context(), func(r *migrations.Runner) error {
					script, err := r.PendingSQL(cmd.Context())
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
			_, err = io.WriteString(c.stdout, migrations.New(nil, all).SQL())
			return err
		},
	}
	cmd.Flags().BoolVar(&pending, "pending", false, "ask the database what it lacks, and print that")
	return cmd
}

func (c *commands) migrateRoles() *cobra.Command {
	var apply bool
	cmd := &cobra.Command{
		Use:   "roles",
		Short: "Print, or run, the script that creates roles with the least rights",
		Long: `Prints a script for psql that creates the roles postrider_writer, postrider_relay and
postrider_operator and sets their rights. Run it after every migration, as the schema's owner; running
it again changes nothing.`,
		Args: exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !apply {
				_, err := io.WriteString(c.stdout, migrations.RolesScript())
				return err
			}
			return c.withDatabase(cmd.Context(), func(conn *pgx.Conn) error {
				if err := migrations.ApplyRoles(cmd.Context(), conn); err != nil {
					return fmt.Errorf("%w; it needs a migrated database (postrider migrate up) and a role that owns the schema and may create roles", err)
				}
				_, err := fmt.Fprintln(c.stdout, "the roles postrider_writer, postrider_relay and postrider_operator have their rights")
				return err
			})
		},
	}
	cmd.Flags().BoolVar(&apply, "apply", false, "run it in the database instead of printing it")
	return cmd
}

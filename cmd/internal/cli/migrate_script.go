package cli

import (
	"fmt"
	"io"

	"github.com/jackc/pgx/v5"
	"github.com/spf13/cobra"

	"github.com/postrider/postrider/migrations"
)

// The commands that print SQL, for those who review or run it themselves.

func (c *commands) migrateSQL() *cobra.Command {
	var from, to int
	cmd := &cobra.Command{
		Use:   "sql",
		Short: "Print what migrating would run, as a script for psql",
		Args:  exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			all, err := migrations.All()
			if err != nil {
				return err
			}
			if !cmd.Flags().Changed("to") {
				to = len(all)
			}
			script, err := migrations.New(nil, all).SQL(from, to)
			if err != nil {
				return &usageError{err}
			}
			_, err = io.WriteString(c.stdout, script)
			return err
		},
	}
	cmd.Flags().IntVar(&from, "from", 0, "the `version` that the database is at; 0 is empty")
	cmd.Flags().IntVar(&to, "to", 0, "the `version` to go to (default: the newest)")
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

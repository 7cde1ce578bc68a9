package cli

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/spf13/cobra"

	"github.com/postrider/postrider/migrations"
)

func (c *commands) migrate() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "migrate",
		Short: "Bring the database schema to a version, or look at it",
		Args:  cobra.ArbitraryArgs,
		RunE:  c.group,
	}
	cmd.AddCommand(c.migrateUp(), c.migrateDown(), c.migrateStatus(), c.migrateValidate(), c.migrateSQL(), c.migrateRoles())
	return cmd
}

// withRunner runs do with the migrations of this binary.
func (c *commands) withRunner(ctx context.Context, do func(*migrations.Runner) error) error {
	all, err := migrations.All()
	if err != nil {
		return err
	}
	return c.withDatabase(ctx, func(conn *pgx.Conn) error {
		return do(migrations.New(conn, all, migrations.WithWaiting(func(holder string) {
			fmt.Fprintf(c.stderr, "postrider: waiting for another migration to end: %s\n", visible(holder))
		})))
	})
}

// appliedView is a migration that was run just now.
type appliedView struct {
	Version   int     `json:"version"`
	Name      string  `json:"name"`
	Direction string  `json:"direction"`
	Seconds   float64 `json:"seconds"`
}

// printApplied says what was run, also when a later migration failed.
func (c *commands) printApplied(out output, applied []migrations.Applied, failure error) error {
	views := make([]appliedView, len(applied))
	for i, a := range applied {
		views[i] = appliedView{a.Version, a.Name, string(a.Direction), a.Duration.Seconds()}
	}
	if err := out.print(c.stdout, views, func(w io.Writer) error {
		for _, a := range applied {
			fmt.Fprintf(w, "%-4s  %04d_%s  %v\n", a.Direction, a.Version, a.Name, a.Duration.Round(time.Millisecond))
		}
		if len(applied) == 0 && failure == nil {
			fmt.Fprintln(w, "nothing to do: the schema is at that version already")
		}
		return nil
	}); err != nil {
		return err
	}
	return failure
}

func (c *commands) migrateUp() *cobra.Command {
	var out output
	to := -1
	cmd := &cobra.Command{
		Use:   "up",
		Short: "Apply the migrations that the database lacks",
		Args:  exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := out.check(); err != nil {
				return err
			}
			return c.withRunner(cmd.Context(), func(r *migrations.Runner) error {
				if !cmd.Flags().Changed("to") {
					applied, err := r.Up(cmd.Context())
					return c.printApplied(out, applied, err)
				}
				if err := direction(cmd.Context(), r, to, migrations.Up); err != nil {
					return err
				}
				applied, err := r.To(cmd.Context(), to)
				return c.printApplied(out, applied, err)
			})
		},
	}
	cmd.Flags().IntVar(&to, "to", -1, "stop at this `version` (default: the newest)")
	out.bind(cmd)
	return cmd
}

func (c *commands) migrateDown() *cobra.Command {
	var out output
	var steps, to int
	cmd := &cobra.Command{
		Use:   "down",
		Short: "Take migrations back, and with them the tables and all that is in them",
		Long: `Takes migrations back. Tables go with everything in them, events that wait for Kafka included.
Because of that it must be told how far: --steps or --to.`,
		Args: exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := out.check(); err != nil {
				return err
			}
			bySteps, byVersion := cmd.Flags().Changed("steps"), cmd.Flags().Changed("to")
			if bySteps == byVersion {
				return usagef("say how far to go down, with either --steps or --to; the tables of the migrations taken back go with all that is in them")
			}
			if bySteps && steps < 1 {
				return usagef("--steps is %d; it must be 1 or more", steps)
			}
			return c.withRunner(cmd.Context(), func(r *migrations.Runner) error {
				if bySteps {
					applied, err := r.Down(cmd.Context(), steps)
					return c.printApplied(out, applied, err)
				}
				if err := direction(cmd.Context(), r, to, migrations.Down); err != nil {
					return err
				}
				applied, err := r.To(cmd.Context(), to)
				return c.printApplied(out, applied, err)
			})
		},
	}
	cmd.Flags().IntVar(&steps, "steps", 0, "how many `migrations` to take back")
	cmd.Flags().IntVar(&to, "to", 0, "go down to this `version`; 0 is the empty database")
	out.bind(cmd)
	return cmd
}

// direction refuses a target that lies the other way: `up` never removes a table.
func direction(ctx context.Context, r *migrations.Runner, to int, d migrations.Direction) error {
	rows, err := r.Status(ctx)
	if err != nil {
		return err
	}
	current := 0
	for _, row := range rows {
		if row.State != migrations.StatePending {
			current = row.Version
		}
	}
	if d == migrations.Up && to < current || d == migrations.Down && to > current {
		return usagef("the database is at version %d, so version %d is not %s", current, to, d)
	}
	return nil
}

// statusView is one migration in the status.
type statusView struct {
	Version   int        `json:"version"`
	Name      string     `json:"name"`
	State     string     `json:"state"`
	AppliedAt *time.Time `json:"applied_at"`
}

func (c *commands) migrateStatus() *cobra.Command {
	var out output
	cmd := &cobra.Command{
		Use:   "status",
		Short: "List migrations and whether the database has them",
		Args:  exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := out.check(); err != nil {
				return err
			}
			return c.withRunner(cmd.Context(), func(r *migrations.Runner) error {
				rows, err := r.Status(cmd.Context())
				if err != nil {
					return err
				}
				views, cells := make([]statusView, len(rows)), make([][]string, len(rows))
				for i, row := range rows {
					views[i] = statusView{Version: row.Version, Name: row.Name, State: string(row.State)}
					if !row.AppliedAt.IsZero() {
						views[i].AppliedAt = &rows[i].AppliedAt
					}
					cells[i] = []string{strconv.Itoa(row.Version), row.Name, string(row.State), moment(row.AppliedAt)}
				}
				return out.print(c.stdout, views, func(w io.Writer) error {
					return grid(w, []string{"VERSION", "NAME", "STATE", "APPLIED AT"}, cells)
				})
			})
		},
	}
	out.bind(cmd)
	return cmd
}

func (c *commands) migrateValidate() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "validate",
		Short: "Succeed if the database is exactly at this binary's version",
		Args:  exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return c.withRunner(cmd.Context(), func(r *migrations.Runner) error {
				if err := r.Validate(cmd.Context()); err != nil {
					return err
				}
				_, err := fmt.Fprintln(c.stdout, "the database is at the version of this binary")
				return err
			})
		},
	}
	return cmd
}

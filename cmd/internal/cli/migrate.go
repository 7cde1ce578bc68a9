package cli

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/spf13/cobra"

	"github.com/postrider/postrider/internal/migrations"
)

func (c *commands) migrate() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "migrate",
		Short: "Bring the database schema to this binary's version, or look at it",
		Long: `The schema has three parts: outbox, tasks and desk (investigations, keys of the API, sessions). An
empty database gets all of them. With --only outbox, or --only outbox,tasks, it gets these and nothing
of the others: what the database of a service needs, whose desk is in another database. The database
remembers its parts. Later commands keep to these, with or without --only; more are added by naming
them all. No part is ever taken away.`,
		Args: cobra.ArbitraryArgs,
		RunE: c.group,
	}
	cmd.AddCommand(c.migrateUp(), c.migrateStatus(), c.migrateValidate(), c.migrateSQL(), c.migrateRoles())
	return cmd
}

// parts is the flag --only.
type parts struct{ only string }

func (p *parts) bind(cmd *cobra.Command) {
	cmd.Flags().StringVar(&p.only, "only", "", "the `parts` of the schema: outbox, or outbox,tasks, or outbox,tasks,desk; without it the parts that the database has, and all in an empty one")
	_ = cmd.RegisterFlagCompletionFunc("only", cobra.FixedCompletions([]string{"outbox", "outbox,tasks", "outbox,tasks,desk"}, cobra.ShellCompDirectiveNoFileComp))
}

// named are the parts that the flag names; nil without it.
func (p *parts) named(cmd *cobra.Command) ([]migrations.Part, error) {
	if !cmd.Flags().Changed("only") {
		return nil, nil
	}
	named, err := migrations.ParseParts(p.only)
	if err != nil {
		return nil, usagef("--only: %w", err)
	}
	return named, nil
}

// withRunner runs do with the migrations of this binary, of the parts that were named.
func (c *commands) withRunner(cmd *cobra.Command, p parts, do func(*migrations.Runner) error) error {
	all, err := migrations.All()
	if err != nil {
		return err
	}
	named, err := p.named(cmd)
	if err != nil {
		return err
	}
	return c.withDatabase(cmd.Context(), func(conn *pgx.Conn) error { return do(c.runner(conn, all, named)) })
}

// sayLeftOut says which parts the database was installed without.
func (c *commands) sayLeftOut(ctx context.Context, r *migrations.Runner) error {
	have, err := r.Parts(ctx)
	if err != nil || len(have) == 0 || len(have) >= len(migrations.Parts()) {
		return err
	}
	_, err = fmt.Fprintf(c.stderr, "postrider: this database was installed with %s alone, and stays so; `postrider migrate up --only %s` adds the rest\n",
		migrations.JoinParts(have), migrations.JoinParts(migrations.Parts()))
	return err
}

// appliedView is a migration that was run just now, or the code of a room, which has no version.
type appliedView struct {
	Room    string  `json:"room"`
	Version int     `json:"version,omitempty"`
	Name    string  `json:"name"`
	Seconds float64 `json:"seconds"`
}

func viewApplied(applied []migrations.Applied) []appliedView {
	views := make([]appliedView, len(applied))
	for i, a := range applied {
		views[i] = appliedView{a.Room, a.Version, a.Name, a.Duration.Seconds()}
	}
	return views
}

// printApplied says what was run, also when a later migration failed.
func (c *commands) printApplied(out output, applied []migrations.Applied, failure error) error {
	if err := out.print(c.stdout, viewApplied(applied), func(w io.Writer) error {
		for _, a := range applied {
			name := a.Name
			if a.Version > 0 {
				name = fmt.Sprintf("%04d_%s", a.Version, a.Name)
			}
			fmt.Fprintf(w, "applied  %s/%s  %v\n", a.Room, name, a.Duration.Round(time.Millisecond))
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
	var only parts
	var every everySource
	var again bool
	cmd := &cobra.Command{
		Use:   "up",
		Short: "Apply the migrations that the database lacks, and the functions, views and triggers of this binary",
		Long: `Applies the migrations that the database of database.url lacks.

With --sources it does so for the database of every source in the settings, in the order of their names
and with the logins that stand there: give it a file with logins that may migrate. It stops at the
first that fails. With --canary NAME it begins with that source, and goes on if the relay of this binary
can carry it then. An empty database of a source gets the outbox alone, unless --only says more.`,
		Args: exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := out.check(); err != nil {
				return err
			}
			if every.all {
				return c.migrateSources(cmd, out, every, only, again)
			}
			if every.canary != "" {
				return usagef("--canary names the source to begin with; it needs --sources")
			}
			return c.withRunner(cmd, only, func(r *migrations.Runner) error {
				up := r.Up
				if again {
					up = r.UpAgain
				}
				applied, err := up(cmd.Context())
				if err := c.printApplied(out, applied, err); err != nil || cmd.Flags().Changed("only") {
					return err
				}
				return c.sayLeftOut(cmd.Context(), r)
			})
		},
	}
	only.bind(cmd)
	every.bind(cmd)
	cmd.Flags().BoolVar(&again, "code", false, "apply functions, views and triggers also where they are the same: takes back what was changed by hand")
	out.bind(cmd)
	return cmd
}

// statusView is one migration in the status, or the code of a room, which has no version.
type statusView struct {
	Room      string     `json:"room"`
	Version   int        `json:"version,omitempty"`
	Name      string     `json:"name"`
	State     string     `json:"state"`
	AppliedAt *time.Time `json:"applied_at"`
}

func (c *commands) migrateStatus() *cobra.Command {
	var out output
	var only parts
	cmd := &cobra.Command{
		Use:   "status",
		Short: "List migrations and whether the database has them",
		Args:  exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := out.check(); err != nil {
				return err
			}
			return c.withRunner(cmd, only, func(r *migrations.Runner) error {
				rows, err := r.Status(cmd.Context())
				if err != nil {
					return err
				}
				views, cells := make([]statusView, len(rows)), make([][]string, len(rows))
				for i, row := range rows {
					views[i] = statusView{Room: row.Room, Version: row.Version, Name: row.Name, State: string(row.State)}
					if !row.AppliedAt.IsZero() {
						views[i].AppliedAt = &rows[i].AppliedAt
					}
					version := ""
					if row.Version > 0 {
						version = strconv.Itoa(row.Version)
					}
					cells[i] = []string{row.Room, version, row.Name, string(row.State), moment(row.AppliedAt)}
				}
				return out.print(c.stdout, views, func(w io.Writer) error {
					return grid(w, []string{"ROOM", "VERSION", "NAME", "STATE", "APPLIED AT"}, cells)
				})
			})
		},
	}
	only.bind(cmd)
	out.bind(cmd)
	return cmd
}

func (c *commands) migrateValidate() *cobra.Command {
	var only parts
	cmd := &cobra.Command{
		Use:   "validate",
		Short: "Succeed if the database is exactly at this binary's version",
		Args:  exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return c.withRunner(cmd, only, func(r *migrations.Runner) error {
				if err := r.Validate(cmd.Context()); err != nil {
					return err
				}
				have, err := r.Parts(cmd.Context())
				if err != nil {
					return err
				}
				_, err = fmt.Fprintf(c.stdout, "the database is at the version of this binary; it has %s\n", migrations.JoinParts(have))
				return err
			})
		},
	}
	only.bind(cmd)
	return cmd
}

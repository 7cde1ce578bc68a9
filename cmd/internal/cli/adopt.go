package cli

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/spf13/cobra"

	"github.com/postrider/postrider/cmd/internal/adopt"
)

// columnFlags are the flags that say what the columns of another outbox are.
type columnFlags struct {
	preset                           string
	d                                adopt.Definition
	field, regex, replacement, place string
	headers                          []string
}

func (f *columnFlags) bind(cmd *cobra.Command, preset string) {
	flags := cmd.Flags()
	flags.StringVar(&f.preset, "preset", preset, "whose `outbox` the table is: "+strings.Join(adopt.Presets, ", ")+"; what other flags say comes instead of what it says")
	flags.StringVar(&f.d.ID, "id", "", "the `column` with the identity of an event")
	flags.StringVar(&f.d.IDHeader, "id-header", "", "the `header` that has the identity as text")
	flags.StringVar(&f.d.Topic, "topic", "", "the `topic` of all rows")
	flags.StringVar(&f.d.TopicSQL, "topic-sql", "", "the topic, as an `expression` of SQL over the row r")
	flags.StringVar(&f.field, "route-field", "", "the `column` that says the topic: route.by.field")
	flags.StringVar(&f.regex, "route-regex", "", "a regular `expression` over it: route.topic.regex")
	flags.StringVar(&f.replacement, "route-replacement", "", "what the topic is where it fits: route.topic.replacement")
	flags.StringVar(&f.d.Key, "key", "", "the `column` with the key")
	flags.StringVar(&f.d.KeySQL, "key-sql", "", "the key, as an `expression` of SQL over the row r")
	flags.StringVar(&f.d.Payload, "payload", "", "the `column` with the payload: a bytea as it is, anything else as text")
	flags.StringArrayVar(&f.headers, "header", nil, "`COLUMN:NAME`, a column that becomes a header; again for more")
	flags.StringVar(&f.d.HeadersJSON, "headers", "", "the `column` with an object of JSON whose members become headers")
	flags.StringVar(&f.place, "additional", "", "columns as table.fields.additional.placement has them: `COLUMN:PLACEMENT:NAME`,…")
	flags.StringVar(&f.d.Partition, "partition", "", "the integer `column` with the partition")
	flags.StringVar(&f.d.Timestamp, "timestamp", "", "the `column` with the time of the record")
	flags.StringVar(&f.d.Tracing, "tracing", "", "the `column` with the tracing context: tracing.span.context.field")
	flags.StringVar(&f.d.Where, "where", "", "which rows are forwarded, as a `condition` of SQL over the row r")
	_ = cmd.RegisterFlagCompletionFunc("preset", cobra.FixedCompletions(adopt.Presets, cobra.ShellCompDirectiveNoFileComp))
}

// given says whether any of the flags was given.
func (f *columnFlags) given(cmd *cobra.Command) bool {
	return slices.ContainsFunc(columnFlagNames, func(name string) bool { return cmd.Flags().Changed(name) })
}

var columnFlagNames = []string{"preset", "id", "id-header", "topic", "topic-sql", "route-field", "route-regex", "route-replacement", "key", "key-sql", "payload",
	"header", "headers", "additional", "partition", "timestamp", "tracing", "where"}

// definition puts what the flags say over what the preset says.
func (f *columnFlags) definition(cmd *cobra.Command, table string) (adopt.Definition, error) {
	base := table
	if i := strings.LastIndex(table, "."); i >= 0 {
		base = table[i+1:]
	}
	d, err := adopt.Preset(f.preset, strings.Trim(base, `"`))
	if err != nil {
		return d, usagef("--preset: %w", err)
	}
	given := func(name string) bool { return cmd.Flags().Changed(name) }
	for _, one := range []struct {
		name string
		to   *string
		from string
	}{{"id", &d.ID, f.d.ID}, {"id-header", &d.IDHeader, f.d.IDHeader}, {"payload", &d.Payload, f.d.Payload}, {"headers", &d.HeadersJSON, f.d.HeadersJSON},
		{"partition", &d.Partition, f.d.Partition}, {"timestamp", &d.Timestamp, f.d.Timestamp}, {"tracing", &d.Tracing, f.d.Tracing}, {"where", &d.Where, f.d.Where}} {
		if given(one.name) {
			*one.to = one.from
		}
	}
	if given("key") || given("key-sql") {
		d.Key, d.KeySQL = f.d.Key, f.d.KeySQL
	}
	if given("topic") || given("topic-sql") {
		d.Topic, d.TopicSQL, d.Route = f.d.Topic, f.d.TopicSQL, nil
	}
	if given("route-field") || given("route-regex") || given("route-replacement") {
		if d.Route == nil {
			standard, _ := adopt.Preset("debezium", "") // which is there
			d.Route = standard.Route
		}
		for _, one := range []struct {
			name string
			to   *string
			from string
		}{{"route-field", &d.Route.Field, f.field}, {"route-regex", &d.Route.Regex, f.regex}, {"route-replacement", &d.Route.Replacement, f.replacement}} {
			if given(one.name) {
				*one.to = one.from
			}
		}
	}
	for _, h := range f.headers {
		column, name, found := strings.Cut(h, ":")
		if !found || column == "" || name == "" {
			return d, usagef("--header %q is no COLUMN:NAME", h)
		}
		d.Headers = append(d.Headers, adopt.Header{Column: column, Name: name})
	}
	if f.place != "" {
		if err := d.Place(f.place); err != nil {
			return d, usagef("--additional: %w", err)
		}
	}
	return d, nil
}

// withAdopter runs do on the database, with what it says on standard output.
func (c *commands) withAdopter(cmd *cobra.Command, do func(*adopt.Adopter) error) error {
	return c.withDatabase(cmd.Context(), func(conn *pgx.Conn) error {
		return explain(do(&adopt.Adopter{Conn: conn, Say: func(format string, args ...any) {
			fmt.Fprintln(c.stdout, visible(fmt.Sprintf(format, args...)))
		}}), "connect as the role that owns the schema postrider and the table")
	})
}

func (c *commands) adopt() *cobra.Command {
	var columns columnFlags
	var run, dry, tool, remove, replace, view, table bool
	cmd := &cobra.Command{
		Use:   "adopt TABLE",
		Short: "Forward the rows of an outbox table that you have into the outbox, by a trigger",
		Long: `Makes a trigger that forwards the rows which are inserted into a table of yours into the outbox.
The writers stay as they are. Without --run it prints the SQL, and changes nothing; with --tool the SQL is
for what runs a script in a transaction of its own (Flyway, Liquibase). TABLE is written as in SQL.

A preset says what the columns of a known outbox are; the other flags say it for any table. Columns are
written without quotes, as they are. Rows that were there before are not forwarded. If Debezium sends the
rows of the table, postrider debezium shadow and cutover move it without a gap. --remove ends the forwarding.

With --as-view a view takes the place of a table that is forwarded, so that rows are written once; --as-table
puts the table back.`,
		Args: exactly("TABLE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case run && (dry || tool):
				return usagef("--run changes the database, and --dry-run and --tool print what it would do: leave one out")
			case remove && (view || table) || view && table || (remove || view || table) && (tool || replace || columns.given(cmd)):
				return usagef("--remove, --as-view and --as-table go with --run alone, each by itself")
			}
			for _, other := range []struct {
				meant bool
				do    func(*adopt.Adopter, context.Context, string) error
				show  func(*adopt.Adopter, context.Context, string) (string, error)
			}{{remove, (*adopt.Adopter).Remove, (*adopt.Adopter).ShowRemoval}, {view, (*adopt.Adopter).AsView, (*adopt.Adopter).ShowView}, {table, (*adopt.Adopter).AsTable, (*adopt.Adopter).ShowTable}} {
				if !other.meant {
					continue
				}
				return c.withAdopter(cmd, func(a *adopt.Adopter) error {
					if run {
						return other.do(a, cmd.Context(), args[0])
					}
					script, err := other.show(a, cmd.Context(), args[0])
					return c.script(script, err)
				})
			}
			d, err := columns.definition(cmd, args[0])
			if err != nil {
				return err
			}
			w := adopt.Wish{Definition: d, Mode: adopt.ModeForward, Replace: replace}
			return c.withAdopter(cmd, func(a *adopt.Adopter) error {
				if run {
					return a.Adopt(cmd.Context(), args[0], w)
				}
				script, err := a.Show(cmd.Context(), args[0], w, tool)
				return c.script(script, err)
			})
		},
	}
	columns.bind(cmd, "")
	cmd.Flags().BoolVar(&run, "run", false, "do it; without it the SQL is printed")
	cmd.Flags().BoolVar(&dry, "dry-run", false, "print the SQL, as without --run")
	cmd.Flags().BoolVar(&tool, "tool", false, "write no begin and commit: a migration tool runs the script in one transaction")
	cmd.Flags().BoolVar(&remove, "remove", false, "end the forwarding of the table; events that were made stay")
	cmd.Flags().BoolVar(&replace, "replace", false, "put this definition in the place of another one")
	cmd.Flags().BoolVar(&view, "as-view", false, "put a view in the place of the table, whose rows are written into the outbox alone")
	cmd.Flags().BoolVar(&table, "as-table", false, "put the table back in the place of its view")
	return cmd
}

// script prints SQL.
func (c *commands) script(script string, err error) error {
	if err == nil {
		_, err = io.WriteString(c.stdout, script)
	}
	return err
}

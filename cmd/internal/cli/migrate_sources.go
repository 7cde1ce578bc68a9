package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/spf13/cobra"

	"github.com/postrider/postrider/cmd/internal/api"
	"github.com/postrider/postrider/cmd/internal/app"
	"github.com/postrider/postrider/cmd/internal/config"
	"github.com/postrider/postrider/internal/migrations"
)

// everySource are the flags of a command that migrates the databases of all sources.
type everySource struct {
	all    bool
	canary string
}

func (e *everySource) bind(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&e.all, "sources", false, "migrate the database of every source of the settings (--config), one after the other, and stop at the first that fails")
	cmd.Flags().StringVar(&e.canary, "canary", "", "with --sources, the `name` of the source to begin with: the others follow if the relay of this binary can carry it then")
}

// order is the order of the sources: the canary first, the others by their names.
func (e *everySource) order(sources []config.Source) ([]config.Source, error) {
	if e.canary == "" {
		return sources, nil
	}
	at := slices.IndexFunc(sources, func(s config.Source) bool { return s.Name == e.canary })
	if at < 0 {
		return nil, usagef("--canary: there is no source %q in the settings", e.canary)
	}
	return slices.Concat(sources[at:at+1], sources[:at], sources[at+1:]), nil
}

// sourceMigrated is what was run on the database of a source. Error is why it failed, null where it did not.
type sourceMigrated struct {
	Source  string        `json:"source"`
	Applied []appliedView `json:"applied"`
	Error   *string       `json:"error"`
}

// migrateSources migrates the databases of all sources. An empty one gets the outbox alone.
func (c *commands) migrateSources(cmd *cobra.Command, out output, which everySource, only parts, again bool) error {
	cfg, err := c.load(nil)
	if err != nil {
		return err
	}
	if len(cfg.Sources) == 0 {
		return usagef("--sources: the settings have no sources; name them in the section sources of the file, or in the folder that its sources_dir names (--config FILE)")
	}
	named, err := only.named(cmd)
	if err != nil {
		return err
	}
	sources, err := which.order(cfg.Sources)
	if err != nil {
		return err
	}
	all, err := migrations.All()
	if err != nil {
		return err
	}
	var done []sourceMigrated
	for _, s := range sources {
		applied, err := c.migrateSource(cmd.Context(), all, s, named, again)
		if err == nil && s.Name == which.canary {
			err = c.canCarry(cmd.Context(), cfg, s)
		}
		one := sourceMigrated{Source: s.Name, Applied: viewApplied(applied)}
		if err != nil {
			one.Error = api.OrNull(err.Error())
		}
		if done = append(done, one); err != nil {
			break
		}
	}
	if err := out.print(c.stdout, api.ListOf(done, ""), func(w io.Writer) error { return sourcesMigrated(w, done) }); err != nil {
		return err
	}
	if last := done[len(done)-1]; last.Error != nil {
		return fmt.Errorf("source %s: %s; %d of %d sources were not touched, and stay as they are", last.Source, *last.Error, len(sources)-len(done), len(sources))
	}
	return nil
}

func (c *commands) migrateSource(ctx context.Context, all []migrations.Room, s config.Source, named []migrations.Part, again bool) ([]migrations.Applied, error) {
	conn, err := app.Connect(ctx, s.Database)
	if err != nil {
		return nil, err
	}
	defer app.Disconnect(ctx, conn)
	r := c.runner(conn, all, named, migrations.WithSource())
	if again {
		return r.UpAgain(ctx)
	}
	return r.Up(ctx)
}

func (c *commands) runner(conn *pgx.Conn, all []migrations.Room, named []migrations.Part, more ...migrations.Option) *migrations.Runner {
	return migrations.New(conn, all, append(more, migrations.WithOnly(named...), migrations.WithWaiting(func(holder string) {
		fmt.Fprintf(c.stderr, "postrider: waiting for another migration to end: %s\n", visible(holder))
	}))...)
}

// canCarry reports why the relay of this binary could not carry a source, as `postrider sources` does.
func (c *commands) canCarry(ctx context.Context, cfg config.Config, s config.Source) error {
	cfg.Sources = []config.Source{s}
	if look := app.LookAtSources(ctx, cfg, nil).Items[0]; !look.OK {
		return errors.New("it is migrated and cannot be carried: " + api.OrZero(look.Error))
	}
	return nil
}

func sourcesMigrated(w io.Writer, done []sourceMigrated) error {
	rows := make([][]string, len(done))
	for i, d := range done {
		what := "was at that version already"
		switch {
		case d.Error != nil:
			what = "failed"
		case len(d.Applied) > 0:
			what = fmt.Sprintf("applied %d", len(d.Applied))
		}
		rows[i] = []string{d.Source, what}
	}
	return grid(w, []string{"SOURCE", "SCHEMA"}, rows)
}

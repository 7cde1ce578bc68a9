package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/cmd/internal/config"
	"github.com/postrider/postrider/internal/migrations"
)

// CheckDatabase reports why this binary cannot work on a database: its server, or its schema.
func CheckDatabase(ctx context.Context, database config.Database, log *slog.Logger) error {
	_, err := prepareDatabase(ctx, database, false, log)
	return err
}

// prepareDatabase proves that the database is one that Postrider can work on in these roles, and migrates it
// where it is asked to. It returns the parts of the schema that the database has.
func prepareDatabase(ctx context.Context, database config.Database, migrate bool, log *slog.Logger, roles ...Role) ([]migrations.Part, error) {
	return prepare(ctx, database, migrate, log, " (or start with --migrate)", roles, migrations.WithWaiting(func(holder string) {
		log.Info("waiting for another migration to end", "holder", holder)
	}), migrations.WithNewerCodeKept())
}

// prepareSource is prepareDatabase for the database of a source, which no process migrates.
func prepareSource(ctx context.Context, database config.Database, log *slog.Logger) ([]migrations.Part, error) {
	return prepare(ctx, database, false, log, "", []Role{Relay}, migrations.WithSource())
}

// prepare does what prepareDatabase and prepareSource do; orElse is what else brings a schema that is behind up to date.
func prepare(ctx context.Context, database config.Database, migrate bool, log *slog.Logger, orElse string, roles []Role, opts ...migrations.Option) ([]migrations.Part, error) {
	conn, err := Connect(ctx, database)
	if err != nil {
		return nil, err
	}
	defer Disconnect(ctx, conn)
	if err := checkServer(ctx, conn, database.URL); err != nil {
		return nil, err
	}
	all, err := migrations.All()
	if err != nil {
		return nil, err
	}
	runner := migrations.New(conn, all, opts...)
	if migrate {
		applied, err := runner.Up(ctx)
		for _, m := range applied {
			log.Info("migrated", "room", m.Room, "version", m.Version, "name", m.Name, "took", m.Duration.String())
		}
		if err != nil && !errors.Is(err, migrations.ErrAhead) {
			return nil, fmt.Errorf("migrate the database: %w", err)
		}
	}
	if err := validate(ctx, runner, log, orElse); err != nil {
		return nil, err
	}
	if err := checkRights(ctx, conn, roles); err != nil {
		return nil, err
	}
	return runner.Parts(ctx)
}

// validate refuses a schema that this binary cannot work with.
func validate(ctx context.Context, runner *migrations.Runner, log *slog.Logger, orElse string) error {
	err := runner.Validate(ctx)
	switch {
	case errors.Is(err, migrations.ErrAhead) && !errors.Is(err, migrations.ErrChanged):
		// A newer release migrated while this one still runs elsewhere, as in every rolling
		// upgrade. Refusing would take the old processes away before the new ones are there.
		log.Warn("the database is ahead of this binary; update it soon", "err", err)
	case errors.Is(err, migrations.ErrBehind):
		return fmt.Errorf("the schema of the database is not ready: %w%s", err, orElse)
	case err != nil:
		return fmt.Errorf("check the schema of the database: %w; run `postrider migrate roles --apply` there, and grant postrider_relay to the login (postrider doctor says what is missing)", err)
	}
	return nil
}

// errLacksRights: the login may not do what its role needs.
var errLacksRights = errors.New("rights are missing")

// checkRights refuses what would only fail for ever: an engine whose user may not do its first statement. The rest is
// the doctor's.
func checkRights(ctx context.Context, conn *pgx.Conn, roles []Role) error {
	ctx, cancel := context.WithTimeout(ctx, connectLimit)
	defer cancel()
	for _, role := range roles {
		table, right := "", ""
		switch role {
		case Relay:
			table, right = "postrider.outbox_receipt", "insert"
		case Collector:
			table, right = "postrider.dlq_letter", "insert"
		default:
			continue
		}
		var may bool
		if err := conn.QueryRow(ctx, `select coalesce(has_table_privilege(to_regclass($1), $2), true)`, table, right).Scan(&may); err != nil {
			return fmt.Errorf("ask the database for the rights of its user: %w", err)
		}
		if !may {
			return fmt.Errorf("%w: the login may not %s %s, which the role %s needs: run `postrider migrate roles --apply` there, and grant postrider_relay to it (postrider doctor names all that is missing)", errLacksRights, right, table, role)
		}
	}
	return nil
}

// checkServer refuses a standby, before anything fails in a stranger way.
func checkServer(ctx context.Context, conn *pgx.Conn, address config.DatabaseURL) error {
	ctx, cancel := context.WithTimeout(ctx, connectLimit)
	defer cancel()
	var standby bool
	err := conn.QueryRow(ctx, `select pg_is_in_recovery()`).Scan(&standby)
	switch {
	case err != nil:
		return fmt.Errorf("ask the database whether it is a standby: %w", err)
	case standby:
		return fmt.Errorf("the database %s is a standby and read-only; give the primary, or several hosts and target_session_attrs=read-write in database.url", address)
	}
	return nil
}

package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/postrider/postrider/cmd/internal/app"
	"github.com/postrider/postrider/cmd/internal/config"
	"github.com/postrider/postrider/internal/relay"
	"github.com/postrider/postrider/internal/relay/postgres"
	"github.com/postrider/postrider/internal/tasks/ledger"
)

// withDatabase runs do on one connection.
func (c *commands) withDatabase(ctx context.Context, do func(*pgx.Conn) error) error {
	cfg, err := c.load(nil, "database.url")
	if err != nil {
		return err
	}
	conn, err := app.Connect(ctx, cfg.Database)
	if err != nil {
		return err
	}
	defer app.Disconnect(ctx, conn)
	return do(conn)
}

// withPool runs do on a small pool, for the stores that want one.
func (c *commands) withPool(ctx context.Context, do func(*pgxpool.Pool) error) error {
	return c.withSettings(ctx, func(pool *pgxpool.Pool, _ config.Config) error { return do(pool) })
}

// withOutbox runs do on the outbox, for a command that only looks at it.
func (c *commands) withOutbox(ctx context.Context, do func(*postgres.Store) error) error {
	return c.withSettings(ctx, func(pool *pgxpool.Pool, cfg config.Config) error {
		return do(postgres.NewStore(pool, postgres.StoreOptions{LetterTopic: cfg.DLQTopicOf}))
	})
}

// withSettings is withPool for what also depends on other settings.
func (c *commands) withSettings(ctx context.Context, do func(*pgxpool.Pool, config.Config) error) error {
	cfg, err := c.load(nil, "database.url")
	if err != nil {
		return err
	}
	pool, err := app.OpenPool(ctx, cfg.Database, 2)
	if err != nil {
		return err
	}
	defer pool.Close()
	return explain(do(pool, cfg), grant("postrider_operator"))
}

// grant says what to do where the rights of a role are missing.
func grant(role string) string {
	return "run postrider migrate roles --apply, and grant " + role + " to the user of database.url"
}

// explain adds what to do about the two ways in which a database is not ready for a command: rights says how to get the
// rights that the command needs.
func explain(err error, rights string) error {
	var refused *pgconn.PgError
	if _, said := errors.AsType[*relay.StoreError](err); said || !errors.As(err, &refused) {
		return err // what the relay does it explains by itself
	}
	if ofLedger, ok := errors.AsType[*ledger.StoreError](err); ok && ofLedger.Hint != "" {
		return err // and so do the engines of the ledger
	}
	switch refused.Code {
	case "42P01", "3F000", "42703", "42883": // undefined_table, invalid_schema_name, undefined_column, undefined_function
		return fmt.Errorf("%w; the database lacks migrations (postrider migrate up), or it was installed without this part of the schema (postrider migrate status)", err)
	case "42501": // insufficient_privilege
		return fmt.Errorf("%w; %s", err, rights)
	}
	return err
}

package postgres

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/postrider/postrider/internal/migrations"
)

// as returns a store whose sessions have the rights of a role.
func (f *fixture) as(role string) *Store {
	f.Helper()
	f.done(migrations.ApplyRoles(f.Context(), f.db.Conn(f.T)))
	cfg, err := pgxpool.ParseConfig(f.db.URL)
	f.done(err)
	cfg.AfterConnect = func(ctx context.Context, conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, "set role "+role)
		return err
	}
	pool, err := pgxpool.NewWithConfig(f.Context(), cfg)
	f.done(err)
	f.Cleanup(pool.Close)
	return NewStore(pool, StoreOptions{})
}

// denied reports whether an error says that a right is lacking.
func denied(err error) bool {
	var pg *pgconn.PgError
	return errors.As(err, &pg) && pg.Code == "42501"
}

package inbox

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5/pgconn"
)

// Executor runs a script: a *pgx.Conn, a *pgxpool.Pool or a pgx.Tx. With database/sql run the result of Script with
// ExecContext instead.
type Executor interface {
	Exec(ctx context.Context, sql string, arguments ...any) (pgconn.CommandTag, error)
}

// migrationLock is the advisory lock that makes processes which migrate at the same time wait for one another.
const migrationLock = `select pg_advisory_xact_lock(hashtextextended('postrider.inbox', 0));` + "\n"

// Script returns the SQL that creates the table inbox_message in the inbox's schema, for review or for the service's
// own migrations. Running it again changes nothing.
func (i Inbox) Script() string { return inSchema(schemaSQL, i.schema) }

// Migrate creates the table inbox_message, or leaves it as it is where it is there. The schema must exist, and the
// login must be allowed to create in it, and later be the table's owner. Several may call it at the same time.
func (i Inbox) Migrate(ctx context.Context, conn Executor) error {
	if _, err := conn.Exec(ctx, migrationLock+i.Script()); err != nil {
		var pg *pgconn.PgError
		if errors.As(err, &pg) && pg.Code == "3F000" {
			return fmt.Errorf("create the inbox: %w; create the schema first, as the owner of the service's tables", err)
		}
		return fmt.Errorf("create the inbox in %s: %w", i.label(), err)
	}
	return nil
}

// Migrate is [Inbox.Migrate] where the search path leads.
func Migrate(ctx context.Context, conn Executor) error { return Inbox{}.Migrate(ctx, conn) }

// Script is [Inbox.Script] where the search path leads.
func Script() string { return Inbox{}.Script() }

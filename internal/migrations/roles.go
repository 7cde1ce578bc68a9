package migrations

import (
	"context"
	_ "embed"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// The script is no migration and stands in a folder of its own: roles belong to the server, and
// many databases are migrated by a login that may not create them.
//
//go:embed roles/roles.sql
var rolesScript string

// RolesScript returns SQL for psql that creates the roles postrider_writer, postrider_relay and
// postrider_operator where they are missing, and sets their rights in the schema of this binary's
// newest version. Running it again changes nothing.
func RolesScript() string { return rolesScript }

// ApplyRoles runs RolesScript, all of it or nothing. The connection must be to a migrated database,
// outside of a transaction, as the owner of the schema.
func ApplyRoles(ctx context.Context, conn *pgx.Conn) error {
	if _, err := conn.Exec(ctx, rolesScript); err != nil {
		// The script begins a transaction of its own, which a failure leaves open.
		if _, rollback := conn.Exec(context.WithoutCancel(ctx), "rollback"); rollback != nil {
			_ = conn.Close(context.WithoutCancel(ctx))
		}
		return fmt.Errorf("migrations: create the roles and grant their rights: %w", err)
	}
	return nil
}

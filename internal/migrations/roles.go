package migrations

import (
	"context"
	"embed"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
)

// The scripts are no migrations and stand in a folder of their own: roles belong to the server, and
// many databases are migrated by a login that may not create them.
//
//go:embed roles
var rolesFiles embed.FS

// rolesFile is the script's head, or the rights in a room.
func rolesFile(name string) string {
	text, err := rolesFiles.ReadFile("roles/" + name + ".sql")
	if err != nil {
		panic(err) // a room without its file
	}
	return string(text)
}

// RolesScript returns SQL for psql that creates the roles postrider_writer, postrider_relay and
// postrider_operator where they are missing, and sets their rights in the schema of this binary's
// newest version, in a database with these parts. Running it again changes nothing; a database with
// other parts is refused.
func RolesScript(parts []Part) string {
	var b strings.Builder
	b.WriteString(strings.ReplaceAll(rolesFile("head"), "@parts@", JoinParts(parts)))
	for _, room := range roomNames {
		if slices.Contains(parts, partOf[room]) {
			b.WriteString(rolesFile(room))
		}
	}
	b.WriteString("commit;\n")
	return b.String()
}

// ApplyRoles runs RolesScript for the parts that the database has, all of it or nothing. The
// connection must be to a migrated database, outside of a transaction, as the owner of the schema.
func ApplyRoles(ctx context.Context, conn *pgx.Conn) error {
	parts, err := New(conn, nil).Parts(ctx)
	if err != nil {
		return err
	}
	if _, err := conn.Exec(ctx, RolesScript(parts)); err != nil {
		// The script begins a transaction of its own, which a failure leaves open.
		if _, rollback := conn.Exec(context.WithoutCancel(ctx), "rollback"); rollback != nil {
			_ = conn.Close(context.WithoutCancel(ctx))
		}
		return fmt.Errorf("migrations: create the roles and grant their rights: %w", err)
	}
	return nil
}

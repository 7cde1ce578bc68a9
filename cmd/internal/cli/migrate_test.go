package cli

import (
	"strings"
	"testing"

	"github.com/postrider/postrider/migrations/pgtest"
)

func TestMigrate(t *testing.T) {
	t.Parallel()
	db := pgtest.NewEmpty(t)
	contains(t, succeed(t, db, "migrate", "status"), "VERSION", "outbox", "pending")
	applied := decode[[]appliedView](t, succeed(t, db, "migrate", "up", "--to", "1", "-o", "json"))
	if len(applied) != 1 || applied[0].Version != 1 || applied[0].Name != "outbox" || applied[0].Direction != "up" {
		t.Errorf("applied %+v", applied)
	}
	contains(t, succeed(t, db, "migrate", "up"), "0002_dlq")
	contains(t, succeed(t, db, "migrate", "up"), "nothing to do")
	contains(t, succeed(t, db, "migrate", "validate"), "at the version")
	status := decode[[]statusView](t, succeed(t, db, "migrate", "status", "-o", "json"))
	for _, row := range status {
		if row.State != "applied" || row.AppliedAt == nil {
			t.Errorf("row %+v", row)
		}
	}
	// The other way is never taken by mistake.
	for _, args := range [][]string{{"migrate", "up", "--to", "1"}, {"migrate", "down", "--to", "99"}, {"migrate", "down", "--steps", "0"}} {
		r := postrider(t, []string{"DATABASE_URL=" + db.URL}, args...)
		if r.code != ExitUsage {
			t.Errorf("%v: exit code %d, %s", args, r.code, r.stderr)
		}
	}
	contains(t, succeed(t, db, "migrate", "down", "--steps", "1"), "down")
	if r := postrider(t, []string{"DATABASE_URL=" + db.URL}, "migrate", "validate"); r.code != ExitFailure {
		t.Errorf("validate after down: exit code %d", r.code)
	}
	succeed(t, db, "migrate", "down", "--to", "0")
	for _, row := range decode[[]statusView](t, succeed(t, db, "migrate", "status", "-o", "json")) {
		if row.State != "pending" || row.AppliedAt != nil {
			t.Errorf("row %+v", row)
		}
	}
}

// After a rollback the program is older than the schema. It goes neither way then, and says what to do.
func TestMigrateWithAnOlderProgram(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	conn := db.Conn(t)
	if _, err := conn.Exec(t.Context(), `insert into postrider.schema_migration (version, name, checksum)
		select max(version) + 1, 'future', 'x' from postrider.schema_migration`); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"up"}, {"down", "--steps", "1"}, {"down", "--to", "0"}, {"validate"}} {
		r := postrider(t, []string{"DATABASE_URL=" + db.URL}, append([]string{"migrate"}, args...)...)
		if r.code != ExitFailure {
			t.Errorf("migrate %v: exit code %d, %s%s", args, r.code, r.stdout, r.stderr)
		}
		contains(t, r.stderr, "ahead of this binary", "_future", "take them back with the binary that applied them")
	}
	var left int
	if err := conn.QueryRow(t.Context(), `select count(*) from postrider.schema_migration where name in ('outbox', 'future')`).Scan(&left); err != nil || left != 2 {
		t.Errorf("%d of 2 rows are left, %v", left, err)
	}
}

// The scripts need no database, and running them does what the commands do.
func TestMigrateScripts(t *testing.T) {
	t.Parallel()
	script := postrider(t, nil, "migrate", "sql")
	roles := postrider(t, nil, "migrate", "roles")
	if script.code != ExitOK || roles.code != ExitOK {
		t.Fatalf("%+v %+v", script, roles)
	}
	contains(t, roles.stdout, "postrider_writer", "postrider_relay", "postrider_operator", "begin;", "commit;")
	db := pgtest.NewEmpty(t)
	conn := db.Conn(t)
	for _, sql := range []string{script.stdout, roles.stdout} {
		if _, err := conn.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	succeed(t, db, "migrate", "validate")
	for range 2 {
		contains(t, succeed(t, db, "migrate", "roles", "--apply"), "postrider_writer")
	}
	if one := postrider(t, nil, "migrate", "sql", "--from", "1", "--to", "2").stdout; strings.Contains(one, "0001_outbox.up.sql") || !strings.Contains(one, "0002_dlq.up.sql") {
		t.Errorf("script from 1 to 2:\n%.300s", one)
	}
	var may bool
	if err := conn.QueryRow(t.Context(), `select has_column_privilege('postrider_writer', 'postrider.outbox_event', 'payload', 'insert')`).Scan(&may); err != nil || !may {
		t.Errorf("the writer may not insert: %v", err)
	}
}

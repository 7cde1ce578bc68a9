package cli

import (
	"strings"
	"testing"

	"github.com/postrider/postrider/internal/testenv/pgtest"
)

func TestMigrate(t *testing.T) {
	t.Parallel()
	db := pgtest.NewEmpty(t)
	contains(t, succeed(t, db, "migrate", "status"), "ROOM", "VERSION", "outbox", "baseline", "pending")
	contains(t, succeed(t, db, "migrate", "sql", "--pending"), "-- audit/0001_baseline.sql")
	applied := decode[[]appliedView](t, succeed(t, db, "migrate", "up", "-o", "json"))
	if len(applied) != 10 || applied[0].Room != "audit" || applied[0].Version != 1 || applied[0].Name != "baseline" || applied[1].Version != 0 || applied[1].Name != "code" {
		t.Errorf("applied %+v", applied)
	}
	contains(t, succeed(t, db, "migrate", "up"), "nothing to do")
	contains(t, succeed(t, db, "migrate", "sql", "--pending"), "The database has all of it")
	contains(t, succeed(t, db, "migrate", "up", "--code"), "audit/code", "outbox/code", "tasks/code", "access/code", "dlq/code")
	contains(t, succeed(t, db, "migrate", "validate"), "at the version")
	status := decode[[]statusView](t, succeed(t, db, "migrate", "status", "-o", "json"))
	if len(status) != len(applied) {
		t.Errorf("status %+v", status)
	}
	for _, row := range status {
		if row.State != "applied" || row.AppliedAt == nil {
			t.Errorf("row %+v", row)
		}
	}
	// There is no way back but a backup.
	if r := postrider(t, []string{"DATABASE_URL=" + db.URL}, "migrate", "down"); r.code != ExitUsage {
		t.Errorf("migrate down: exit code %d, %s", r.code, r.stderr)
	}
}

// After a rollback the program is older than the schema. It changes nothing then, and says what to do.
func TestMigrateWithAnOlderProgram(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	conn := db.Conn(t)
	if _, err := conn.Exec(t.Context(), `insert into postrider.schema_migration (room, version, name, checksum)
		select 'dlq', max(version) + 1, 'future', 'x' from postrider.schema_migration where room = 'dlq'`); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"up"}, {"up", "--code"}, {"sql", "--pending"}, {"validate"}} {
		r := postrider(t, []string{"DATABASE_URL=" + db.URL}, append([]string{"migrate"}, args...)...)
		if r.code != ExitFailure {
			t.Errorf("migrate %v: exit code %d, %s%s", args, r.code, r.stdout, r.stderr)
		}
		contains(t, r.stderr, "ahead of this binary", "dlq/0002_future", "run a binary that is at least as new")
	}
	var left int
	if err := conn.QueryRow(t.Context(), `select count(*) from postrider.schema_migration where room = 'dlq'`).Scan(&left); err != nil || left != 2 {
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
	if !strings.Contains(script.stdout, "-- outbox/code/outbox_publish.sql") {
		t.Errorf("the script does not name its files:\n%.300s", script.stdout)
	}
	var may bool
	if err := conn.QueryRow(t.Context(), `select has_column_privilege('postrider_writer', 'postrider.outbox_event', 'payload', 'insert')`).Scan(&may); err != nil || !may {
		t.Errorf("the writer may not insert: %v", err)
	}
}

// TestMigrateOnly: a database gets the parts that are named, keeps to them, and says so.
func TestMigrateOnly(t *testing.T) {
	t.Parallel()
	db := pgtest.NewEmpty(t)
	environ := []string{"DATABASE_URL=" + db.URL}
	refused := func(code int, want string, args ...string) {
		t.Helper()
		r := postrider(t, environ, append([]string{"migrate"}, args...)...)
		if r.code != code {
			t.Errorf("migrate %v: exit code %d, %s%s", args, r.code, r.stdout, r.stderr)
		}
		contains(t, r.stderr, want)
	}
	refused(ExitUsage, "desk needs what comes before it: name outbox,tasks,desk", "up", "--only", "outbox,desk")
	refused(ExitUsage, `"" is no part`, "up", "--only", "")
	applied := succeed(t, db, "migrate", "up", "--only", "outbox")
	contains(t, applied, "audit/0001_baseline", "outbox/code")
	for _, room := range []string{"tasks", "access", "dlq"} {
		if strings.Contains(applied, room+"/") {
			t.Errorf("the room %s was applied", room)
		}
	}
	// Without the flag nothing is added, and it says what was left out.
	again := postrider(t, environ, "migrate", "up")
	if again.code != ExitOK {
		t.Fatalf("%+v", again)
	}
	contains(t, again.stdout, "nothing to do")
	contains(t, again.stderr, "was installed with outbox alone", "postrider migrate up --only outbox,tasks,desk")
	contains(t, succeed(t, db, "migrate", "status"), "left out")
	for _, args := range [][]string{{}, {"--only", "outbox"}} {
		contains(t, succeed(t, db, append([]string{"migrate", "validate"}, args...)...), "it has outbox\n")
	}
	contains(t, succeed(t, db, "migrate", "roles", "--apply", "--only", "outbox"), "postrider_relay")
	refused(ExitFailure, "was installed with outbox, and --only names outbox,tasks", "roles", "--apply", "--only", "outbox,tasks")
	refused(ExitFailure, "it lacks tasks/0001_baseline", "validate", "--only", "outbox,tasks")
	contains(t, succeed(t, db, "migrate", "sql", "--only", "outbox,tasks", "--pending", "--tool"), "-- tasks/0001_baseline.sql", "must run in one transaction")
	contains(t, succeed(t, db, "migrate", "up", "--only", "outbox,tasks"), "tasks/0001_baseline")
	for _, args := range [][]string{{"up"}, {"status"}, {"validate"}, {"sql", "--pending"}} {
		refused(ExitFailure, "it was installed with outbox,tasks, and outbox was named", append(args, "--only", "outbox")...)
	}
}

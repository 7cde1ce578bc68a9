package pgtest

import (
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/postrider/postrider/internal/migrations"
)

func TestNewIsMigratedAndAlone(t *testing.T) {
	t.Parallel()
	all, err := migrations.All()
	if err != nil {
		t.Fatal(err)
	}
	first, second := New(t), New(t)
	if first.Name == second.Name || first.URL == second.URL {
		t.Fatalf("two databases are one: %s", first.Name)
	}
	conn := first.Conn(t)
	if err := migrations.New(conn, all).Validate(t.Context()); err != nil {
		t.Error(err)
	}
	if _, err := conn.Exec(t.Context(), "create table only_here (id int)"); err != nil {
		t.Fatal(err)
	}
	var database, order string
	var there bool
	err = second.Pool(t).QueryRow(t.Context(), `
		select current_database(), to_regclass('only_here') is not null, datcollate
		from pg_database where datname = current_database()`).Scan(&database, &there, &order)
	if err != nil {
		t.Fatal(err)
	}
	if database != second.Name || there || order != "C" {
		t.Errorf("database %s, table of the other %v, sort order %s", database, there, order)
	}
}

func TestNewEmpty(t *testing.T) {
	t.Parallel()
	var schemas []string
	var order string
	err := NewEmpty(t).Conn(t).QueryRow(t.Context(), `
		select (select array_agg(nspname::text order by nspname::text) from pg_namespace where nspname !~ '^pg_'), datcollate
		from pg_database where datname = current_database()`).Scan(&schemas, &order)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(schemas, []string{"information_schema", "public"}) || order != "C" {
		t.Errorf("schemas %v, sort order %s", schemas, order)
	}
}

func TestDatabaseIsDroppedOrKept(t *testing.T) {
	t.Parallel()
	for name, failed := range map[string]bool{"passed": false, "failed": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := testServer(t)
			r := &recorder{TB: t}
			db := New(r)
			db.Conn(t) // still connected when the database goes
			r.failed = failed
			r.end()
			left := databases(t, s, db.Name)
			if !failed {
				if len(left) != 0 || len(r.messages) != 0 {
					t.Errorf("left %v, said %q", left, r.messages)
				}
				return
			}
			if len(left) != 1 || len(r.messages) != 1 || !strings.Contains(r.messages[0], db.Name) || !strings.Contains(r.messages[0], "is kept") {
				t.Errorf("left %v, said %q", left, r.messages)
			}
			if err := s.exec(t.Context(), "drop database "+quote(db.Name)+" with (force)"); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestDatabaseName(t *testing.T) {
	t.Parallel()
	long := databaseName("TestOf" + strings.Repeat("Ä", 100))
	if len(long) > 63 || !strings.HasPrefix(long, "postrider_test_of____") {
		t.Errorf("%s has %d bytes", long, len(long))
	}
	name := databaseName("TestClaim/two relays#01")
	if !strings.HasPrefix(name, "postrider_test_claim_two_relays_01_") {
		t.Errorf("%s", name)
	}
	if name == databaseName("TestClaim/two relays#01") {
		t.Error("the same name twice")
	}
}

func TestWithDatabase(t *testing.T) {
	t.Parallel()
	got, err := withDatabase("postgresql://u:p%20w@h:1/old?sslmode=disable", "new")
	if want := "postgresql://u:p%20w@h:1/new?sslmode=disable"; err != nil || got != want {
		t.Errorf("%s, %v, want %s", got, err, want)
	}
	for _, wrong := range []string{"host=h password=secret", "mysql://h/d", "", "postgres://u:secret@h:port/d"} {
		if _, err := withDatabase(wrong, "new"); err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: %v", wrong, err)
		}
	}
}

// other makes migrations that no other test has, so that their template is not there yet.
func other(t *testing.T, up string) []migrations.Room {
	t.Helper()
	return []migrations.Room{{Name: "other", Migrations: []migrations.Migration{{
		Room: "other", Version: 1, Name: "other", SQL: up + " -- " + databaseName(t.Name()), Checksum: "x",
	}}}}
}

// TestTemplateOfManyProcesses: each has its own memory of the template, all share the server.
func TestTemplateOfManyProcesses(t *testing.T) {
	t.Parallel()
	shared, all := testServer(t), other(t, "create table made (id int);")
	const processes = 4
	names, errs := make([]string, processes), make([]error, processes)
	var wait sync.WaitGroup
	for i := range processes {
		process := &server{url: shared.url, number: shared.number, origin: shared.origin}
		wait.Go(func() { names[i], errs[i] = process.ensureTemplate(t.Context(), all) })
	}
	wait.Wait()
	for i := range processes {
		if errs[i] != nil || names[i] != names[0] {
			t.Errorf("process %d: %q, %v; the first has %q", i, names[i], errs[i], names[0])
		}
	}
	if err := shared.forget(t, names[0]); err != nil {
		t.Error(err)
	}
}

// forget drops a template.
func (s *server) forget(t *testing.T, name string) error {
	t.Helper()
	if err := s.exec(t.Context(), "alter database "+quote(name)+" is_template false"); err != nil {
		return err
	}
	return s.exec(t.Context(), "drop database "+quote(name))
}

func TestHalfMadeTemplateIsMadeAgain(t *testing.T) {
	t.Parallel()
	s, all := testServer(t), other(t, "create table made (id int);")
	name, err := s.ensureTemplate(t.Context(), all)
	if err != nil {
		t.Fatal(err)
	}
	// As it is when its maker was killed: not finished, and empty.
	if err := s.forget(t, name); err != nil {
		t.Fatal(err)
	}
	if err := s.exec(t.Context(), "create database "+quote(name)); err != nil {
		t.Fatal(err)
	}
	again, err := s.ensureTemplate(t.Context(), all)
	if err != nil || again != name {
		t.Fatalf("%q, %v", again, err)
	}
	var there bool
	if err := s.create(t, s.clone(name)).Conn(t).QueryRow(t.Context(), "select to_regclass('postrider.made') is not null").Scan(&there); err != nil || !there {
		t.Errorf("the template is still the empty one: %v, %v", there, err)
	}
	if err := s.forget(t, name); err != nil {
		t.Error(err)
	}
}

func TestTemplateThatCannotBeMigrated(t *testing.T) {
	t.Parallel()
	s, all := testServer(t), other(t, "create table made (id nonsense);")
	_, err := s.ensureTemplate(t.Context(), all)
	if err == nil || !strings.Contains(err.Error(), "nonsense") || !strings.Contains(err.Error(), "other/0001_other.sql") {
		t.Errorf("%v", err)
	}
	name, _ := identify(all)
	if left := databases(t, s, name); len(left) != 0 {
		t.Errorf("left: %v", left)
	}
}

package migrations_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/migrations"
	"github.com/postrider/postrider/internal/testenv/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// files makes a file system of names and contents.
func files(content map[string]string) fstest.MapFS {
	fsys := fstest.MapFS{}
	for name, text := range content {
		fsys[name] = &fstest.MapFile{Data: []byte(text)}
	}
	return fsys
}

// load is migrations.Load of the rooms of some files, in the order of their names, where it must succeed.
func load(t *testing.T, content map[string]string) []migrations.Room {
	t.Helper()
	var rooms []string
	for name := range content {
		if room, _, ok := strings.Cut(name, "/"); ok && !slices.Contains(rooms, room) {
			rooms = append(rooms, room)
		}
	}
	slices.Sort(rooms)
	all, err := migrations.Load(files(content), rooms...)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// tables makes a room of n migrations that create one table each.
func tables(t *testing.T, n int) []migrations.Room {
	t.Helper()
	content := map[string]string{}
	for v := 1; v <= n; v++ {
		content[fmt.Sprintf("a/%04d_t%d.sql", v, v)] = fmt.Sprintf("create table t%d (id int primary key);", v)
	}
	return load(t, content)
}

// version is the version of a database according to Status.
func version(t *testing.T, r *migrations.Runner) int {
	t.Helper()
	rows, err := r.Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	newest := 0
	for _, row := range rows {
		if row.State != migrations.StatePending {
			newest = row.Version
		}
	}
	return newest
}

// execute runs SQL that must succeed.
func execute(t *testing.T, conn *pgx.Conn, sql string) {
	t.Helper()
	if _, err := conn.PgConn().Exec(t.Context(), sql).ReadAll(); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

// exists reports whether a relation is there.
func exists(t *testing.T, conn *pgx.Conn, relation string) bool {
	t.Helper()
	var there bool
	if err := conn.QueryRow(t.Context(), "select to_regclass($1) is not null", relation).Scan(&there); err != nil {
		t.Fatal(err)
	}
	return there
}

// do calls a method of a runner that must succeed, and returns the versions it ran.
func do(t *testing.T, method func(context.Context) ([]migrations.Applied, error)) []int {
	t.Helper()
	done, err := method(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var versions []int
	for _, a := range done {
		versions = append(versions, a.Version)
	}
	return versions
}

package postgres

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/postrider/postrider/migrations/pgtest"
)

// newLogDB is a database that has the outbox's room alone.
func newLogDB(t testing.TB) (*pgtest.DB, *pgxpool.Pool) {
	t.Helper()
	db := pgtest.NewEmpty(t)
	pool := db.Pool(t)
	files := []string{"../../migrations/log/0001_baseline.sql"}
	code, err := filepath.Glob("../../migrations/log/code/*.sql")
	if err != nil {
		t.Fatal(err)
	}
	views := func(f string) bool { return filepath.Base(f)[0] == 'v' || filepath.Base(f) == "outbox_progress.sql" }
	slices.SortStableFunc(code, func(a, b string) int {
		switch {
		case filepath.Base(a) == "outbox_progress.sql":
			return -1
		case filepath.Base(b) == "outbox_progress.sql":
			return 1
		case views(a) == views(b):
			return 0
		case views(a):
			return 1
		}
		return -1
	})
	pgtest.Exec(t, pool, `create schema postrider; create function postrider.access_owe(p_service boolean default false) returns void language sql as ''`)
	for _, f := range append(files, code...) {
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		conn := db.Conn(t)
		if _, err := conn.Exec(t.Context(), string(text)); err != nil {
			t.Fatalf("%s: %v", f, err)
		}
	}
	return db, pool
}

package adopt_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/migrations"
	"github.com/postrider/postrider/internal/pgserver"
)

// decoding starts a server of the test's own that decodes its write-ahead log, with the schema in it, and returns its address.
func decoding(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.Chmod(filepath.Dir(dir), 0o755); err != nil { // PostgreSQL may run as another user
		t.Fatal(err)
	}
	s, err := pgserver.Start(t.Context(), pgserver.Options{Dir: dir, Settings: map[string]string{"fsync": "off", "wal_level": "logical"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Stop(context.Background()) })
	conn := connect(t, s.URL())
	all, err := migrations.All()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := migrations.New(conn, all).Up(t.Context()); err != nil {
		t.Fatal(err)
	}
	return s.URL()
}

func connect(t testing.TB, url string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

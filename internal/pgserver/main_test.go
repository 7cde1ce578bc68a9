//go:build unix && !aix && !solaris

package pgserver

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/jackc/pgx/v5"
	"go.uber.org/goleak"
)

// childEnv makes the test program a process that runs a server in the directory it names, and
// waits to be killed; childOutlives lets the server survive that.
const (
	childEnv      = "PGSERVER_TEST_CHILD"
	childOutlives = "PGSERVER_TEST_CHILD_OUTLIVES"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(childEnv); dir != "" {
		s, err := Start(context.Background(), Options{Dir: dir, Settings: fast, outlive: os.Getenv(childOutlives) != ""})
		if err != nil {
			fmt.Println("error:", err)
			os.Exit(1)
		}
		fmt.Println(s.URL())
		_, _ = io.Copy(io.Discard, os.Stdin) // until the parent ends
		os.Exit(0)
	}
	// The library that Fetch uses leaves files in the place for temporary ones.
	dir, err := os.MkdirTemp(MemoryDir(), "pgserver-tests-")
	if err == nil {
		err = errors.Join(os.Chmod(dir, 0o755), os.Setenv("TMPDIR", dir))
	}
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		if err := os.RemoveAll(dir); err != nil {
			fmt.Println(err)
			code = max(code, 1)
		}
		os.Exit(code)
	}))
}

var fast = map[string]string{"fsync": "off", "shared_buffers": "16MB"}

// openDir is a directory that every user can enter, unlike t.TempDir.
func openDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "pgserver-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

// start is Start where it must succeed; the server is stopped with the test.
func start(t *testing.T, o Options) *Server {
	t.Helper()
	if o.Settings == nil {
		o.Settings = fast
	}
	s, err := Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Stop(context.Background()) }) // the test may have stopped it, or broken it
	return s
}

func connect(t *testing.T, url string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

// execute runs SQL that must succeed.
func execute(t *testing.T, conn *pgx.Conn, sql string) {
	t.Helper()
	if _, err := conn.PgConn().Exec(t.Context(), sql).ReadAll(); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

// kept is the content of the table that tests look for again.
func kept(t *testing.T, url string) string {
	t.Helper()
	var content string
	if err := connect(t, url).QueryRow(t.Context(), "select content from kept").Scan(&content); err != nil {
		t.Fatal(err)
	}
	return content
}

// mode is the permission of a file of a cluster.
func mode(t *testing.T, dir, name string) os.FileMode {
	t.Helper()
	info, err := os.Stat(filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	return info.Mode().Perm()
}

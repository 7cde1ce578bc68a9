package relaytest

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/migrations"
	"github.com/postrider/postrider/internal/pgserver"
	"github.com/postrider/postrider/internal/testenv/kafkajars"
)

// server is a PostgreSQL server that a test may end.
type server struct {
	testing.TB
	*pgserver.Server
	options pgserver.Options
}

// newServer starts a server of the test's own, with the schema in it.
func newServer(t testing.TB, settings map[string]string) *server {
	t.Helper()
	s := &server{TB: t, options: pgserver.Options{Dir: serverDir(t), Port: freePort(t), Settings: map[string]string{"fsync": "off"}}}
	for name, value := range settings {
		s.options.Settings[name] = value
	}
	s.start()
	conn, err := pgx.Connect(t.Context(), s.URL())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	all, err := migrations.All()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := migrations.New(conn, all).Up(t.Context()); err != nil {
		t.Fatal(err)
	}
	return s
}

// serverDir is a directory that PostgreSQL may enter, also when the tests are run by root and it is not.
func serverDir(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.Chmod(filepath.Dir(dir), 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

func freePort(t testing.TB) int {
	t.Helper()
	port, err := kafkajars.FreePort() // no outgoing connection takes it meanwhile
	if err != nil {
		t.Fatal(err)
	}
	return port
}

func (s *server) start() {
	s.Helper()
	started, err := pgserver.Start(s.Context(), s.options)
	if err != nil {
		s.Fatal(err)
	}
	s.Server = started
	s.Cleanup(func() { _ = started.Stop(context.Background()) }) // the test may have ended it
}

func (s *server) stop() {
	s.Helper()
	if err := s.Stop(s.Context()); err != nil {
		s.Fatal(err)
	}
}

// crash ends the server without a word to its clients. Data that is not on its disk is lost.
func (s *server) crash() {
	s.Helper()
	now, cancel := context.WithCancel(s.Context())
	cancel()
	_ = s.Stop(now) // says that it had to be ended
	<-s.Done()
}

// copied makes a standby of this server, which must be stopped. The standby has the data of that moment and
// gets nothing later, like a standby that lags behind for ever.
func (s *server) copied() *server {
	s.Helper()
	c := &server{TB: s.TB, options: s.options}
	c.options.Dir, c.options.Port = serverDir(s.TB), freePort(s.TB)
	if out, err := exec.Command("cp", "-a", s.options.Dir+"/.", c.options.Dir).CombinedOutput(); err != nil {
		s.Fatalf("copy the data: %v\n%s", err, out)
	}
	signal := filepath.Join(c.options.Dir, "data", "standby.signal")
	if err := os.WriteFile(signal, nil, 0o600); err != nil {
		s.Fatal(err)
	}
	owner, err := os.Stat(filepath.Join(c.options.Dir, "data", "PG_VERSION"))
	if err != nil {
		s.Fatal(err)
	}
	if st := owner.Sys().(*syscall.Stat_t); os.Geteuid() == 0 {
		if err := os.Chown(signal, int(st.Uid), int(st.Gid)); err != nil {
			s.Fatal(err)
		}
	}
	return c
}

// bothURL is the address of two servers that have the same login, as a client of a pair has it.
func bothURL(t testing.TB, first, second *server) string {
	t.Helper()
	cfg, err := pgx.ParseConfig(first.URL())
	if err != nil {
		t.Fatal(err)
	}
	return "postgres://" + cfg.User + ":" + cfg.Password + "@127.0.0.1:" + strconv.Itoa(first.options.Port) +
		",127.0.0.1:" + strconv.Itoa(second.options.Port) + "/" + cfg.Database + "?sslmode=disable"
}

//go:build unix && !aix && !solaris

package pgserver

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/postrider/postrider/internal/testenv/logtest"
)

func TestTemporaryServer(t *testing.T) {
	t.Parallel()
	parent, log := openDir(t), &logtest.Buffer{}
	s := start(t, Options{TempDir: parent, Database: "a b'\"c", Log: log, Settings: map[string]string{"work_mem": "1234kB"}})
	conn := connect(t, s.URL())
	var database, addresses, sockets, memory, zone, version string
	var super bool
	err := conn.QueryRow(t.Context(), `
		select current_database(), current_setting('listen_addresses'), current_setting('unix_socket_directories'),
		       current_setting('work_mem'), current_setting('timezone'), current_setting('server_version'), rolsuper
		from pg_roles where rolname = current_user and rolname = 'postrider'`).
		Scan(&database, &addresses, &sockets, &memory, &zone, &version, &super)
	if err != nil {
		t.Fatal(err)
	}
	if database != "a b'\"c" || addresses != "127.0.0.1" || sockets != "" || memory != "1234kB" || zone != "UTC" || !super {
		t.Errorf("%q %q %q %q %q superuser %v", database, addresses, sockets, memory, zone, super)
	}
	if !strings.HasPrefix(version, s.Version()) {
		t.Errorf("Version %q, the server says %q", s.Version(), version)
	}
	if !strings.Contains(log.String(), "ready to accept connections") || strings.Contains(log.String(), "FATAL") {
		t.Errorf("the log:\n%s", log)
	}
	wrong, err := url.Parse(s.URL())
	if err != nil {
		t.Fatal(err)
	}
	wrong.User = url.UserPassword(Role, "guess")
	var refused *pgconn.PgError
	if _, err := pgx.Connect(t.Context(), wrong.String()); !errors.As(err, &refused) || refused.Code != "28P01" {
		t.Errorf("with a wrong password: %v", err)
	}

	for range 2 {
		if err := s.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	<-s.Done()
	if left, err := os.ReadDir(parent); err != nil || len(left) != 0 {
		t.Errorf("Stop leaves %v, %v", left, err)
	}
}

// What was committed before a crash is there after the next start.
func TestCrash(t *testing.T) {
	t.Parallel()
	dir := openDir(t)
	s := start(t, Options{Dir: dir})
	conn := connect(t, s.URL())
	if _, err := conn.Exec(t.Context(), "create table kept as select 42 as n"); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Exec(t.Context(), "begin; create table lost ()"); err != nil {
		t.Fatal(err)
	}
	if err := s.Crash(t.Context()); err != nil {
		t.Fatal(err)
	}
	log := &logtest.Buffer{}
	conn = connect(t, start(t, Options{Dir: dir, Log: log}).URL())
	var n int
	var lost *string
	if err := conn.QueryRow(t.Context(), "select n, to_regclass('lost')::text from kept").Scan(&n, &lost); err != nil || n != 42 || lost != nil {
		t.Errorf("after the crash: %d, %v, %v", n, lost, err)
	}
	if !strings.Contains(log.String(), "was not properly shut down") {
		t.Errorf("it was no crash:\n%s", log)
	}
}

func TestDirectoryKeepsDataAndBelongsToOne(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(openDir(t), "made", "here")
	first := start(t, Options{Dir: dir})
	execute(t, connect(t, first.URL()), "create table kept as select 'from before' as content")

	if _, err := Start(t.Context(), Options{Dir: dir}); !errors.Is(err, errLocked) || !strings.Contains(err.Error(), "process "+strconv.Itoa(os.Getpid())) {
		t.Errorf("a second server on a directory in use: %v", err)
	}
	if err := first.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	second := start(t, Options{Dir: dir, Database: "another"})
	if got := kept(t, first.urlOn(t, second)); got != "from before" {
		t.Errorf("found %q", got)
	}
	for name, want := range map[string]os.FileMode{passwordName: 0o600, dataName: 0o700, lockName: 0o600} {
		if got := mode(t, dir, name); got != want {
			t.Errorf("%s has mode %o, want %o", name, got, want)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, passwordName+".initdb")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("initdb's copy of the password is still there: %v", err)
	}
}

// urlOn is the address of this server's database on another server.
func (s *Server) urlOn(t *testing.T, other *Server) string {
	t.Helper()
	mine, err := url.Parse(s.URL())
	if err != nil {
		t.Fatal(err)
	}
	theirs, err := url.Parse(other.URL())
	if err != nil {
		t.Fatal(err)
	}
	theirs.Path = mine.Path
	return theirs.String()
}

func TestStopOutOfTime(t *testing.T) {
	t.Parallel()
	s := start(t, Options{})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	// No error means that the server was faster than the look at the context.
	if err := s.Stop(ctx); err != nil && !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	<-s.Done()
	if _, err := os.Stat(s.cluster.dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the temporary directory is still there: %v", err)
	}
}

func TestServerThatEndsByItself(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(openDir(t), "d")
	s := start(t, Options{Dir: dir})
	conn := connect(t, s.URL())
	execute(t, conn, "create table kept as select 'committed' as content")
	if err := syscall.Kill(s.process.pid(), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	<-s.Done()
	if err := s.Stop(t.Context()); err == nil || !strings.Contains(err.Error(), "ended by itself") {
		t.Errorf("Stop of a killed server: %v", err)
	}
	// Its connections may still have processes; the next start deals with them, and recovers.
	if got := kept(t, start(t, Options{Dir: dir}).URL()); got != "committed" {
		t.Errorf("found %q", got)
	}
}

func TestStartReportsWhatTheServerSays(t *testing.T) {
	t.Parallel()
	parent := openDir(t)
	_, err := Start(t.Context(), Options{TempDir: parent, Settings: map[string]string{"shared_buffers": "much"}})
	if err == nil || !strings.Contains(err.Error(), "shared_buffers") || !strings.Contains(err.Error(), "exit status 1") {
		t.Errorf("%v", err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("changed our mind"))
	if _, err := Start(ctx, Options{TempDir: parent}); err == nil || !strings.Contains(err.Error(), "changed our mind") {
		t.Errorf("a start that was called off: %v", err)
	}
	if left, err := os.ReadDir(parent); err != nil || len(left) != 0 {
		t.Errorf("failed starts leave %v, %v", left, err)
	}
}

func TestPortThatIsTaken(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	port := listener.Addr().(*net.TCPAddr).Port
	_, err = Start(t.Context(), Options{Port: port, Settings: fast})
	if err == nil || !strings.Contains(err.Error(), "port "+strconv.Itoa(port)) {
		t.Errorf("%v", err)
	}
}

// TestPrivateDirectory: what an ordinary user may use, PostgreSQL run by root cannot enter.
func TestPrivateDirectory(t *testing.T) {
	t.Parallel()
	private := openDir(t)
	if err := os.Chmod(private, 0o700); err != nil {
		t.Fatal(err)
	}
	s, err := Start(t.Context(), Options{Dir: filepath.Join(private, "d"), Settings: fast})
	if os.Geteuid() != 0 {
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
		return
	}
	if err == nil || !strings.Contains(err.Error(), "cannot enter "+private+" (mode drwx------)") || !strings.Contains(err.Error(), "chmod o+x "+private) {
		t.Errorf("%v", err)
	}
}

// TestPreferredPort: a server takes the port that it prefers, and a free one where it is taken.
func TestPreferredPort(t *testing.T) {
	t.Parallel()
	preferred, err := choosePort(0)
	if err != nil {
		t.Fatal(err)
	}
	var first, second *Server
	for _, s := range []**Server{&first, &second} {
		if *s, err = Start(t.Context(), Options{PreferredPort: preferred, Settings: fast}); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = (*s).Stop(context.Background()) })
	}
	if at := fmt.Sprintf("@127.0.0.1:%d/", preferred); !strings.Contains(first.URL(), at) || strings.Contains(second.URL(), at) {
		t.Errorf("the port %d is preferred; the servers are at %s and %s", preferred, first.URL(), second.URL())
	}
}

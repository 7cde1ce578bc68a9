//go:build unix

package pgbouncer

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/testenv/kafkajars"
	"github.com/postrider/postrider/internal/testenv/logtest"
)

const (
	startTimeout = 30 * time.Second
	stopTimeout  = 10 * time.Second
)

// Start starts a PgBouncer before the server that the URL names, with at most connections to it for each
// database, and returns the URL through it. It ends with the test.
func Start(t testing.TB, serverURL string, connections int) string {
	t.Helper()
	program := find(t)
	u, err := url.Parse(serverURL)
	if err != nil {
		t.Fatalf("pgbouncer: the server's URL: %v", err)
	}
	port := freePort(t)
	password, _ := u.User.Password()
	ini := fmt.Sprintf(`[databases]
* = host=%s port=%s user=%s password='%s'
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = %d
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = %d
max_client_conn = 400
`, u.Hostname(), u.Port(), u.User.Username(), password, port, connections)
	// Not t.TempDir, which another user cannot enter.
	dir, err := os.MkdirTemp("", "pgbouncer")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	file := filepath.Join(dir, "pgbouncer.ini")
	if err := os.WriteFile(file, []byte(ini), 0o600); err != nil {
		t.Fatal(err)
	}
	log := &logtest.Buffer{}
	cmd := exec.Command(program, file)
	cmd.Stdout, cmd.Stderr = log, log
	if os.Geteuid() == 0 { // PgBouncer refuses to run as root
		uid, gid := unprivileged(t)
		for _, path := range []string{dir, file} {
			if err := os.Chown(path, uid, gid); err != nil {
				t.Fatal(err)
			}
		}
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}
	}
	if err := cmd.Start(); err != nil {
		t.Fatalf("pgbouncer: start %s: %v", program, err)
	}
	ended := make(chan struct{})
	go func() { _ = cmd.Wait(); close(ended) }()
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		select {
		case <-ended:
		case <-time.After(stopTimeout):
			_ = cmd.Process.Kill()
			<-ended
		}
		if t.Failed() {
			t.Logf("what PgBouncer said:\n%s", log)
		}
	})
	u.Host = net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	wait(t, u.String(), ended, log)
	return u.String()
}

// wait returns when it serves.
func wait(t testing.TB, address string, ended <-chan struct{}, log *logtest.Buffer) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), startTimeout)
	defer cancel()
	for {
		conn, err := pgx.Connect(ctx, address)
		if err == nil {
			_ = conn.Close(ctx)
			return
		}
		select {
		case <-ended:
			t.Fatalf("pgbouncer: it ended:\n%s", log)
		case <-ctx.Done():
			t.Fatalf("pgbouncer: it does not serve: %v\n%s", err, log)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

func find(t testing.TB) string {
	t.Helper()
	for _, name := range []string{"pgbouncer", "/usr/sbin/pgbouncer"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	logtest.NotTested(t, "there is no PgBouncer; install the package pgbouncer")
	return ""
}

// unprivileged is the user nobody, that PgBouncer runs as when root runs the test.
func unprivileged(t testing.TB) (uid, gid int) {
	t.Helper()
	u, err := user.Lookup("nobody")
	if err != nil {
		t.Fatalf("pgbouncer: it refuses to run as root, and there is no user nobody: %v", err)
	}
	uid, errUID := strconv.Atoi(u.Uid)
	gid, errGID := strconv.Atoi(u.Gid)
	if errUID != nil || errGID != nil {
		t.Fatalf("pgbouncer: the ids of the user nobody are %s and %s", u.Uid, u.Gid)
	}
	return uid, gid
}

func freePort(t testing.TB) int {
	t.Helper()
	port, err := kafkajars.FreePort() // no outgoing connection takes it meanwhile
	if err != nil {
		t.Fatal(err)
	}
	return port
}

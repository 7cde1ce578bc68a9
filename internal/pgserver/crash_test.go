//go:build unix && !aix && !solaris

package pgserver

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// startInChild runs a server in a child process and returns its address and a way to kill the
// child, not the server.
func startInChild(t *testing.T, dir string, outlives bool) (url string, kill func()) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childEnv+"="+dir)
	if outlives {
		cmd.Env = append(cmd.Env, childOutlives+"=yes")
	}
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	killed := false
	kill = func() {
		if !killed {
			killed = true
			_ = cmd.Process.Kill()
			_ = cmd.Wait() // an error, since it was killed
			_ = in.Close()
		}
	}
	t.Cleanup(kill)
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil || !strings.HasPrefix(line, "postgres://") {
		t.Fatalf("the child says %q, %v", line, err)
	}
	return strings.TrimSpace(line), kill
}

// TestKilledParent: the server ends with the process that started it, and the next one finds
// the data.
func TestKilledParent(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(openDir(t), "d")
	url, kill := startInChild(t, dir, false)
	conn := connect(t, url)
	execute(t, conn, "create table kept as select 'by the killed' as content")
	kill()
	if runtime.GOOS == "linux" {
		// Returns when the server closes the connection; nothing else ends it.
		if _, err := conn.WaitForNotification(t.Context()); err == nil {
			t.Error("a notification from nowhere")
		}
	}
	if got := kept(t, start(t, Options{Dir: dir}).URL()); got != "by the killed" {
		t.Errorf("found %q", got)
	}
}

// TestSurvivor: a server that did not end with its parent is ended by the next start.
func TestSurvivor(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(openDir(t), "d")
	url, kill := startInChild(t, dir, true)
	conn := connect(t, url)
	execute(t, conn, "create table kept as select 'by the survivor' as content")
	kill()
	execute(t, conn, "select 1") // it lives
	survivor := readPIDFile(filepath.Join(dir, dataName)).pid
	s := start(t, Options{Dir: dir})
	if s.process.pid() == survivor {
		t.Errorf("process %d is still the one", survivor)
	}
	if err := conn.Ping(t.Context()); err == nil {
		t.Error("the survivor still answers")
	}
	if got := kept(t, s.URL()); got != "by the survivor" {
		t.Errorf("found %q", got)
	}
}

// TestSweep: temporary directories of killed processes are removed, used ones are not.
func TestSweep(t *testing.T) {
	t.Parallel()
	parent := openDir(t)
	make := func(name string, locked bool) *dirLock {
		dir := filepath.Join(parent, name)
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		if !locked {
			return nil
		}
		lock, err := lockDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		return lock
	}
	if err := make(temporaryName+"abandoned", true).release(); err != nil {
		t.Fatal(err)
	}
	used := make(temporaryName+"used", true)
	make(temporaryName+"new", false)
	make("of-others", true)
	sweepTemporary(t.Context(), parent)
	entries, err := os.ReadDir(parent)
	if err != nil {
		t.Fatal(err)
	}
	var left []string
	for _, e := range entries {
		left = append(left, e.Name())
	}
	if got := strings.Join(left, " "); got != "of-others postrider-pg-new postrider-pg-used" {
		t.Errorf("left: %s", got)
	}
	if err := used.release(); err != nil {
		t.Error(err)
	}
}

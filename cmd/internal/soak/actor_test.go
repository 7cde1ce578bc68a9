package soak

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// restartPause is what a supervisor lets pass before it starts a process again.
const restartPause = 100 * time.Millisecond

// actor is a process under a supervisor that starts it again whenever it is dead.
type actor struct {
	name    string
	command func() *exec.Cmd
	// mayExit says that it may end by itself, as one does that finds no database when it starts.
	mayExit bool
	log     *lastLog

	mu       sync.Mutex
	cmd      *exec.Cmd
	stdin    io.WriteCloser
	dead     chan struct{} // closed when the process has ended
	killed   bool          // it was to end
	starts   int
	failures []error
}

// supervise keeps the process running until ctx ends, and then ends it as an operator would.
func (a *actor) supervise(ctx context.Context) {
	for ctx.Err() == nil {
		if err := a.start(); err != nil {
			a.fail(err)
			return
		}
		select {
		case <-a.dead:
			a.mu.Lock()
			surprise := !a.killed && !a.mayExit
			a.mu.Unlock()
			if surprise {
				a.fail(fmt.Errorf("%s ended by itself: %v; it said:\n%s", a.name, a.cmd.ProcessState, a.log))
			}
		case <-ctx.Done():
			a.end()
			return
		}
		select {
		case <-time.After(restartPause):
		case <-ctx.Done():
		}
	}
}

func (a *actor) start() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	cmd := a.command()
	cmd.Stderr = a.log
	cmd.WaitDelay = time.Second
	stdin, err := cmd.StdinPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return fmt.Errorf("start %s: %w", a.name, err)
	}
	dead := make(chan struct{})
	go func() { _ = cmd.Wait(); close(dead) }()
	a.cmd, a.stdin, a.dead, a.killed = cmd, stdin, dead, false
	a.starts++
	return nil
}

func (a *actor) fail(err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.failures = append(a.failures, err)
}

// failure returns the failures of the process that the test did not cause on purpose.
func (a *actor) failure() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	return errors.Join(a.failures...)
}

// end asks the process to stop and waits for it.
func (a *actor) end() {
	_ = a.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-a.dead:
		if !a.cmd.ProcessState.Success() && !a.mayExit {
			a.fail(fmt.Errorf("%s did not stop cleanly: %v; it said:\n%s", a.name, a.cmd.ProcessState, a.log))
		}
	case <-time.After(30 * time.Second):
		a.fail(fmt.Errorf("%s did not stop within 30 s; it said:\n%s", a.name, a.log))
		_ = a.cmd.Process.Kill()
		<-a.dead
	}
}

// now is the present process. The caller must say so before it ends it.
func (a *actor) now(toBeKilled bool) (cmd *exec.Cmd, stdin io.Writer, dead chan struct{}) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.killed = a.killed || toBeKilled
	return a.cmd, a.stdin, a.dead
}

// kill ends the process as kill -9 does, and returns when it is gone.
func (a *actor) kill() {
	cmd, _, dead := a.now(true)
	_ = cmd.Process.Kill()
	<-dead
}

// dieAt has the process kill itself at a step of its cycle, or kills it when the step does not come in
// time. It reports which. One that was dead already, or ended by itself meanwhile, did not die at its step.
func (a *actor) dieAt(step string, patience time.Duration) bool {
	cmd, stdin, dead := a.now(true)
	if _, err := io.WriteString(stdin, step+"\n"); err != nil {
		<-dead // the process does not read any more
		return false
	}
	select {
	case <-dead:
		return killed(cmd.ProcessState)
	case <-time.After(patience):
		a.kill()
		return false
	}
}

// signal sends the process a signal that does not end it.
func (a *actor) signal(s syscall.Signal) error {
	cmd, _, _ := a.now(false)
	return cmd.Process.Signal(s)
}

// lastLog keeps the end of what a process writes, over all its lives, and all of it in a file if there is
// one.
type lastLog struct {
	mu   sync.Mutex
	end  []byte
	file *os.File
}

// logKept is how much of a log an error carries.
const logKept = 16 << 10

// newLog writes to a file too where SOAK_LOGS names a directory.
func newLog(t *testing.T, name string) *lastLog {
	t.Helper()
	l := &lastLog{}
	dir := os.Getenv("SOAK_LOGS")
	if dir == "" {
		return l
	}
	file, err := os.Create(filepath.Join(dir, strings.ReplaceAll(t.Name(), "/", "-")+"-"+name+".log"))
	if err != nil {
		t.Fatal(err)
	}
	l.file = file
	t.Cleanup(func() { _ = file.Close() })
	return l
}

func (l *lastLog) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.end = append(l.end, b...)
	if extra := len(l.end) - logKept; extra > 0 {
		l.end = append(l.end[:0], l.end[extra:]...)
	}
	if l.file != nil {
		_, _ = l.file.Write(b)
	}
	return len(b), nil
}

func (l *lastLog) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return string(l.end)
}

package stage

import (
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/postrider/postrider/internal/testenv/logtest"
)

// stopTimeout is longer than a program of ours may take to end.
const stopTimeout = 40 * time.Second

// Process is a program that runs beside the test.
type Process struct {
	s     *Stage
	name  string
	cmd   *exec.Cmd
	ended chan struct{}
	err   error
	log   logtest.Buffer
}

// Start starts a program with more variables in its environment. It is killed when the test ends, unless it has ended
// before.
func (s *Stage) Start(program string, environment []string, args ...string) *Process {
	s.t.Helper()
	p := &Process{s: s, name: filepath.Base(program), cmd: exec.Command(program, args...), ended: make(chan struct{})}
	p.cmd.Env = append(os.Environ(), environment...)
	p.cmd.Stdout, p.cmd.Stderr = &p.log, &p.log
	if err := p.cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	go func() {
		p.err = p.cmd.Wait()
		close(p.ended)
	}()
	s.t.Cleanup(func() {
		p.Kill()
		if s.t.Failed() {
			s.t.Logf("%s said:\n%s", p.name, p.log.String())
		}
	})
	return p
}

// Kill ends the program at once, as kill -9 does.
func (p *Process) Kill() {
	_ = p.cmd.Process.Kill() // it may have ended
	<-p.ended
}

// Stop ends the program as an operator does; the test fails unless it ends cleanly.
func (p *Process) Stop() {
	p.s.t.Helper()
	_ = p.cmd.Process.Signal(syscall.SIGTERM) // if it has ended, p.err says how
	select {
	case <-p.ended:
		if p.err != nil {
			p.s.t.Errorf("%s did not end cleanly: %v", p.name, p.err)
		}
	case <-time.After(stopTimeout):
		p.s.t.Errorf("%s did not end within %v", p.name, stopTimeout)
		p.Kill()
	}
}

// Log is what the program has said so far.
func (p *Process) Log() string { return p.log.String() }

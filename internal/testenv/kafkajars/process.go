package kafkajars

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"runtime"
	"syscall"
	"time"
)

// process is a child that dies with its parent and leads its own process
// group, so that an interrupt typed at the terminal does not reach it.
type process struct {
	pid  int
	tail *tail
	done chan struct{} // closed when the child has been reaped
	err  error         // of its exit; read after done
}

func startProcess(path string, args []string, dir string, log io.Writer) (*process, error) {
	p := &process{tail: new(tail), done: make(chan struct{})}
	out := io.Writer(p.tail)
	if log != nil {
		out = io.MultiWriter(p.tail, log)
	}
	cmd := exec.Command(path, args...)
	cmd.Dir = dir
	cmd.Stdout, cmd.Stderr = out, out
	cmd.SysProcAttr = childAttr()
	cmd.WaitDelay = 5 * time.Second
	started := make(chan error, 1)
	go func() {
		// The kernel sends the parent-death signal when the thread that forked
		// ends, not the process: this goroutine keeps its thread for itself
		// until the child is gone.
		runtime.LockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			p.err = cmd.Wait()
			close(p.done)
		}
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	p.pid = cmd.Process.Pid
	return p, nil
}

func (p *process) exited() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// signal sends sig to the child's process group. Between the child's death and
// its reaping the group still exists, so a signal never reaches a stranger as
// long as p.exited was false; a child that is gone is no error.
func (p *process) signal(sig syscall.Signal) error {
	if p.exited() {
		return nil
	}
	if err := signalGroup(p.pid, sig); err != nil && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("signal %v to process %d: %w", sig, p.pid, err)
	}
	return nil
}

// kill ends the child at once and waits until it is reaped.
func (p *process) kill() error {
	if err := p.signal(syscall.SIGKILL); err != nil {
		return err
	}
	<-p.done
	return nil
}

// terminate asks the child to end, a frozen one included, and waits; when ctx
// ends first it kills it.
func (p *process) terminate(ctx context.Context) error {
	if err := p.signal(syscall.SIGTERM); err != nil {
		return err
	}
	if err := p.signal(resumeSignal); err != nil {
		return err
	}
	select {
	case <-p.done:
		return nil
	case <-ctx.Done():
		return errors.Join(fmt.Errorf("it did not end in time and was killed: %w", context.Cause(ctx)), p.kill())
	}
}

package pgserver

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"time"
)

// pipeDelay bounds the wait for the last output of a process that has ended, which its children
// may keep open.
const pipeDelay = 2 * time.Second

// process is a running child.
type process struct {
	handle *os.Process
	log    *tail
	done   chan struct{} // closed when it has ended
	err    error         // how it ended; read after done
}

// launch starts a command and keeps the thread that did it alive as long as the child: the
// kernel ties the signal at the parent's death to the thread, not to the process.
func launch(cmd *exec.Cmd, log io.Writer) (*process, error) {
	p := &process{log: &tail{next: log}, done: make(chan struct{})}
	cmd.Stdout, cmd.Stderr = p.log, p.log
	cmd.WaitDelay = pipeDelay
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		p.handle = cmd.Process
		started <- err
		if err != nil {
			return
		}
		p.err = cmd.Wait()
		if errors.Is(p.err, exec.ErrWaitDelay) {
			p.err = nil // it ended well, only its output was cut
		}
		close(p.done)
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	return p, nil
}

func (p *process) pid() int { return p.handle.Pid }

// ended reports whether the process is over, without waiting.
func (p *process) ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// tail passes output on and remembers the last of it, for error messages.
type tail struct {
	next io.Writer

	mu   sync.Mutex
	last []byte
}

const tailBytes = 4096

// Write never fails: an error here would close the pipe that the server logs to.
func (t *tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	_, _ = t.next.Write(b)
	t.last = append(t.last, b...)
	if extra := len(t.last) - tailBytes; extra > 0 {
		t.last = append(t.last[:0], t.last[extra:]...)
	}
	return len(b), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.TrimSpace(string(t.last))
}

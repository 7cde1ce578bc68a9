package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"
)

// stopLimit is how long a child has to end when it is asked to. A relay may wait for acknowledgements and
// for the database; see app.Stop.
const stopLimit = 40 * time.Second

// child is a process of the bench: it says "ready" on stdout, or what it is ready with, waits for "go" on
// stdin if it has something to wait for, and ends when it is asked to, or when stdin ends because this
// process did.
type child struct {
	name  string
	cmd   *exec.Cmd
	stdin io.Writer
	said  chan string   // lines of stdout, closed when the child has ended its output
	over  chan struct{} // closed then too
	once  sync.Once
	ended error
}

// startSelf runs this program in another part.
func startSelf(role string, env ...string) (*child, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	return startChild(exec.Command(self, role), role, env...)
}

// startChild runs a program.
func startChild(cmd *exec.Cmd, name string, env ...string) (*child, error) {
	cmd.Env = append(os.Environ(), env...)
	cmd.Stderr = os.Stderr
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	c := &child{name: name, cmd: cmd, stdin: stdin, said: make(chan string, 16), over: make(chan struct{})}
	go func() {
		defer close(c.over)
		defer close(c.said)
		for lines := bufio.NewScanner(stdout); lines.Scan(); {
			c.said <- lines.Text()
		}
	}()
	return c, nil
}

// line waits for the child's next line.
func (c *child) line() (string, error) {
	if text, ok := <-c.said; ok {
		return text, nil
	}
	return "", fmt.Errorf("%s ended before it was asked to: %w", c.name, errors.Join(c.wait(), io.ErrUnexpectedEOF))
}

// start lets a child begin that waits for the word.
func (c *child) start() error {
	if _, err := io.WriteString(c.stdin, "go\n"); err != nil {
		return fmt.Errorf("start %s: %w", c.name, err)
	}
	return nil
}

func (c *child) pid() int { return c.cmd.Process.Pid }

func (c *child) String() string { return c.name }

func (c *child) gone() <-chan struct{} { return c.over }

// wait returns how the child ended.
func (c *child) wait() error {
	c.once.Do(func() {
		for range c.said { // Wait must not close the pipe before all is read
		}
		c.ended = c.cmd.Wait()
	})
	return c.ended
}

// stop asks the child to end and waits for it, and kills it when that takes too long. Stopping twice does
// nothing.
func (c *child) stop() error {
	_ = thaw(c)
	_ = c.cmd.Process.Signal(syscall.SIGTERM) // it may have ended just now
	killed := time.AfterFunc(stopLimit, func() { _ = c.cmd.Process.Kill() })
	err := c.wait()
	if !killed.Stop() {
		return fmt.Errorf("%s did not end within %v and was killed", c.name, stopLimit)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", c.name, err)
	}
	return nil
}

// kill ends the child at once, as a crash would.
func (c *child) kill() error {
	if err := c.cmd.Process.Kill(); err != nil {
		return fmt.Errorf("kill %s: %w", c.name, err)
	}
	_ = c.wait() // it was killed
	return nil
}

// alive returns a context that ends when one of the processes does, so that nothing waits for a dead one.
func alive(ctx context.Context, processes ...process) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	for _, p := range processes {
		go func() {
			select {
			case <-p.gone():
				cancel(fmt.Errorf("%v ended before it was asked to", p))
			case <-ctx.Done():
			}
		}()
	}
	return ctx, func() { cancel(nil) }
}

// because replaces the error of a call that was broken off by the reason why it was.
func because(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); err != nil && cause != nil && !errors.Is(err, cause) {
		return fmt.Errorf("%w (%w)", cause, err)
	}
	return err
}

// ready waits until the child has said so; one that ends instead is an error.
func (c *child) ready() error {
	text, err := c.line()
	if err == nil && text != "ready" {
		err = errors.Join(fmt.Errorf("%s said %q instead of being ready", c.name, text), c.stop())
	}
	return err
}

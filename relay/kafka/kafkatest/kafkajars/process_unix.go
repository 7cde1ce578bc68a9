//go:build unix

package kafkajars

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"
)

const (
	pauseSignal  = syscall.SIGSTOP
	resumeSignal = syscall.SIGCONT
)

func signalGroup(pid int, sig syscall.Signal) error { return syscall.Kill(-pid, sig) }

// lockFile takes an exclusive lock on path, waiting for whoever has it until
// ctx ends, and returns its release. The kernel releases it when the process
// ends.
func lockFile(ctx context.Context, path string) (release func(), err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return func() { _ = f.Close() }, nil
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR) {
			return nil, errors.Join(fmt.Errorf("lock %s: %w", path, err), f.Close())
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil, errors.Join(fmt.Errorf("lock %s, which another process holds: %w", path, context.Cause(ctx)), f.Close())
		}
	}
}

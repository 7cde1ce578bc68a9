//go:build unix

package kafkajars

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"github.com/postrider/postrider/internal/loop"
)

const (
	pauseSignal  = syscall.SIGSTOP
	resumeSignal = syscall.SIGCONT
)

func signalGroup(pid int, sig syscall.Signal) error { return syscall.Kill(-pid, sig) }

// errLocked says that another process, or another caller in this one, holds a
// lock.
var errLocked = errors.New("in use by another process")

// tryLock takes an exclusive lock on the file at path, opened with flag, and
// returns its release; the kernel releases it too when the process ends. The
// error is errLocked when another process has the lock.
func tryLock(path string, flag int) (release func(), err error) {
	f, err := os.OpenFile(path, flag, 0o644)
	if err != nil {
		return nil, err
	}
	for {
		err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if !errors.Is(err, syscall.EINTR) {
			break
		}
	}
	if errors.Is(err, syscall.EWOULDBLOCK) {
		err = errLocked
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("lock %s: %w", path, err), f.Close())
	}
	return func() { _ = f.Close() }, nil
}

// lockFile is tryLock that creates the file and waits until the lock is free or
// ctx ends.
func lockFile(ctx context.Context, path string) (release func(), err error) {
	for {
		release, err := tryLock(path, os.O_CREATE|os.O_RDWR)
		if !errors.Is(err, errLocked) {
			return release, err
		}
		if ended := loop.Sleep(ctx, 100*time.Millisecond); ended != nil {
			return nil, errors.Join(ended, err)
		}
	}
}

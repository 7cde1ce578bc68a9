//go:build !unix

package kafkajars

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"syscall"
)

// Systems without Unix signals can only kill; the other signals are refused.
const (
	pauseSignal  = syscall.Signal(-1)
	resumeSignal = syscall.Signal(-2)
)

// childDiesWithParent says whether the kernel ends the child with its parent.
const childDiesWithParent = false

func waitStopped(int) error { return nil }

func childAttr() *syscall.SysProcAttr { return nil }

func signalGroup(pid int, sig syscall.Signal) error {
	switch sig {
	case syscall.SIGKILL, syscall.SIGTERM:
		p, err := os.FindProcess(pid)
		if err != nil {
			return err
		}
		return p.Kill()
	case resumeSignal:
		return nil
	default:
		return fmt.Errorf("not possible on %s", runtime.GOOS)
	}
}

// lockFile does nothing here: two processes that resolve the jars at the same
// moment both ask Maven.
func lockFile(context.Context, string) (release func(), err error) { return func() {}, nil }

// tryLock never succeeds on a file that exists, so that no other process's
// folder is removed.
func tryLock(path string, flag int) (release func(), err error) {
	if flag&os.O_CREATE == 0 {
		return nil, errors.ErrUnsupported
	}
	return func() {}, os.WriteFile(path, nil, 0o644)
}

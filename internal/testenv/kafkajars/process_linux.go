package kafkajars

import (
	"errors"
	"syscall"

	"golang.org/x/sys/unix"
)

// childDiesWithParent says whether the kernel ends the child with its parent.
const childDiesWithParent = true

// childAttr gives the child its own process group and has the kernel kill it
// when the thread that forks it ends.
func childAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// waitStopped returns when every thread of the child has stopped, or when the
// child is dead. It leaves the child's state for its reaper to collect.
func waitStopped(pid int) error {
	for {
		err := unix.Waitid(unix.P_PID, pid, nil, unix.WSTOPPED|unix.WEXITED|unix.WNOWAIT, nil)
		switch {
		case errors.Is(err, unix.EINTR):
		case errors.Is(err, unix.ECHILD): // dead and reaped
			return nil
		default:
			return err
		}
	}
}

//go:build unix

package main

import (
	"errors"
	"os"
	"syscall"
)

// groupAttr gives the command a process group: an interrupt typed at the
// terminal comes to it through testrig, once.
func groupAttr() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// signalGroup sends the signal to the command and all that it started. That
// they are gone is no error.
func signalGroup(p *os.Process, sig os.Signal) error {
	err := syscall.Kill(-p.Pid, sig.(syscall.Signal))
	if errors.Is(err, syscall.ESRCH) {
		return nil
	}
	return err
}

// endedBy returns the signal that ended the process, nil when it exited.
func endedBy(state *os.ProcessState) os.Signal {
	if s, ok := state.Sys().(syscall.WaitStatus); ok && s.Signaled() {
		return s.Signal()
	}
	return nil
}

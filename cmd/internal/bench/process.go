package main

import (
	"fmt"
	"syscall"
)

// process is what a side runs: a part of this program, a program of others, or a Java machine.
type process interface {
	pid() int
	// gone is closed when it has ended.
	gone() <-chan struct{}
	// stop asks it to end and waits for it; an end before that is an error.
	stop() error
}

// freeze stops a process where it is, while its backlog is written; thaw lets it go on.
func freeze(p process) error { return send(p, syscall.SIGSTOP) }

func thaw(p process) error { return send(p, syscall.SIGCONT) }

func send(p process, s syscall.Signal) error {
	if err := syscall.Kill(p.pid(), s); err != nil {
		return fmt.Errorf("send %v to process %d: %w", s, p.pid(), err)
	}
	return nil
}

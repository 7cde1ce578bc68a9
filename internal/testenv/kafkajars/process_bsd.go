//go:build unix && !linux

package kafkajars

import "syscall"

// childDiesWithParent says whether the kernel ends the child with its parent.
const childDiesWithParent = false

// childAttr gives the child its own process group. These systems have no
// signal for the death of a parent.
func childAttr() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// waitStopped does nothing: without waitid the stop is only known to be asked for.
func waitStopped(int) error { return nil }

//go:build unix && !linux && !aix && !solaris

package pgserver

import "syscall"

// attributes puts a child into a process group of its own, so that Ctrl-C in the terminal
// reaches us and not the child, and under the account. This system cannot tell a child of its
// parent's death; a server that stays behind is ended by the next Start.
func attributes(a account, _ syscall.Signal) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Credential: a.credential()}
}

package pgserver

import "syscall"

// attributes puts a child into a process group of its own, so that Ctrl-C in the terminal
// reaches us and not the child, under the account, and has the kernel send it a signal when
// the thread that started it ends (0 for none).
func attributes(a account, atParentsDeath syscall.Signal) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Credential: a.credential(), Pdeathsig: atParentsDeath}
}

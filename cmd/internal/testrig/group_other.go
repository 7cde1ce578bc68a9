//go:build !unix

package main

import (
	"os"
	"syscall"
)

func groupAttr() *syscall.SysProcAttr { return nil }

// signalGroup can only kill here.
func signalGroup(p *os.Process, _ os.Signal) error { return p.Kill() }

func endedBy(*os.ProcessState) os.Signal { return nil }

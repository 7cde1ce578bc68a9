package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"
)

// exitOwnFailure says that testrig itself failed, not the command.
const exitOwnFailure = 125

// stopTimeout bounds the end of the servers.
const stopTimeout = 30 * time.Second

// service is a server that runs, here or elsewhere.
type service struct {
	name string                      // like "PostgreSQL 15.18 (local binaries)"
	env  []string                    // what the command must know, as NAME=value
	stop func(context.Context) error // nil when it is not ours to stop
}

// starter starts a service.
type starter func(context.Context) (service, error)

type rig struct {
	services       []starter
	environ        []string
	stdout, stderr io.Writer
}

// run does the whole work and returns the exit code. signals are the signals that
// reach this process.
func (r rig) run(signals <-chan os.Signal, args []string) int {
	if len(args) < 2 || args[0] != "--" {
		r.say("usage: testrig -- command [argument...]")
		return exitOwnFailure
	}
	services, sig, err := r.startAll(signals)
	defer r.stopAll(services)
	if sig != nil {
		return exitSignal(sig)
	}
	if err != nil {
		r.say(err.Error())
		return exitOwnFailure
	}
	names, env := make([]string, 0, len(services)), r.environ
	for _, s := range services {
		names, env = append(names, s.name), append(env, s.env...)
	}
	r.say(strings.Join(names, ", "))
	return r.command(signals, args[1:], env)
}

func (r rig) say(text string) { _, _ = fmt.Fprintf(r.stderr, "testrig: %s\n", text) }

// startAll starts the services side by side and returns the services that
// run, in order. A signal breaks the start off and is returned.
func (r rig) startAll(signals <-chan os.Signal) (started []service, sig os.Signal, err error) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var (
		wg    sync.WaitGroup
		all   = make([]service, len(r.services))
		errs  = make([]error, len(r.services))
		ready = make(chan struct{})
	)
	for i, start := range r.services {
		wg.Go(func() {
			if all[i], errs[i] = start(ctx); errs[i] != nil {
				cancel() // the others are of no use without it
			}
		})
	}
	go func() { wg.Wait(); close(ready) }()
	select {
	case <-ready:
	case sig = <-signals:
		cancel()
		<-ready
	}
	for i, s := range all {
		if errs[i] == nil {
			started = append(started, s)
		}
	}
	return started, sig, firstCause(errs)
}

// firstCause joins the errors of the services that failed, without the services
// that were only broken off because another one failed.
func firstCause(errs []error) error {
	var causes []error
	for _, err := range errs {
		if err != nil && !errors.Is(err, context.Canceled) {
			causes = append(causes, err)
		}
	}
	if len(causes) == 0 {
		return errors.Join(errs...)
	}
	return errors.Join(causes...)
}

func (r rig) stopAll(services []service) {
	ctx, cancel := context.WithTimeout(context.Background(), stopTimeout)
	defer cancel()
	var wg sync.WaitGroup
	errs := make([]error, len(services))
	for i, s := range services {
		if s.stop != nil {
			wg.Go(func() { errs[i] = s.stop(ctx) })
		}
	}
	wg.Wait()
	for i, err := range errs {
		if err != nil {
			r.say(fmt.Sprintf("stop %s: %v", services[i].name, err))
		}
	}
}

// command runs the command in a process group of its own, to which the first
// signal is passed on and which the second one kills.
func (r rig) command(signals <-chan os.Signal, args, env []string) int {
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Env, cmd.Stdout, cmd.Stderr = env, r.stdout, r.stderr
	cmd.SysProcAttr = groupAttr()
	if err := cmd.Start(); err != nil {
		r.say(fmt.Sprintf("start the command: %v", err))
		return exitOwnFailure
	}
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	for n := 1; ; n++ {
		select {
		case err := <-done:
			return r.exitCode(cmd, err)
		case sig := <-signals:
			if n > 1 {
				sig = syscall.SIGKILL
			}
			if err := signalGroup(cmd.Process, sig); err != nil {
				r.say(fmt.Sprintf("pass %v on to the command: %v", sig, err))
			}
		}
	}
}

func (r rig) exitCode(cmd *exec.Cmd, err error) int {
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		r.say(fmt.Sprintf("wait for the command: %v", err))
		return exitOwnFailure
	}
	if sig := endedBy(cmd.ProcessState); sig != nil {
		return exitSignal(sig)
	}
	return cmd.ProcessState.ExitCode()
}

// exitSignal is the exit code that shells give to what a signal ended.
func exitSignal(sig os.Signal) int {
	if s, ok := sig.(syscall.Signal); ok {
		return 128 + int(s)
	}
	return exitOwnFailure
}

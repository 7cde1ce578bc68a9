//go:build unix && !aix && !solaris

package pgserver

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const (
	pidFileName = "postmaster.pid"
	pollEvery   = 10 * time.Millisecond
)

// pidFile is what the server writes about itself into its data directory.
type pidFile struct {
	pid    int
	status string // "starting", "ready", "stopping" …; empty at first
}

// readPIDFile returns the zero value when there is no file, or none that is complete.
func readPIDFile(data string) pidFile {
	raw, err := os.ReadFile(filepath.Join(data, pidFileName))
	if err != nil {
		return pidFile{}
	}
	lines := strings.Split(string(raw), "\n")
	pid, err := strconv.Atoi(strings.TrimSpace(lines[0]))
	if err != nil || pid < 1 {
		return pidFile{}
	}
	f := pidFile{pid: pid}
	if len(lines) > 7 {
		f.status = strings.TrimSpace(lines[7])
	}
	return f
}

// endSurvivors ends the server processes that work in a data directory whose lock we hold:
// the remains of a server whose Postrider was killed. First politely, so that the data needs
// no recovery; each step has its time, and all of them end with ctx.
func endSurvivors(ctx context.Context, data string) error {
	if _, err := os.Stat(filepath.Join(data, pidFileName)); errors.Is(err, os.ErrNotExist) {
		return nil // it was shut down in order
	}
	for _, attempt := range []struct {
		signal   syscall.Signal
		patience time.Duration
	}{
		{syscall.SIGINT, 20 * time.Second}, // fast shutdown
		{syscall.SIGQUIT, 5 * time.Second}, // immediate shutdown
		{syscall.SIGKILL, 5 * time.Second},
	} {
		running, err := serversIn(data)
		if err != nil {
			return fmt.Errorf("pgserver: look for a server that still runs in %s: %w", data, err)
		}
		if len(running) == 0 {
			return removeForeignPIDFile(data)
		}
		postmaster := readPIDFile(data).pid
		for _, pid := range running {
			signal := attempt.signal
			if signal == syscall.SIGINT && pid != postmaster {
				if slices.Contains(running, postmaster) {
					continue // the postmaster ends its children
				}
				signal = syscall.SIGQUIT // to an orphan SIGINT means no more than cancel
			}
			if err := syscall.Kill(pid, signal); err != nil && !errors.Is(err, syscall.ESRCH) {
				return fmt.Errorf("pgserver: end process %d, a server that still runs in %s: %w", pid, data, err)
			}
		}
		if gone, err := waitUntilGone(ctx, data, attempt.patience); err != nil || gone {
			return err
		}
	}
	return fmt.Errorf("pgserver: a server that still runs in %s does not end, not even when killed; process %d", data, readPIDFile(data).pid)
}

func waitUntilGone(ctx context.Context, data string, patience time.Duration) (bool, error) {
	poll := time.NewTicker(pollEvery)
	defer poll.Stop()
	limit := time.NewTimer(patience)
	defer limit.Stop()
	for {
		running, err := serversIn(data)
		if err != nil {
			return false, fmt.Errorf("pgserver: look for a server that still runs in %s: %w", data, err)
		}
		if len(running) == 0 {
			return true, removeForeignPIDFile(data)
		}
		select {
		case <-ctx.Done():
			return false, fmt.Errorf("pgserver: waiting for process %d, a server that still runs in %s, to end: %w", running[0], data, context.Cause(ctx))
		case <-limit.C:
			return false, nil
		case <-poll.C:
		}
	}
}

// removeForeignPIDFile removes a left-over pid file whose number now belongs to a process that
// is no server of this directory, as is usual after a container restarts. PostgreSQL itself
// would take that process for its predecessor and refuse to start. With a number that no process
// has it copes, and its own checks are better than ours.
func removeForeignPIDFile(data string) error {
	pid := readPIDFile(data).pid
	if pid == 0 || errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
		return nil
	}
	if err := os.Remove(filepath.Join(data, pidFileName)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("pgserver: remove the pid file of a server that is gone: %w", err)
	}
	return nil
}

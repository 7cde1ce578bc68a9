//go:build unix && !aix && !solaris

package pgserver

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// errLocked says that another process, or another Server of this one, uses the directory.
var errLocked = errors.New("the directory is in use")

// dirLock gives a directory to one Server at a time. The kernel lets go of it when the process
// ends, however it ends.
type dirLock struct{ file *os.File }

const lockName = "lock"

func lockDir(dir string) (*dirLock, error) {
	return openLock(dir, os.O_RDWR|os.O_CREATE)
}

// lockExisting is lockDir for a directory that must have been locked before.
func lockExisting(dir string) (*dirLock, error) {
	return openLock(dir, os.O_RDWR)
}

func openLock(dir string, flags int) (*dirLock, error) {
	file, err := os.OpenFile(filepath.Join(dir, lockName), flags|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, fmt.Errorf("pgserver: open the lock: %w", err)
	}
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		defer file.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			holder, _ := io.ReadAll(io.LimitReader(file, 32))
			return nil, fmt.Errorf("pgserver: %s: %w by process %s; stop that one first, or use another directory",
				dir, errLocked, strings.TrimSpace(string(holder)))
		}
		return nil, fmt.Errorf("pgserver: lock %s: %w", file.Name(), err)
	}
	// The number is for the message above only.
	_ = file.Truncate(0)
	_, _ = file.WriteAt(fmt.Appendf(nil, "%d\n", os.Getpid()), 0)
	return &dirLock{file}, nil
}

func (l *dirLock) release() error { return l.file.Close() }

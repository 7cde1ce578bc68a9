//go:build unix && !aix && !solaris

package pgserver

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// temporaryName begins the names of temporary directories.
const temporaryName = "postrider-pg-"

// sweepTimeout bounds what a start spends on the remains of others.
const sweepTimeout = 3 * time.Second

// lockTemporary makes a directory of our own among the temporary files. A sweep
// of another process may lock it in the moment between; then the next is tried.
func (c *cluster) lockTemporary(parent string) error {
	var err error
	if c.account, err = chooseAccount(filepath.Join(parent, temporaryName, dataName)); err != nil {
		return err
	}
	for range 10 {
		dir, mkErr := os.MkdirTemp(parent, temporaryName)
		if mkErr != nil {
			return fmt.Errorf("pgserver: create a temporary directory: %w", mkErr)
		}
		if c.dir, err = filepath.EvalSymlinks(dir); err != nil {
			return fmt.Errorf("pgserver: %w", err)
		}
		if err = os.Chmod(c.dir, c.account.dirMode()); err != nil {
			return fmt.Errorf("pgserver: open the temporary directory to the user %s: %w", c.account.name, err)
		}
		if c.lock, err = lockDir(c.dir); !errors.Is(err, errLocked) {
			return err
		}
	}
	return err
}

// sweepTemporary removes the temporary directories of processes that were killed: directories of our
// user that were locked once and are not any more. A directory that cannot be removed is left for the next sweep.
func sweepTemporary(ctx context.Context, parent string) {
	ctx, cancel := context.WithTimeout(ctx, sweepTimeout)
	defer cancel()
	dirs, err := filepath.Glob(filepath.Join(parent, temporaryName+"*"))
	if err != nil {
		return
	}
	for _, dir := range dirs {
		info, err := os.Lstat(dir)
		if err != nil || !info.IsDir() {
			continue
		}
		if owner, _, err := ownerOf(dir); err != nil || owner != os.Geteuid() {
			continue
		}
		real, err := filepath.EvalSymlinks(dir)
		if err != nil {
			continue
		}
		lock, err := lockExisting(real)
		if err != nil {
			continue
		}
		if endSurvivors(ctx, filepath.Join(real, dataName)) == nil {
			_ = os.RemoveAll(real)
		}
		_ = lock.release()
	}
}

//go:build unix

package devstack

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// lockDir keeps a second broker out of dir, whose files two writers would
// ruin. The kernel takes the lock back when the process ends in any way.
func lockDir(dir string) (unlock func() error, err error) {
	path := filepath.Join(dir, "LOCK")
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, fmt.Errorf("lock the embedded Kafka broker's folder: %w", err)
	}
	// A lock that was just given up may live on for a moment in a child that another goroutine is forking.
	err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	for deadline := time.Now().Add(time.Second); errors.Is(err, syscall.EWOULDBLOCK) && time.Now().Before(deadline); {
		time.Sleep(20 * time.Millisecond)
		err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	}
	if err != nil {
		if errors.Is(err, syscall.EWOULDBLOCK) {
			err = errors.New("another broker uses it; stop that one, or choose another folder")
		}
		return nil, errors.Join(fmt.Errorf("lock the embedded Kafka broker's folder %s: %w", dir, err), f.Close())
	}
	return f.Close, nil
}

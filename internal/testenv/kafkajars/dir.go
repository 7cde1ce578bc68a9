package kafkajars

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// makeDir makes the broker's folder, a temporary one when the caller gave none.
func (b *Broker) makeDir() (err error) {
	if b.opts.Dir == "" {
		b.dir, b.release, err = tempDir(os.TempDir())
		return err
	}
	if b.dir, err = filepath.Abs(b.opts.Dir); err != nil {
		return fmt.Errorf("folder of the Kafka broker %q: %w", b.opts.Dir, err)
	}
	if err := os.MkdirAll(b.dir, 0o755); err != nil {
		return fmt.Errorf("make the Kafka broker's folder: %w", err)
	}
	return nil
}

// tempPrefix begins the names of temporary folders, tempLock is the file in
// them that their owner keeps locked.
const (
	tempPrefix = "postrider-kafka-"
	tempLock   = "LOCK"
)

// tempDir makes a temporary folder in root that belongs to this process until
// release. It first removes folders whose owners were killed, as a test
// that runs out of time is, before they could do so themselves.
func tempDir(root string) (dir string, release func(), err error) {
	abandoned, _ := filepath.Glob(filepath.Join(root, tempPrefix+"*"))
	for _, old := range abandoned {
		unlock, err := tryLock(filepath.Join(old, tempLock), os.O_RDWR)
		if err != nil {
			continue // in use, another user's, or not complete yet
		}
		_ = os.RemoveAll(old)
		unlock()
	}
	if dir, err = os.MkdirTemp(root, tempPrefix); err != nil {
		return "", nil, fmt.Errorf("make a temporary folder for the Kafka broker: %w", err)
	}
	// Locked before it has its name: a process that sees the lock finds it taken.
	fresh := filepath.Join(dir, tempLock+".new")
	release, err = tryLock(fresh, os.O_CREATE|os.O_RDWR)
	if err == nil {
		if err = os.Rename(fresh, filepath.Join(dir, tempLock)); err != nil {
			release()
		}
	}
	if err != nil {
		err = fmt.Errorf("lock the Kafka broker's temporary folder: %w", err)
		return "", nil, errors.Join(err, os.RemoveAll(dir))
	}
	return dir, release, nil
}

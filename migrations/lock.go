package migrations

import (
	"context"
	_ "embed"
	"fmt"
	"time"
)

var (
	//go:embed history/lock.sql
	lockTry string
	//go:embed history/unlock.sql
	lockRelease string
)

const (
	// lockKey is "Postride" in ASCII. Advisory locks are per database.
	lockKey int64 = 0x506f737472696465
	// lockRetry is how often a waiting migrator looks again.
	lockRetry = 100 * time.Millisecond
	// tidyTimeout bounds what has to be done after the caller's context has ended.
	tidyTimeout = 5 * time.Second
)

// detached is for cleaning up when ctx may have ended already.
func detached(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), tidyTimeout)
}

// lock takes the session lock of migrators, waiting as long as ctx lives, and returns the
// function that gives it back.
func (r *Runner) lock(ctx context.Context) (unlock func() error, err error) {
	retry := time.NewTicker(lockRetry)
	defer retry.Stop()
	for first := true; ; first = false {
		var acquired bool
		var holder string
		if err := r.conn.QueryRow(ctx, lockTry, lockKey).Scan(&acquired, &holder); err != nil {
			return nil, fmt.Errorf("migrations: take the migration lock: %w", err)
		}
		if acquired {
			return func() error { return r.unlock(ctx) }, nil
		}
		if first {
			r.waiting(holder)
		}
		select {
		case <-ctx.Done():
		case <-retry.C:
		}
		if ctx.Err() != nil {
			return nil, fmt.Errorf("migrations: the migration lock is held by %s: %w; if that is not a migrator at work, end it with pg_terminate_backend",
				holder, context.Cause(ctx))
		}
	}
}

func (r *Runner) unlock(ctx context.Context) error {
	if r.conn.IsClosed() {
		return nil // the lock ended with the session
	}
	ctx, cancel := detached(ctx)
	defer cancel()
	if _, err := r.conn.Exec(ctx, lockRelease, lockKey); err != nil {
		return fmt.Errorf("migrations: release the migration lock (it ends with the connection): %w", err)
	}
	return nil
}

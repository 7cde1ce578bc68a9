package migrations

import (
	"context"
	_ "embed"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/loop"
)

//go:embed history/lock.sql
var lockTry string

const (
	// lockKey is "Postride" in ASCII. Advisory locks are per database.
	lockKey int64 = 0x506f737472696465
	// lockRetry is the pause before a waiting migrator tries again.
	lockRetry = 100 * time.Millisecond
	// tidyTimeout bounds what has to be done after the caller's context has ended.
	tidyTimeout = 5 * time.Second
)

// detached is for cleaning up when ctx may have ended already.
func detached(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), tidyTimeout)
}

// begin begins a transaction that has the lock of migrators, waiting for it as long as ctx lives. The lock
// ends with the transaction, so it works through a pooler in transaction mode too, where another client has
// the session the next moment.
func (r *Runner) begin(ctx context.Context) (pgx.Tx, error) {
	for {
		tx, err := r.conn.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.ReadCommitted, AccessMode: pgx.ReadWrite})
		if err != nil {
			return nil, fmt.Errorf("migrations: begin: %w", err)
		}
		var acquired bool
		var holder string
		if err := tx.QueryRow(ctx, lockTry, lockKey).Scan(&acquired, &holder); err != nil {
			r.rollback(ctx, tx)
			return nil, fmt.Errorf("migrations: take the migration lock: %w", err)
		}
		if acquired {
			return tx, nil
		}
		r.rollback(ctx, tx) // an open one would keep a snapshot, which another migrator may have to wait for
		if !r.waited {
			r.waited = true
			r.waiting(holder)
		}
		if err := loop.Sleep(ctx, lockRetry); err != nil {
			return nil, fmt.Errorf("migrations: the migration lock is held by %s: %w; if that is not a migrator at work, end it with pg_terminate_backend",
				holder, err)
		}
	}
}

// rollback ends a transaction, which is over on the server even if this cannot be told any more.
func (r *Runner) rollback(ctx context.Context, tx pgx.Tx) {
	tidy, cancel := detached(ctx)
	defer cancel()
	_ = tx.Rollback(tidy)
}

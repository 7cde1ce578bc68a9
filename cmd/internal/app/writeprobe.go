package app

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// writePause is how often the database is tried with a write: often enough for readiness, and nothing beside the work of
// a database, however often a load balancer asks.
const writePause = 10 * time.Second

//go:embed queries/write_probe.sql
var writeProbeQuery string

// writeProbe tries whether the database takes writes. A database may answer every question and take none: its disk is
// full, or the standby that commits wait for is away.
type writeProbe struct {
	pool *pgxpool.Pool

	mu   sync.Mutex
	last time.Time
	err  error
}

// check returns what became of the last try, which is not older than writePause.
func (w *writeProbe) check(ctx context.Context) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.last.IsZero() && time.Since(w.last) < writePause {
		return w.err
	}
	err := w.write(ctx)
	if !errors.Is(ctx.Err(), context.Canceled) { // what was not waited for says nothing
		w.err, w.last = err, time.Now()
	}
	return err
}

// write writes a row and takes it back, and commits: the row needs a page of the disk, the commit an answer of all that
// commits wait for, and nothing is left to delete.
func (w *writeProbe) write(ctx context.Context) error {
	takenBack := errors.New("the row is taken back")
	err := pgx.BeginTxFunc(ctx, w.pool, pgx.TxOptions{AccessMode: pgx.ReadWrite}, func(tx pgx.Tx) error {
		err := pgx.BeginFunc(ctx, tx, func(tx pgx.Tx) error {
			if _, err := tx.Exec(ctx, writeProbeQuery); err != nil {
				return err
			}
			return takenBack
		})
		if errors.Is(err, takenBack) {
			return nil
		}
		return err
	})
	var refused *pgconn.PgError
	switch {
	case errors.As(err, &refused) && refused.Code == "53100": // disk_full
		return fmt.Errorf("the disk of the database is full: %w; give it room, and see with postrider doctor whether retention runs", err)
	case err != nil:
		return fmt.Errorf("the database takes no writes: %w", err)
	}
	return nil
}

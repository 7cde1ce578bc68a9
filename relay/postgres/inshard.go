package postgres

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// errBusy: somebody held a lock for longer than it was waited for.
var errBusy = errors.New("locked by somebody else")

// inShard runs f in a transaction that holds the shard's lock.
func (s *Store) inShard(ctx context.Context, shard int16, f func(pgx.Tx) error) error {
	return s.inTurn(ctx, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, lockShard, shard); err != nil {
			return err
		}
		return f(tx)
	})
}

// inTurn runs f in a transaction that waits for no lock for long: then it returns errBusy.
func (s *Store) inTurn(ctx context.Context, f func(pgx.Tx) error) error {
	return asBusy(pgx.BeginTxFunc(ctx, s.pool, pgx.TxOptions{IsoLevel: pgx.ReadCommitted}, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "set local lock_timeout = '1s'"); err != nil {
			return err
		}
		return f(tx)
	}))
}

func asBusy(err error) error {
	var pg *pgconn.PgError
	if errors.As(err, &pg) && pg.Code == "55P03" { // lock_not_available
		return errBusy
	}
	return err
}

// inOneRoundTrip sends a whole transaction, from begin to commit, at once. queue adds its statements, and
// what is to be done with their results; what that notes is only to be believed when there is no error.
func (s *Store) inOneRoundTrip(ctx context.Context, queue func(*pgx.Batch)) error {
	conn, err := s.pool.Acquire(ctx)
	if err != nil {
		return err
	}
	defer giveBack(conn)
	b := &pgx.Batch{}
	queueBegin(b, conn.Conn())
	queue(b)
	b.Queue("commit")
	return asBusy(conn.SendBatch(ctx, b).Close())
}

// giveBack ends a transaction that an error left open, and gives its connection back. One on which that fails
// is in no known state; the pool closes it because its transaction status is not idle.
func giveBack(conn *pgxpool.Conn) {
	if !conn.Conn().IsClosed() && conn.Conn().PgConn().TxStatus() != 'I' {
		ctx, cancel := context.WithTimeout(context.Background(), abandonTimeout)
		defer cancel()
		_, _ = conn.Exec(ctx, "rollback")
	}
	conn.Release()
}

package postgres

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/postrider/postrider/internal/loop"
)

// sessions is a pool whose statements run under the settings wherever its connections lead. Where the session does not have
// them, behind a pooler or in a pool that NewPool did not open, a single statement becomes a transaction of its own, in one
// round trip.
type sessions struct{ *pgxpool.Pool }

// fullPause and fullFor say how often, and for how long, a session is asked for again when the server has no more.
const (
	fullPause = 20 * time.Millisecond
	fullFor   = 5 * time.Second
)

// Acquire is the pool's Acquire. When the server refuses another session it waits for one that the pool has: a relay with few
// sessions works more slowly.
func (s sessions) Acquire(ctx context.Context) (*pgxpool.Conn, error) {
	for began := time.Now(); ; {
		conn, err := s.Pool.Acquire(ctx)
		var pg *pgconn.PgError
		if !errors.As(err, &pg) || pg.Code != "53300" || s.Stat().TotalConns() == 0 || time.Since(began) > fullFor {
			return conn, err
		}
		if loop.Sleep(ctx, fullPause) != nil {
			return nil, err
		}
	}
}

// Query runs a query. Reading its rows to the end, or closing them, gives the connection back.
func (s sessions) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	conn, err := s.Acquire(ctx)
	if err != nil {
		return nil, err
	}
	r := &sessionRows{conn: conn}
	if _, bound := localOf(conn.Conn()); !bound {
		if r.Rows, err = conn.Query(ctx, sql, args...); err != nil {
			conn.Release()
			return nil, err
		}
		return r, nil
	}
	b := &pgx.Batch{}
	n := queueBegin(b, conn.Conn())
	b.Queue(sql, args...)
	b.Queue("commit")
	r.batch = conn.SendBatch(ctx, b)
	if err = begun(r.batch, n); err == nil {
		r.Rows, err = r.batch.Query()
	}
	if err != nil {
		return nil, errors.Join(err, r.end())
	}
	return r, nil
}

// QueryRow runs a query for one row.
func (s sessions) QueryRow(ctx context.Context, sql string, args ...any) pgx.Row {
	rows, err := s.Query(ctx, sql, args...)
	return sessionRow{rows, err}
}

// Exec runs a statement without rows.
func (s sessions) Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	rows, err := s.Query(ctx, sql, args...)
	if err != nil {
		return pgconn.CommandTag{}, err
	}
	rows.Close()
	return rows.CommandTag(), rows.Err()
}

// Send runs statements in one round trip, as one transaction. Their results go to the functions queued with them.
func (s sessions) Send(ctx context.Context, b *pgx.Batch) error {
	conn, err := s.Acquire(ctx)
	if err != nil {
		return err
	}
	defer conn.Release()
	if _, bound := localOf(conn.Conn()); bound {
		statements := b.QueuedQueries
		b = &pgx.Batch{}
		queueBegin(b, conn.Conn())
		b.QueuedQueries = append(b.QueuedQueries, statements...)
		b.Queue("commit")
	}
	return conn.SendBatch(ctx, b).Close()
}

// BeginTx begins a transaction. Of the options it takes the isolation level read committed, which is what
// the relay works with, and no other.
func (s sessions) BeginTx(ctx context.Context, o pgx.TxOptions) (pgx.Tx, error) {
	conn, err := s.Acquire(ctx)
	if err != nil {
		return nil, err
	}
	if settings, bound := localOf(conn.Conn()); bound {
		o = pgx.TxOptions{BeginQuery: beginReadCommitted + settings.script}
	}
	tx, err := conn.BeginTx(ctx, o)
	if err != nil {
		conn.Release()
		return nil, err
	}
	return &sessionTx{Tx: tx, conn: conn}, nil
}

// sessionTx gives its connection back when it ends.
type sessionTx struct {
	pgx.Tx
	conn *pgxpool.Conn
}

func (t *sessionTx) Commit(ctx context.Context) error { return t.ended(t.Tx.Commit(ctx)) }

func (t *sessionTx) Rollback(ctx context.Context) error { return t.ended(t.Tx.Rollback(ctx)) }

func (t *sessionTx) ended(err error) error {
	if t.conn != nil {
		t.conn.Release()
		t.conn = nil
	}
	return err
}

// sessionRows gives its connection back when the rows end.
type sessionRows struct {
	pgx.Rows
	conn  *pgxpool.Conn
	batch pgx.BatchResults // nil where there is no pooler
	err   error            // of ending the transaction
}

// Next is that of pgx.Rows.
func (r *sessionRows) Next() bool {
	if r.Rows.Next() {
		return true
	}
	r.Close()
	return false
}

// Close is that of pgx.Rows.
func (r *sessionRows) Close() {
	r.Rows.Close()
	r.err = errors.Join(r.err, r.end())
}

// Err is that of pgx.Rows; the rows of a transaction that could not be ended are not to be believed.
func (r *sessionRows) Err() error {
	if err := r.Rows.Err(); err != nil {
		return err
	}
	return r.err
}

// end ends the transaction and gives the connection back.
func (r *sessionRows) end() error {
	if r.conn == nil {
		return nil
	}
	var err error
	if r.batch != nil {
		err = r.batch.Close()
		if r.conn.Conn().PgConn().TxStatus() == 'E' {
			ctx, cancel := context.WithTimeout(context.Background(), abandonTimeout)
			defer cancel()
			_, _ = r.conn.Exec(ctx, "rollback") // the pool closes a connection on which that fails
		}
	}
	r.conn.Release()
	r.conn = nil
	return err
}

// sessionRow is a row to come.
type sessionRow struct {
	rows pgx.Rows
	err  error
}

// Scan reads the row.
func (r sessionRow) Scan(dest ...any) error {
	if r.err != nil {
		return r.err
	}
	defer r.rows.Close()
	if !r.rows.Next() {
		if err := r.rows.Err(); err != nil {
			return err
		}
		return pgx.ErrNoRows
	}
	if err := r.rows.Scan(dest...); err != nil {
		return err
	}
	r.rows.Close()
	return r.rows.Err()
}

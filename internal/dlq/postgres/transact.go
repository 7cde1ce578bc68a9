package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// steady is begin for statements that look at rows by their keys.
const steady = begin + "; set local jit = off; " + byKeys

// byKeys makes the planner look at rows by their keys, as many as a statement was given, to the end of the transaction.
// After a bulk load the planner knows nothing of the new rows, and would rather read whole tables.
const byKeys = "set local enable_seqscan = off; set local enable_hashjoin = off; set local enable_mergejoin = off"

// unhurried is steady for what need not outlive a crash of this server, because the next look finds it out again: its commit waits for
// no disk.
const unhurried = steady + "; set local synchronous_commit = off"

// attempts is how often a transaction is tried at most when others get in its way.
const attempts = 5

// transact runs f in a transaction. If it deadlocked with another transaction, or met a row that another one inserted at
// the same time, it is made again, with f from its beginning: every transaction takes its locks in an order, but not all
// take the same locks.
func transact(ctx context.Context, pool *pgxpool.Pool, begin string, f func(pgx.Tx) error) error {
	for n := 1; ; n++ {
		err := pgx.BeginTxFunc(ctx, pool, pgx.TxOptions{BeginQuery: begin}, f)
		if !passing(err) || n == attempts {
			return err
		}
	}
}

// send asks all that is queued in one round trip. What comes back is for the functions that were queued with it.
func send(ctx context.Context, tx pgx.Tx, b *pgx.Batch) error { return tx.SendBatch(ctx, b).Close() }

// queueValue queues a query that returns one value.
func queueValue[T any](b *pgx.Batch, into *T, query string, args ...any) {
	b.Queue(query, args...).QueryRow(func(row pgx.Row) error { return row.Scan(into) })
}

// queueRows queues a query that returns a list.
func queueRows[T any](b *pgx.Batch, into *[]T, scan pgx.RowToFunc[T], query string, args ...any) {
	b.Queue(query, args...).Query(func(rows pgx.Rows) (err error) {
		*into, err = pgx.CollectRows(rows, scan)
		return err
	})
}

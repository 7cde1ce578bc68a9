package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"
)

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

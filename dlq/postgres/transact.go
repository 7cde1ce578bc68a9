package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// steady is begin for statements that look at rows by their keys, as many as they were given. After a bulk load the
// planner knows nothing of what is there, and would rather read whole tables.
const steady = begin + "; set local jit = off; set local enable_seqscan = off; set local enable_hashjoin = off; set local enable_mergejoin = off"

// attempts is how often a transaction is made that others got in the way of.
const attempts = 5

// transact runs f in a transaction. Where it deadlocked with somebody's, or met what another inserted at the same time,
// it is made again, with f from its beginning: all locks are taken in an order, but not all rooms take the same ones.
func transact(ctx context.Context, pool *pgxpool.Pool, begin string, f func(pgx.Tx) error) error {
	for n := 1; ; n++ {
		err := pgx.BeginTxFunc(ctx, pool, pgx.TxOptions{BeginQuery: begin}, f)
		if !passing(err) || n == attempts {
			return err
		}
	}
}

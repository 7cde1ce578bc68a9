package postgres

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/postrider/postrider/relay"
)

// What people do by hand, in a transaction of the caller, who writes there who did it. Each runs in a savepoint,
// so that a refusal leaves the transaction as it was.

// ReleaseIn is Release in the transaction of the caller.
func (s *Store) ReleaseIn(ctx context.Context, tx pgx.Tx, holdID int64) (r Released, err error) {
	err = pgx.BeginFunc(ctx, tx, func(tx pgx.Tx) error {
		r, err = release(ctx, tx, holdID)
		return err
	})
	return r, err
}

// SkipIn is Skip in the transaction of the caller.
func (s *Store) SkipIn(ctx context.Context, tx pgx.Tx, id int64, reason string) error {
	return onEventIn(ctx, tx, id, skipEvent, text(reason))
}

// RedriveIn is Redrive in the transaction of the caller.
func (s *Store) RedriveIn(ctx context.Context, tx pgx.Tx, id int64) error {
	return onEventIn(ctx, tx, id, redriveEvent)
}

func onEventIn(ctx context.Context, tx pgx.Tx, id int64, query string, args ...any) error {
	return refusal(id, asBusy(pgx.BeginFunc(ctx, tx, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, query, append([]any{id}, args...)...)
		return err
	})))
}

// PurgeDeliveredIn removes, in the transaction of the caller, published events that have been there long enough,
// whatever retention says: of l it takes Keep, Rows and From. The table's walk is locked meanwhile, so that one
// purge works at a time, but left where it is. Partitions are emptied, not dropped: that is for retention.
func (s *Store) PurgeDeliveredIn(ctx context.Context, tx pgx.Tx, l relay.PurgeLimits) (relay.Purged, error) {
	l.Kind = relay.PurgePublished
	var position *string
	var stale bool
	switch err := tx.QueryRow(ctx, lockPurge, string(l.Kind)).Scan(&position, &stale); {
	case errors.Is(err, pgx.ErrNoRows):
		return relay.Purged{Busy: true}, nil
	case err != nil:
		return relay.Purged{}, err
	}
	found, err := look(ctx, tx, l, l.From)
	if err != nil || found.rows == 0 {
		return relay.Purged{More: found.more, Next: found.next}, err
	}
	var n int64
	err = pgx.BeginFunc(ctx, tx, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "set local lock_timeout = '1s'"); err != nil {
			return err
		}
		n, err = found.remove(ctx, tx)
		return err
	})
	var pg *pgconn.PgError
	if errors.As(err, &pg) && pg.Code == "55P03" { // lock_not_available
		return relay.Purged{Busy: true}, nil
	}
	return relay.Purged{Rows: int(n), More: found.more, Next: found.next}, err
}

package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/postrider/postrider/internal/relay"
)

// Requests by hand, in a transaction of the caller, which also writes there who made the request. Each runs in a
// savepoint, so that a refusal leaves the transaction as it was.

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

// GiveUpIn is GiveUp in the transaction of the caller.
func (s *Store) GiveUpIn(ctx context.Context, tx pgx.Tx, holdID int64) (g GaveUp, err error) {
	err = pgx.BeginFunc(ctx, tx, func(tx pgx.Tx) error {
		g, err = giveUp(ctx, tx, holdID)
		return err
	})
	return g, err
}

// PurgeDeliveredIn removes, in the transaction of the caller, events that were acknowledged long enough ago, whatever
// retention says: of l it takes Keep and Rows.
func (s *Store) PurgeDeliveredIn(ctx context.Context, tx pgx.Tx, l relay.PurgeLimits) (got relay.Purged, err error) {
	l.Kind = relay.PurgePublished
	err = pgx.BeginFunc(ctx, tx, func(tx pgx.Tx) error {
		got, err = purge(ctx, tx, l)
		return err
	})
	var pg *pgconn.PgError
	switch {
	case errors.Is(asBusy(err), errBusy):
		return relay.Purged{Busy: true}, nil
	case errors.As(err, &pg) && pg.Code == codeMiscounted:
		return relay.Purged{}, fmt.Errorf("%w: %w; %s", relay.ErrMiscounted, err, pg.Hint)
	}
	return got, err
}

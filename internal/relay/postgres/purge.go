package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/postrider/postrider/internal/relay"
)

// codeMiscounted is the SQLSTATE of outbox_purge_events for rows that do not agree with the receipts.
const codeMiscounted = "PR002"

// Purge implements relay.Purger. The database does it, in one function for each kind.
func (s *Store) Purge(ctx context.Context, l relay.PurgeLimits) (relay.Purged, error) {
	if l.Rows < 1 {
		return relay.Purged{}, fmt.Errorf("purge looks at %d rows, it must look at one at least", l.Rows)
	}
	got, err := purge(ctx, s.pool, l)
	var pg *pgconn.PgError
	switch {
	case errors.Is(asBusy(err), errBusy):
		return relay.Purged{Busy: true}, nil
	case errors.As(err, &pg) && pg.Code == codeMiscounted:
		_, noted := s.pool.Exec(ctx, stopRetention, pg.Message)
		return relay.Purged{}, errors.Join(fmt.Errorf("%w: %w; %s", relay.ErrMiscounted, err, pg.Hint), noted)
	case err != nil:
		return relay.Purged{}, err
	}
	if l.Kind == relay.PurgePublished && !l.DryRun {
		var merged relay.Purged
		if err := s.pool.QueryRow(ctx, mergeReceipts, 2*l.Rows).Scan(&merged.Rows, &merged.More, &merged.Busy); err != nil {
			return got, fmt.Errorf("merge receipts: %w", err)
		}
		got.More = got.More || merged.More
	}
	return got, nil
}

func purge(ctx context.Context, db querier, l relay.PurgeLimits) (got relay.Purged, err error) {
	switch l.Kind {
	case relay.PurgePublished:
		var stopped *string
		err = db.QueryRow(ctx, purgeEvents, micros(l.Keep), l.Rows, l.DryRun).Scan(&got.Rows, &got.More, &got.Busy, &stopped)
		if err == nil && stopped != nil {
			return got, fmt.Errorf("%w: %s", relay.ErrMiscounted, *stopped)
		}
	case relay.PurgeDeadLettered:
		err = db.QueryRow(ctx, purgeExceptions, micros(l.Keep), l.Rows, l.DryRun).Scan(&got.Rows, &got.More, &got.Busy)
	case relay.PurgeIdempotencyKeys:
		err = db.QueryRow(ctx, purgeKeys, micros(l.Keep), l.Rows, l.DryRun).Scan(&got.Rows, &got.More, &got.Busy)
	default:
		err = fmt.Errorf("there are no %q rows to purge", l.Kind)
	}
	return got, err
}

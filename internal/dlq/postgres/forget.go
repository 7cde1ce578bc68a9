package postgres

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// ForgetClosed removes investigations that were closed longer ago than keep, limit of them at most, with what their letters
// have of the messages. It returns how many are gone, and whether another call may find more. Any number of processes may
// call it.
func (r *Redriver) ForgetClosed(ctx context.Context, keep time.Duration, limit int) (gone int, more bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, r.timeout)
	defer cancel()
	err = transact(ctx, r.pool, steady, func(tx pgx.Tx) error {
		tag, err := tx.Exec(ctx, entryForget, keep.Microseconds(), limit)
		gone = int(tag.RowsAffected())
		return translate("remove old investigations", err)
	})
	if err != nil {
		return 0, false, err
	}
	return gone, gone == limit, nil
}

// ForgetOperations removes an operation that ended longer ago than keep, with its items. One with many items is removed by
// several calls; each call removes limit rows of a kind at most. It returns how many operations are gone for good, and
// whether another call may find more.
func (r *Redriver) ForgetOperations(ctx context.Context, keep time.Duration, limit int) (gone int, more bool, err error) {
	const doing = "remove old operations"
	ctx, cancel := context.WithTimeout(ctx, r.timeout)
	defer cancel()
	err = transact(ctx, r.pool, steady, func(tx pgx.Tx) error {
		gone, more = 0, false
		var id uuid.UUID
		if err := tx.QueryRow(ctx, operationOld, keep.Microseconds()).Scan(&id); errors.Is(err, pgx.ErrNoRows) {
			return nil
		} else if err != nil {
			return translate(doing, err)
		}
		more = true
		for _, part := range []string{operationForgetItems, operationForgetRedrives} {
			tag, err := tx.Exec(ctx, part, id, limit)
			if err != nil || tag.RowsAffected() == int64(limit) { // there may be more of it
				return translate(doing, err)
			}
		}
		gone = 1
		_, err := tx.Exec(ctx, operationForget, id)
		return translate(doing, err)
	})
	if err != nil {
		return 0, false, err
	}
	return gone, more, nil
}

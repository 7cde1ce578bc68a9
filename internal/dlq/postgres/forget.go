package postgres

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/dlq"
)

// Forget implements dlq.Operations. An operation with many items is removed by several calls, and each call commits.
func (r *Redriver) Forget(ctx context.Context, keep time.Duration, limit int) (f dlq.Forgotten, err error) {
	const doing = "remove old operations"
	ctx, cancel := context.WithTimeout(ctx, r.timeout)
	defer cancel()
	err = transact(ctx, r.pool, steady, func(tx pgx.Tx) error {
		f = dlq.Forgotten{}
		var id uuid.UUID
		if err := tx.QueryRow(ctx, operationOld, keep.Microseconds()).Scan(&id); errors.Is(err, pgx.ErrNoRows) {
			return nil
		} else if err != nil {
			return translate(doing, err)
		}
		f.More = true
		for _, part := range []string{operationForgetItems, operationForgetRedrives} {
			tag, err := tx.Exec(ctx, part, id, limit)
			if err != nil || tag.RowsAffected() == int64(limit) { // there may be more of it
				return translate(doing, err)
			}
		}
		f.Operations = 1
		_, err := tx.Exec(ctx, operationForget, id)
		return translate(doing, err)
	})
	if err != nil {
		return dlq.Forgotten{}, err
	}
	return f, nil
}

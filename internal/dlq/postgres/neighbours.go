package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/dlq"
)

// Neighbours implements dlq.Investigations.
func (d *Investigations) Neighbours(ctx context.Context, entry uuid.UUID, q dlq.Search) (n dlq.Neighbours, err error) {
	q.Filter.Limit, q.Filter.Offset, q.WithoutTotal = 1, 0, true
	if err := q.Check(); err != nil {
		return n, err
	}
	return n, d.readPlanned(ctx, fmt.Sprintf("what is beside investigation %s", entry), func(ctx context.Context, tx pgx.Tx) (err error) {
		n = dlq.Neighbours{}
		if q.Filter, err = wordOrText(ctx, tx, q.Filter); err != nil {
			return err
		}
		here := found{ID: entry}
		err = tx.QueryRow(ctx, entryPlace, entry, q.OrderBy == dlq.ByUpdated).Scan(&here.At)
		if errors.Is(err, pgx.ErrNoRows) {
			return fmt.Errorf("investigation %s: %w", entry, dlq.ErrNotFound)
		}
		if err != nil {
			return err
		}
		for _, side := range []struct {
			into      *uuid.UUID
			ascending bool
		}{{&n.Next, q.Ascending}, {&n.Previous, !q.Ascending}} {
			one := q
			one.Ascending = side.ascending
			one.After = cursor(one, here)
			page, ids, err := find(ctx, tx, one, d.bounds)
			if err != nil {
				return err
			}
			if len(ids) > 0 {
				*side.into = ids[0]
			} else {
				n.Incomplete = n.Incomplete || page.Incomplete
			}
		}
		return nil
	})
}

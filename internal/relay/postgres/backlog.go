package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/relay"
)

// Backlog implements relay.BacklogReader.
func (s *Store) Backlog(ctx context.Context, limit int) (relay.Backlog, error) {
	var b relay.Backlog
	var oldest float64
	if err := s.pool.QueryRow(ctx, readBacklog, limit).Scan(&b.Pending, &b.Due, &b.Parked, &b.Scheduled, &b.Exhausted, &oldest); err != nil {
		return b, err
	}
	b.OldestDue = time.Duration(oldest * float64(time.Second))
	return b, nil
}

// CountHolds implements relay.BacklogReader.
func (s *Store) CountHolds(ctx context.Context, limit int) ([]relay.HoldCount, error) {
	rows, err := s.pool.Query(ctx, countHolds, limit)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (c relay.HoldCount, err error) {
		var oldest float64
		err = row.Scan(&c.Scope, &c.Cause, &c.Topic, &c.Code, &c.Holds, &oldest)
		c.Oldest = time.Duration(oldest * float64(time.Second))
		return c, err
	})
}

package postgres

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/relay"
)

// Status counts what is in the outbox by state, and lists up to 100 holds, oldest first. Published
// rows are not read, so it stays cheap however many are kept.
func (s *Store) Status(ctx context.Context) (st relay.Status, err error) {
	defer s.judge(&err, false)
	err = s.pool.QueryRow(ctx, readStatus).Scan(&st.Pending, &st.Due, &st.Failed, &st.Parked, &st.Scheduled,
		&st.Exhausted, &st.DeadLettered, &st.OldestDueSeconds, &st.Processing, &st.HoldCount)
	if err != nil {
		return st, fmt.Errorf("read the outbox status: %w", err)
	}
	rows, err := s.pool.Query(ctx, listHolds, 100)
	if err != nil {
		return st, fmt.Errorf("list holds: %w", err)
	}
	st.Holds, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (h relay.HoldStatus, err error) {
		var key []byte
		err = row.Scan(&h.Scope, &h.Topic, &key, &h.Cause, &h.ErrorCode, &h.Error, &h.HeldAt, &h.NextProbeAt, &h.Probes, &h.Draining, &h.Parked)
		h.Key = text(string(key))
		return h, err
	})
	if err != nil {
		return st, fmt.Errorf("list holds: %w", err)
	}
	return st, nil
}

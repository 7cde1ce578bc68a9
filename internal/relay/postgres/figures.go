package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/relay"
)

// Delivered counts by five seconds what receipts say that were written after the one with a number, and since a time. It
// returns the number to go on from. The first call, with number 0, looks at the newest 20,000 receipts at most.
func (s *Store) Delivered(ctx context.Context, after int64, since time.Time) (last int64, counts []relay.TimeCount, err error) {
	last = after
	rows, err := s.pool.Query(ctx, readDelivered, after, since)
	if err != nil {
		return last, nil, fmt.Errorf("read receipts: %w", err)
	}
	counts, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (c relay.TimeCount, err error) {
		err = row.Scan(&last, &c.At, &c.Count)
		return c, err
	})
	if err != nil {
		return after, nil, fmt.Errorf("read receipts: %w", err)
	}
	return last, counts, nil
}

// Latency is how long the newest events took from their insert to their acknowledgement: half of them, and 99 of 100. With
// no such event in the table it is false.
func (s *Store) Latency(ctx context.Context) (half, most time.Duration, known bool, err error) {
	var n int64
	var p50, p99 float64
	if err := s.pool.QueryRow(ctx, readLatency).Scan(&n, &p50, &p99); err != nil {
		return 0, 0, false, fmt.Errorf("read latencies: %w", err)
	}
	second := float64(time.Second)
	return time.Duration(max(p50, 0) * second), time.Duration(max(p99, 0) * second), n > 0, nil
}

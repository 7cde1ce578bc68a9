package postgres

import (
	"context"
	"fmt"
	"time"
)

// nothingDue is what a database in which nothing waits answers: long.
const nothingDue = time.Hour

// untilDue is how long nothing scheduled or held is due, at least a microsecond.
func (s *Store) untilDue(ctx context.Context) (time.Duration, error) {
	var us *int64
	if err := s.pool.QueryRow(ctx, nextDue).Scan(&us); err != nil {
		return 0, fmt.Errorf("find out when something is due: %w", err)
	}
	if us == nil {
		return nothingDue, nil
	}
	return min(max(time.Duration(*us)*time.Microsecond, time.Microsecond), nothingDue), nil
}

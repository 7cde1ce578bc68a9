package postgres

import (
	"context"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// TaskIDs returns the ids of at most limit tasks from low to high, in order, for people who know how an id begins.
func (l Ledger) TaskIDs(ctx context.Context, low, high uuid.UUID, limit int) ([]uuid.UUID, error) {
	rows, err := l.db.Query(ctx, taskIDs, low, high, limit)
	if err != nil {
		return nil, fmt.Errorf("look for ids of tasks: %w", err)
	}
	ids, err := pgx.CollectRows(rows, pgx.RowTo[uuid.UUID])
	if err != nil {
		return nil, fmt.Errorf("look for ids of tasks: %w", err)
	}
	return ids, nil
}

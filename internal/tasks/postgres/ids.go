package postgres

import (
	"context"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// TaskIDs returns the ids of at most limit tasks from low to high, in order, for people who know how an id begins.
func (l Ledger) TaskIDs(ctx context.Context, low, high uuid.UUID, limit int) ([]uuid.UUID, error) {
	return ids(ctx, l.db, taskIDs, low, high, limit)
}

// ArchivedTaskIDs is TaskIDs for archived tasks.
func (a *Archive) ArchivedTaskIDs(ctx context.Context, low, high uuid.UUID, limit int) ([]uuid.UUID, error) {
	return ids(ctx, a.pool, archivedTaskIDs, low, high, limit)
}

func ids(ctx context.Context, db DB, query string, low, high uuid.UUID, limit int) ([]uuid.UUID, error) {
	rows, err := db.Query(ctx, query, low, high, limit)
	if err != nil {
		return nil, fmt.Errorf("look for ids of tasks: %w", err)
	}
	found, err := pgx.CollectRows(rows, pgx.RowTo[uuid.UUID])
	if err != nil {
		return nil, fmt.Errorf("look for ids of tasks: %w", err)
	}
	return found, nil
}

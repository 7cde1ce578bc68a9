package postgres

import (
	"context"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// EntryIDs returns the ids of at most limit investigations from low to high, in order, for people who know how an id begins.
func (s *Store) EntryIDs(ctx context.Context, low, high uuid.UUID, limit int) ([]uuid.UUID, error) {
	return s.ids(ctx, entryIDs, low, high, limit)
}

// GroupIDs is EntryIDs for groups.
func (s *Store) GroupIDs(ctx context.Context, low, high uuid.UUID, limit int) ([]uuid.UUID, error) {
	return s.ids(ctx, groupIDs, low, high, limit)
}

// OperationIDs is EntryIDs for operations.
func (s *Store) OperationIDs(ctx context.Context, low, high uuid.UUID, limit int) ([]uuid.UUID, error) {
	return s.ids(ctx, operationIDs, low, high, limit)
}

func (s *Store) ids(ctx context.Context, query string, low, high uuid.UUID, limit int) ([]uuid.UUID, error) {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	rows, err := s.pool.Query(ctx, query, low, high, limit)
	if err != nil {
		return nil, fmt.Errorf("look for ids: %w", err)
	}
	ids, err := pgx.CollectRows(rows, pgx.RowTo[uuid.UUID])
	if err != nil {
		return nil, fmt.Errorf("look for ids: %w", err)
	}
	return ids, nil
}

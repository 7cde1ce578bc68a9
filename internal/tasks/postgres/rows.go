package postgres

import (
	"context"
	"encoding/json"

	"github.com/jackc/pgx/v5"
)

// one runs a query that returns one value.
func one[T any](ctx context.Context, db DB, doing, sql string, args ...any) (T, error) {
	var value T
	err := db.QueryRow(ctx, sql, args...).Scan(&value)
	return value, explain(doing, err)
}

// many runs a query whose columns are the fields of T, in their order.
func many[T any](ctx context.Context, db DB, doing, sql string, args ...any) ([]T, error) {
	rows, err := db.Query(ctx, sql, args...)
	if err != nil {
		return nil, explain(doing, err)
	}
	values, err := pgx.CollectRows(rows, pgx.RowToStructByPos[T])
	return values, explain(doing, err)
}

// given is null for an empty text.
func given(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}

// document is null for no JSON. As text, because bytes would be taken for bytea where nothing is prepared.
func document(raw json.RawMessage) *string { return given(string(raw)) }

func orDefault(n, otherwise int) int {
	if n == 0 {
		return otherwise
	}
	return n
}

// unlessZero is null for 0, which takes the function's own default.
func unlessZero(n int) *int {
	if n == 0 {
		return nil
	}
	return &n
}

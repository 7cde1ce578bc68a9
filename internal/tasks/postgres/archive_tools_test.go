package postgres_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
)

// try runs a statement and returns its error.
func (r *archiveRig) try(sql string, args ...any) error {
	_, err := r.pool.Exec(r.Context(), sql, args...)
	return err
}

func wantCode(t *testing.T, err error, code, text string) {
	t.Helper()
	var refused *pgconn.PgError
	if !errors.As(err, &refused) || refused.Code != code || !strings.Contains(refused.Message, text) {
		t.Errorf("the error is %v, want %s with %q", err, code, text)
	}
}

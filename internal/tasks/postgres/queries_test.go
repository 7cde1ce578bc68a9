package postgres

import (
	"testing"

	"github.com/postrider/postrider/internal/testenv/pgtest"
)

// TestEveryQueryIsValid prepares every query on the migrated schema.
func TestEveryQueryIsValid(t *testing.T) {
	t.Parallel()
	pgtest.Prepare(t, pgtest.New(t).Conn(t), queryFiles, query)
}

func TestMissingQueryStopsTheProgram(t *testing.T) {
	t.Parallel()
	defer func() {
		if recover() == nil {
			t.Error("a query without a file is not noticed")
		}
	}()
	query("no_such_query")
}

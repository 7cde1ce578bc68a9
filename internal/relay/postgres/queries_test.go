package postgres

import (
	"testing"

	"github.com/postrider/postrider/internal/testenv/pgtest"
)

// TestEveryQueryIsValid prepares every query on the migrated schema.
func TestEveryQueryIsValid(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	conn, err := f.relay.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Release()
	pgtest.Prepare(t, conn.Conn(), queryFiles, query)
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

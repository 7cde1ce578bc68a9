package postgres

import (
	"io/fs"
	"strings"
	"testing"
)

// TestEveryQueryIsValid prepares every query on the migrated schema.
func TestEveryQueryIsValid(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	files, err := fs.Glob(queryFiles, "queries/*.sql")
	if err != nil || len(files) == 0 {
		t.Fatalf("no query files, %v", err)
	}
	conn, err := f.relay.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Release()
	for _, file := range files {
		name := strings.TrimSuffix(strings.TrimPrefix(file, "queries/"), ".sql")
		if _, err := conn.Conn().Prepare(t.Context(), name, query(name)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
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

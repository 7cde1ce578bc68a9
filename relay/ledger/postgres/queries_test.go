package postgres

import (
	"io/fs"
	"strings"
	"testing"

	"github.com/postrider/postrider/migrations/pgtest"
)

// TestEveryQueryIsValid prepares every query on the migrated schema.
func TestEveryQueryIsValid(t *testing.T) {
	t.Parallel()
	conn := pgtest.New(t).Conn(t)
	files, err := fs.Glob(queryFiles, "queries/*.sql")
	if err != nil || len(files) == 0 {
		t.Fatalf("no query files, %v", err)
	}
	for _, file := range files {
		name := strings.TrimSuffix(strings.TrimPrefix(file, "queries/"), ".sql")
		if _, err := conn.Prepare(t.Context(), name, query(name)); err != nil {
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

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

// TestChangesAreStamped: the payload limit is asked while updated_at is null, so a change that leaves it
// null could be refused.
func TestChangesAreStamped(t *testing.T) {
	t.Parallel()
	files, err := queryFiles.ReadDir("queries")
	if err != nil {
		t.Fatal(err)
	}
	changes := 0
	for _, file := range files {
		text := query(strings.TrimSuffix(file.Name(), ".sql"))
		if strings.Contains(text, "update postrider.outbox_event ") {
			changes++
			if !strings.Contains(text, "updated_at = now()") {
				t.Errorf("%s does not set updated_at", file.Name())
			}
		}
	}
	if changes < 8 {
		t.Errorf("found only %d queries that change events", changes)
	}
}

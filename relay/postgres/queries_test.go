package postgres

import (
	"strings"
	"testing"

	"github.com/postrider/postrider/migrations/pgtest"
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

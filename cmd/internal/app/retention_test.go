package app

import (
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/postrider/postrider/internal/relay"
	"github.com/postrider/postrider/internal/relay/postgres"
	"github.com/postrider/postrider/internal/testenv/pgtest"
)

// TestRetentionGoesOn runs the statements with which docs/runbook.md finds what no receipt has, and has retention go on.
func TestRetentionGoesOn(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../../docs/runbook.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, found := strings.Cut(string(page), "### RetentionStopped")
	section, _, _ = strings.Cut(section, "\n### ")
	parts := strings.Split(section, "```")
	if !found || len(parts) != 5 {
		t.Fatalf("the section has %d parts, want two statements", len(parts))
	}
	statement := func(s string) string {
		return strings.NewReplacer("FIRST", "1", "LAST", "10").Replace(strings.TrimPrefix(s, "sql\n"))
	}
	find, goOn := statement(parts[1]), statement(parts[3])

	db := pgtest.New(t)
	conn := db.Conn(t)
	store := postgres.NewStore(db.Pool(t), postgres.StoreOptions{})
	purge := func() (relay.Purged, error) {
		return store.Purge(t.Context(), relay.PurgeLimits{Kind: relay.PurgePublished, Keep: 1, Rows: 1000})
	}
	pgtest.Exec(t, conn, `insert into postrider.outbox_event (topic) select 'orders' from generate_series(1, 10)`)
	pgtest.Exec(t, conn, `insert into postrider.outbox_receipt (number, term, position, first_id, events, gaps) values (1, 1, 10, 1, '{[1,5),[6,11)}', '{}')`)
	for range 2 { // it stays stopped
		if got, err := purge(); !errors.Is(err, relay.ErrMiscounted) || got.Rows != 0 {
			t.Fatalf("%+v, %v", got, err)
		}
	}
	if reason := pgtest.Value[string](t, conn, `select reason from postrider.outbox_retention where kind = 'published'`); !strings.Contains(reason, "ids 1 to 10") {
		t.Errorf("the reason is %s", reason)
	}
	if ids := pgtest.Column[int64](t, conn, `select id from (`+strings.TrimSuffix(strings.TrimSpace(find), ";")+`) f`); len(ids) != 1 || ids[0] != 5 {
		t.Errorf("what no receipt has is %v, want 5", ids)
	}
	pgtest.Exec(t, conn, goOn)
	if got, err := purge(); err != nil || got.Rows != 10 {
		t.Errorf("%+v, %v; want all ten removed", got, err)
	}
}

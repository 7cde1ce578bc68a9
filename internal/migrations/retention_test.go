package migrations_test

import (
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/testenv/outboxtest"
	"github.com/postrider/postrider/internal/testenv/pgtest"
)

// purgeAll removes events older than a minute, at most rows of them with each call, until there are no more. It returns how
// many each call removed.
func purgeAll(t *testing.T, conn *pgx.Conn, rows int) (removed []int) {
	t.Helper()
	for more := true; more; {
		var n int
		var busy bool
		var stopped *string
		if err := conn.QueryRow(t.Context(), `select * from postrider.outbox_purge_events('1 minute', $1)`, rows).Scan(&n, &more, &busy, &stopped); err != nil || busy || stopped != nil {
			t.Fatalf("busy: %v, stopped: %v, %v", busy, stopped, err)
		}
		if removed = append(removed, n); len(removed) > 100 {
			t.Fatalf("it does not end: %v", removed)
		}
	}
	return removed
}

// TestRetentionSeesAllReceipts: it looks at a thousand receipts at a time, and says that there are more.
func TestRetentionSeesAllReceipts(t *testing.T) {
	t.Parallel()
	conn := pgtest.New(t).Conn(t)
	pgtest.Exec(t, conn, `insert into postrider.outbox_event (topic) select 't' from generate_series(1, 2500);
		insert into postrider.outbox_receipt (number, term, position, first_id, events, gaps, at)
		select i, 1, i, i, int8multirange(int8range(i, i, '[]')), '{}', now() - case when i <= 2400 then interval '1 hour' else '0' end from generate_series(1, 2500) i`)
	sum := 0
	for _, n := range purgeAll(t, conn, 100_000) {
		sum += n
	}
	if left := pgtest.Value[int](t, conn, `select count(*) from postrider.outbox_event`); sum != 2400 || left != 100 {
		t.Errorf("%d were removed and %d are left, want 2400 and 100", sum, left)
	}
}

// TestRetentionCountsRows and not ids, which are far apart where a sequence was set forward.
func TestRetentionCountsRows(t *testing.T) {
	t.Parallel()
	conn := pgtest.New(t).Conn(t)
	pgtest.Exec(t, conn, `insert into postrider.outbox_event (topic) select 't' from generate_series(1, 3)`)
	pgtest.Exec(t, conn, `select setval('postrider.outbox_event_id_seq', 4000000000000)`)
	pgtest.Exec(t, conn, `insert into postrider.outbox_event (topic) select 't' from generate_series(1, 2)`)
	outboxtest.SettleAll(t, conn, outboxtest.Published, outboxtest.Pending, 0)
	pgtest.Exec(t, conn, `update postrider.outbox_receipt set at = now() - interval '1 hour'`)
	if got := purgeAll(t, conn, 2); len(got) != 3 || got[0] != 2 || got[1] != 2 || got[2] != 1 {
		t.Errorf("the calls removed %v, want 2, 2 and 1", got)
	}
}

package outboxtest

import (
	"testing"

	"github.com/postrider/postrider/internal/testenv/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// TestSettle: the view says of each event what it was settled as, and retention finds that the receipts agree with the log.
func TestSettle(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t).Pool(t)
	pgtest.Exec(t, pool, `insert into postrider.outbox_event (topic, key, payload) select 't', 'k', n::text::bytea from generate_series(1, 9) n;
		select setval('postrider.outbox_event_id_seq', 100); insert into postrider.outbox_event (topic) values ('t'), ('t')`)
	Settle(t, pool, Published, 2, 4)
	Settle(t, pool, Published, 1)
	Settle(t, pool, Exhausted, 3, 101)
	Settle(t, pool, DeadLettered, 3, 5)
	Settle(t, pool, Scheduled, 6)
	const states = `select string_agg(id || ' ' || state || ' ' || episode, ', ' order by id) from postrider.v_outbox_event`
	const want = "1 published 0, 2 published 0, 3 dead_lettered 1, 4 published 0, 5 dead_lettered 1, 6 scheduled 0, 7 pending 0, 8 pending 0, 9 pending 0, 101 exhausted 1, 102 pending 0"
	if got := pgtest.Value[string](t, pool, states); got != want {
		t.Errorf("the events are %s, want %s", got, want)
	}
	Settle(t, pool, Published, 3, 6)
	SettleAll(t, pool, Published, Pending, 0)
	if got := pgtest.Value[int64](t, pool, `select count(*) from postrider.v_outbox_event where state = 'published'`); got != 9 {
		t.Errorf("%d are published", got)
	}
	pgtest.Exec(t, pool, `update postrider.outbox_receipt set at = at - interval '1 hour'`)
	if got := pgtest.Value[int64](t, pool, `select removed from postrider.outbox_purge_events('1 minute', 1000)`); got != 9 {
		t.Errorf("%d were removed, want 9", got)
	}
}

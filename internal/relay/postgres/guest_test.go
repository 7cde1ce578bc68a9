package postgres

import (
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/postrider/postrider/internal/relay"
	"github.com/postrider/postrider/internal/testenv/pgtest"
)

// guestStore is a store on a pool that NewPool did not open, as the desk has it, with one session.
func guestStore(f *fixture) (*Store, *pgxpool.Pool) {
	f.Helper()
	cfg, err := pgxpool.ParseConfig(f.db.URL)
	f.done(err)
	cfg.MaxConns = 1
	pool, err := pgxpool.NewWithConfig(f.Context(), cfg)
	f.done(err)
	f.Cleanup(pool.Close)
	return NewStore(pool, StoreOptions{}), pool
}

// TestSettingsOfAGuest: statements and transactions on the desk's pool have the planner's settings, and its session does not
// keep them.
func TestSettingsOfAGuest(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	pgtest.Compile(t, f.pool)
	store, pool := guestStore(f)
	const ask = `select concat_ws(' ', current_setting('jit'), current_setting('enable_seqscan'), current_setting('enable_sort'),
		current_setting('enable_hashjoin'), current_setting('plan_cache_mode'))`
	const want = "off off off off force_generic_plan"
	var got string
	if err := store.pool.QueryRow(t.Context(), ask).Scan(&got); err != nil || got != want {
		t.Errorf("a statement runs with %s, %v, want %s", got, err, want)
	}
	err := pgx.BeginTxFunc(t.Context(), store.pool, pgx.TxOptions{}, func(tx pgx.Tx) error { return tx.QueryRow(t.Context(), ask).Scan(&got) })
	if err != nil || got != want {
		t.Errorf("a transaction runs with %s, %v, want %s", got, err, want)
	}
	if got := pgtest.Value[string](t, pool, ask); strings.Contains(got, "force_generic_plan") || strings.HasPrefix(got, "off off") {
		t.Errorf("the session keeps %s", got)
	}
}

// TestAGuestReadsAlongIndexes: what the desk asks of the outbox reads no table as a whole, right after a bulk load.
func TestAGuestReadsAlongIndexes(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.exec(`alter table postrider.outbox_event set (autovacuum_enabled = off); alter table postrider.outbox_receipt set (autovacuum_enabled = off)`)
	f.exec(`insert into postrider.outbox_event (topic, payload) select 't', 'payload' from generate_series(1, 40000)`)
	f.exec(`insert into postrider.outbox_receipt (number, term, position, first_id, events, gaps)
		select i, 1, i * 10, i * 10 - 9, int8multirange(int8range(i * 10 - 9, i * 10 + 1)), '{}' from generate_series(1, 3990) i`)
	store, _ := guestStore(f)
	for name, args := range map[string][]any{
		"read_status": nil, "read_latency": nil, "read_event_bytes": {777}, "list_holds": {100, nil, nil, nil, nil, nil},
		"list_events": {180000, "", "", nil, nil, nil, 25, 20000, "", nil, "", nil, nil, nil, false},
	} {
		rows, err := store.pool.Query(t.Context(), "explain (costs off) "+query(name), args...)
		f.done(err)
		lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
		f.done(err)
		if plan := strings.Join(lines, "\n"); strings.Contains(plan, "Scan on outbox_event") || strings.Contains(plan, "Scan on outbox_receipt") {
			t.Errorf("%s reads a whole table:\n%s", name, plan)
		}
	}
}

// TestAGuestPlansOnce: the list of events, and an event, are planned once in a session.
func TestAGuestPlansOnce(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.exec(`insert into postrider.outbox_event (topic) select 't' from generate_series(1, 100)`)
	store, pool := guestStore(f)
	for range 3 {
		if page, err := store.Events(t.Context(), relay.EventFilter{}); err != nil || len(page.Events) != 25 {
			t.Fatalf("%d events, %v", len(page.Events), err)
		}
		if e, err := store.Event(t.Context(), 7); err != nil || e.ID != 7 {
			t.Fatalf("%+v, %v", e, err)
		}
	}
	if again := pgtest.Column[string](t, pool, `select left(statement, 60) from pg_prepared_statements where custom_plans > 0 and statement like '%v_outbox_event%'`); len(again) > 0 {
		t.Errorf("planned at each call: %q", again)
	}
	if !pgtest.Value[bool](t, pool, `select coalesce(sum(generic_plans), 0) >= 6 from pg_prepared_statements where statement like '%v_outbox_event%'`) {
		t.Error("no plan was kept")
	}
}

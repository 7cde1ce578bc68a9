package migrations_test

import (
	"encoding/json"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/testenv/pgtest"
)

// TestViewsAreNotCompiled: of no view does the server think that it costs so much (jit_above_cost) that compiling it first
// pays. That takes seconds, and the views read little.
func TestViewsAreNotCompiled(t *testing.T) {
	t.Parallel()
	conn := pgtest.New(t).Conn(t)
	views := pgtest.Column[string](t, conn, `select quote_ident(viewname) from pg_views where schemaname = 'postrider' order by 1`)
	if len(views) < 5 {
		t.Fatalf("the views are %q", views)
	}
	for _, view := range views {
		if cost := estimate(t, conn, `select * from postrider.`+view); cost <= 0 || cost > 100_000 {
			t.Errorf("%s costs %v, by the server's estimate; give its functions the number of their rows", view, cost)
		}
	}
}

// TestEventsAreNotCompiled: nor does it of what people ask about the events of a log that has many.
func TestEventsAreNotCompiled(t *testing.T) {
	t.Parallel()
	conn := pgtest.New(t).Conn(t)
	pgtest.Exec(t, conn, `insert into postrider.outbox_event (topic, key, payload) select 't' || i % 5, 'k', 'x' from generate_series(1, 50000) i`)
	pgtest.Exec(t, conn, `insert into postrider.outbox_receipt (number, term, position, first_id, events, gaps)
		select i, 1, 500 * i, 500 * i - 499, int8multirange(int8range(500 * i - 499, 500 * i, '[]')), '{}' from generate_series(1, 80) i`)
	for _, analyzed := range []bool{false, true} {
		if analyzed {
			pgtest.Exec(t, conn, `analyze postrider.outbox_event, postrider.outbox_receipt, postrider.outbox_exception`)
		}
		for _, query := range []string{
			`select count(*) from postrider.v_outbox_event where topic = 't1'`,
			`select topic, status, count(*) from postrider.v_outbox_event group by 1, 2`,
			`select * from postrider.v_outbox_event where status = 'pending' order by id limit 20`,
			`select * from postrider.v_outbox_event where status in ('failed', 'dead_lettered')`,
			`select * from postrider.v_outbox_event where event_id = gen_random_uuid()`,
			`select id, status, state, last_error from postrider.v_outbox_event order by id desc limit 20`,
		} {
			if cost := estimate(t, conn, query); cost > 50_000 {
				t.Errorf("analyzed %v: it costs %v, by the server's estimate: %s", analyzed, cost, query)
			}
		}
	}
}

// estimate is what a query costs, as the server says before it runs it.
func estimate(t *testing.T, conn *pgx.Conn, query string) float64 {
	t.Helper()
	var plans []struct {
		Plan struct {
			Cost float64 `json:"Total Cost"`
		}
	}
	if err := json.Unmarshal([]byte(pgtest.Value[string](t, conn, `explain (format json) `+query)), &plans); err != nil {
		t.Fatal(err)
	}
	return plans[0].Plan.Cost
}

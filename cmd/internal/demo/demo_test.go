package demo

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/postrider/postrider/internal/testenv/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

func count(t *testing.T, pool *pgxpool.Pool, query string) int {
	t.Helper()
	return pgtest.Value[int](t, pool, query)
}

// Every order is written with its event or not at all, a payment follows its order, and a few
// events are of the two kinds that can never be delivered.
func TestWriter(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t).Pool(t)
	d, err := New(t.Context(), Config{Pool: pool, Out: &strings.Builder{}})
	if err != nil {
		t.Fatal(err)
	}
	for range attachmentEvery {
		if err := d.writer.runOnce(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	for query, want := range map[string]int{
		`select count(*) from postrider.outbox_event`: attachmentEvery,
		`select count(*) from postrider.outbox_event e where topic = 'demo.orders' and not exists (
			select from demo.orders o where o.order_id = convert_from(e.key, 'UTF8')::bigint)`: 0,
		`select count(*) from demo.orders o where status = 'paid' and not exists (
			select from postrider.outbox_event e where topic = 'demo.payments' and convert_from(e.key, 'UTF8')::bigint = o.customer_id)`: 0,
		`select count(*) from postrider.outbox_event where octet_length(payload) > 1048588`: 1,
		`select count(*) from postrider.outbox_event where headers = '{"priority": 5}'`:     attachmentEvery / wrongEvery,
	} {
		if got := count(t, pool, query); got != want {
			t.Errorf("%s: %d, want %d", query, got, want)
		}
	}
	if orders, paid := count(t, pool, `select count(*) from demo.orders`), count(t, pool, `select count(*) from demo.orders where status = 'paid'`); orders+paid != attachmentEvery || paid < attachmentEvery/4 {
		t.Errorf("%d orders, %d paid, of %d transactions", orders, paid, attachmentEvery)
	}
	var payload []byte
	if err := pool.QueryRow(t.Context(), `select payload from postrider.outbox_event where topic = 'demo.payments' limit 1`).Scan(&payload); err != nil {
		t.Fatal(err)
	}
	var o order
	if err := json.Unmarshal(payload, &o); err != nil || o.Event != "order_paid" || o.OrderID == 0 {
		t.Errorf("payment %s: %v", payload, err)
	}
}

func TestTally(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t).Pool(t)
	exec := func(sql string) {
		t.Helper()
		if _, err := pool.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	exec(`insert into postrider.outbox_event (topic) select 'before' from generate_series(1, 10)`)
	counter, err := newTally(t.Context(), pool)
	if err != nil {
		t.Fatal(err)
	}
	expect := func(what string, want Numbers) {
		t.Helper()
		got, err := counter.runOnce(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		got.Rate = 0
		if got != want {
			t.Errorf("%s: %+v, want %+v", what, got, want)
		}
	}
	expect("nothing yet", Numbers{})
	exec(`insert into postrider.outbox_event (topic) select 'demo' from generate_series(1, 3000)`)
	expect("written", Numbers{Written: 3000, Waiting: 3000})
	exec(`insert into postrider.outbox_receipt (number, term, position, first_id, events, gaps) values (1, 1, 3010, 1, '{[1,3011)}', '{}')`)
	exec(`insert into postrider.outbox_exception (id, event_id, topic, state, copied, next_attempt_at)
		select id, event_id, topic, case when id < 2000 then 'dead_lettered' else 'scheduled' end::postrider.outbox_exception_state, id < 2000, now()
		from postrider.outbox_event where topic = 'demo' and id % 10 = 0`)
	first, err := counter.runOnce(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if first.Published != 2700 || first.Waiting+first.DeadLettered != 300 {
		t.Errorf("published: %+v", first)
	}
	if counter.through < 1000 || counter.through >= 2010 {
		t.Errorf("the next count begins after %d", counter.through)
	}
	first.Rate = 0
	expect("the same again", first)
	exec(`delete from postrider.outbox_exception where state = 'scheduled'`)
	expect("all settled", Numbers{Written: 3000, Published: 3000 - first.DeadLettered, DeadLettered: first.DeadLettered})
	exec(`insert into postrider.dlq_entry (subject_type, subject_id, original_state, dlq_reason, dlq_timestamp, last_occurred_at, snapshot)
		values ('task', 'a', 'x', 'manual_dlq', now(), now(), '{}'), ('event', 'b', 'x', 'undeliverable', now(), now(), '{}')`)
	expect("and again", Numbers{Written: 3000, Published: 3000 - first.DeadLettered, DeadLettered: first.DeadLettered, Investigations: 2, Stuck: 1})
}

// lines hands every line on.
type lines chan string

func (l lines) Write(p []byte) (int, error) { l <- string(p); return len(p), nil }

func TestRun(t *testing.T) {
	t.Parallel()
	out := make(lines)
	d, err := New(t.Context(), Config{Pool: pgtest.New(t).Pool(t), Out: out, Interval: time.Millisecond, Summary: 20 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan struct{})
	go func() { d.Run(ctx); close(ended) }()
	for {
		select {
		case line := <-out:
			if !strings.HasPrefix(line, "demo: written ") || strings.Count(line, "\n") != 1 {
				t.Fatalf("line %q", line)
			}
			if !strings.HasPrefix(line, "demo: written 0,") {
				cancel()
			}
		case <-ended:
			return
		case <-t.Context().Done():
			t.Fatal("no line with numbers")
		}
	}
}

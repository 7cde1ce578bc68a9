package app

import (
	"os"
	"strings"
	"testing"

	"github.com/postrider/postrider/internal/testenv/kafkatest"
	"github.com/postrider/postrider/internal/testenv/pgtest"
)

// TestSentAgain runs the statement with which docs/restoring.md has events sent once more that Kafka has lost: the events
// sent since then, with the ids they had, each key in order, and no others.
func TestSentAgain(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../../docs/restoring.md")
	if err != nil {
		t.Fatal(err)
	}
	_, statement, found := strings.Cut(string(page), "## When it is Kafka that lost records")
	_, statement, begun := strings.Cut(statement, "```sql\n")
	statement, _, ended := strings.Cut(statement, "```")
	const since = "2026-01-31 12:00:00+00"
	if !found || !begun || !ended || strings.Count(statement, since) != 1 {
		t.Fatalf("the statement is not found, or has no %s: %q", since, statement)
	}

	db, broker := pgtest.New(t), kafkatest.Kfake(t)
	for _, topic := range []string{"orders", "stock", "postrider.dlq", "postrider.lifecycle"} {
		broker.CreateTopic(t, topic, 1, nil)
	}
	conn := db.Conn(t)
	c := settings(t, db.URL, broker.Addrs...)
	c.Outbox.RetentionDays = 36500 // the receipts below are as old as the page
	stop := serveUntil(t, c)
	pgtest.Exec(t, conn, `insert into postrider.outbox_event (topic, key, payload, headers) select case n % 4 when 3 then 'stock' else 'orders' end, (n % 2)::text::bytea,
		case when n <> 5 then n::text::bytea end, '{"a": "b"}' from generate_series(1, 12) n`)
	waitRow(t, conn, "all are published", `select count(*) = 12 from postrider.v_outbox_event where state = 'published'`)
	stop()
	sent := map[string]string{} // id by id
	for _, r := range broker.ReadAll(t, "orders", 9) {
		for _, h := range r.Headers {
			if h.Key == "postrider-event-id" {
				sent[string(h.Value)] = string(r.Value)
			}
		}
	}
	pgtest.Exec(t, conn, `delete from postrider.outbox_receipt where number > 0`)
	pgtest.Exec(t, conn, `insert into postrider.outbox_receipt (number, term, position, first_id, events, gaps, at) values
		(1, 1, 1, 1, '{[1,2)}', '{}', '2026-01-31 12:00:00+00'), (2, 1, 2, 2, '{[2,3)}', '{}', '2026-01-31 11:59:59+00'), (3, 1, 12, 3, '{[3,13)}', '{}', '2026-01-31 12:00:00+00')`)
	if err := broker.Cluster.DeleteTopic("orders"); err != nil {
		t.Fatal(err)
	}
	broker.CreateTopic(t, "orders", 1, nil)
	pgtest.Exec(t, conn, statement)
	stop = serveUntil(t, c)
	waitRow(t, conn, "all are published again", `select (select count(*) from postrider.outbox_receipt where returned is not null) > 0 and count(*) = 12 from postrider.v_outbox_event where state = 'published'`)
	stop()
	var again []string
	for _, r := range broker.ReadAll(t, "orders", 8) {
		id, header := "", ""
		for _, h := range r.Headers {
			switch h.Key {
			case "postrider-event-id":
				id = string(h.Value)
			case "a":
				header = string(h.Value)
			}
		}
		if value, known := sent[id]; !known || value != string(r.Value) || header != "b" || (value == "") != (r.Value == nil) {
			t.Errorf("%q came with id %s and header %q; with that id was sent %q, %v", r.Value, id, header, value, known)
		}
		again = append(again, string(r.Key)+":"+string(r.Value))
	}
	inOrder := func(key string) string {
		var of []string
		for _, r := range again {
			if k, v, _ := strings.Cut(r, ":"); k == key {
				of = append(of, v)
			}
		}
		return strings.Join(of, " ")
	}
	if zero, one := inOrder("0"), inOrder("1"); zero != "4 6 8 10 12" || one != "1  9" {
		t.Errorf("key 0 has %q and key 1 %q", zero, one)
	}
	if n := len(broker.ReadAll(t, "stock", 3)); n != 3 {
		t.Errorf("%d records are in the other topic, want 3", n)
	}
}

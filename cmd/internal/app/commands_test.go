package app

import (
	"fmt"
	"log/slog"
	"os"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/cmd/internal/access"
	"github.com/postrider/postrider/cmd/internal/config"
	"github.com/postrider/postrider/internal/testenv/kafkatest"
	"github.com/postrider/postrider/internal/testenv/logtest"
	"github.com/postrider/postrider/internal/testenv/outboxtest"
	"github.com/postrider/postrider/internal/testenv/pgtest"
	"github.com/postrider/postrider/outbox"
)

// TestWhatPeopleDoReachesTheSource: events of two sources are given up, and halt their keys. One is redriven, changed, at the desk: it
// goes back to its place, and its key goes on in order. The investigation of the other is closed: its source lets its key go,
// and may remove the event. The desk's own outbox has nothing to do with it.
func TestWhatPeopleDoReachesTheSource(t *testing.T) {
	t.Parallel()
	broker := kafkatest.Kfake(t)
	for _, topic := range []string{"orders.a", "billing.a"} {
		broker.CreateTopic(t, topic, 1, small)
	}
	broker.CreateTopic(t, "postrider.dlq", 1, nil)
	desk, deskConn := newSource(t)
	orders, ordersConn := newSource(t)
	billing, billingConn := newSource(t)
	file := newFleetFile(t, desk.URL, broker.Addrs...)
	text := "outbox: {after_last_attempt: halt_key}\nsources:\n  - " + sourceLine("orders", orders.URL) + "\n  - " + sourceLine("billing", billing.URL) + "\n"
	if err := os.WriteFile(file.path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := file.load()
	if err != nil {
		t.Fatal(err)
	}
	var log logtest.Buffer
	a := run(t, Options{Config: c, Logger: slog.New(slog.NewJSONHandler(&log, nil))})
	ann := newPerson(t, a, "ann", access.Admin)

	large := []byte(strings.Repeat("x", 2*smallTopic))
	for topic, conn := range map[string]*pgx.Conn{"orders.a": ordersConn, "billing.a": billingConn} {
		enqueue(t, conn, outbox.Message{Topic: topic, Key: []byte("k"), Payload: large}, outbox.Message{Topic: topic, Key: []byte("k"), Payload: []byte("two")},
			outbox.Message{Topic: topic, Key: []byte("k"), Payload: []byte("three")})
	}
	entries := map[string]string{}
	eventually(t, "two investigations", func() (bool, string) {
		for _, item := range ann.ask("GET", "/dlq", "")["items"].([]any) {
			e := item.(map[string]any)
			entries[fmt.Sprint(e["source"])] = fmt.Sprint(e["id"])
		}
		return len(entries) == 2, fmt.Sprint(entries)
	})
	eventually(t, "orders redrives its event", func() (bool, string) {
		done := ann.ask("POST", "/dlq/requeue", fmt.Sprintf(`{"ids": [%q], "edit": {"payload_text": "one"}}`, entries["orders"]))
		return len(done["requeued"].([]any)) == 1, fmt.Sprint(done) // the relay may have the key in work
	})
	var got []string
	for _, r := range broker.ReadAll(t, "orders.a", 3) {
		got = append(got, string(r.Value))
	}
	if strings.Join(got, " ") != "one two three" {
		t.Errorf("orders.a has %q", got)
	}
	eventually(t, "the investigation is closed", func() (bool, string) {
		e := ann.ask("GET", "/dlq/"+entries["orders"], "")
		return e["resolution_status"] == "manually_resolved", fmt.Sprint(e["resolution_status"], e["resolution_notes"])
	})

	ann.ask("PATCH", "/dlq/"+entries["billing"], `{"resolution_status": "cancelled"}`)
	got = nil
	for _, r := range broker.ReadAll(t, "billing.a", 2) {
		got = append(got, string(r.Value))
	}
	if strings.Join(got, " ") != "two three" {
		t.Errorf("billing.a has %q", got)
	}
	if n := pgtest.Value[int](t, billingConn, `select count(*) from postrider.outbox_exception where closed_at is not null`); n != 1 {
		t.Errorf("billing has %d closed events", n)
	}
	for name, conn := range map[string]*pgx.Conn{"orders": ordersConn, "billing": billingConn} {
		if acts := pgtest.Column[string](t, conn, `select concat(action, ' by ', actor) from postrider.access_audit order by 1`); len(acts) != 1 || !strings.HasSuffix(acts[0], " by ann") {
			t.Errorf("the audit log of %s has %q", name, acts)
		}
	}
	if n := pgtest.Value[int](t, deskConn, `select count(*) from postrider.outbox_event`); n != 0 {
		t.Errorf("the desk's own outbox has %d events", n)
	}
	if strings.Contains(log.String(), "commands did not reach") {
		t.Errorf("%s", log.String())
	}
}

// TestACommandWakesTheRelay: what the source did is looked at when it has answered, and not at the next glance.
func TestACommandWakesTheRelay(t *testing.T) {
	t.Parallel()
	broker := kafkatest.Kfake(t)
	desk, deskConn := newSource(t)
	orders, ordersConn := newSource(t)
	enqueue(t, ordersConn, outbox.Message{Topic: "orders.a", Key: []byte("k"), Payload: []byte("dead")})
	outboxtest.Settle(t, ordersConn, outboxtest.DeadLettered, 1)
	file := newFleetFile(t, desk.URL, broker.Addrs...)
	file.write(t) // no process carries orders
	a := file.run(t, nil)
	event := pgtest.Value[string](t, ordersConn, `select event_id::text from postrider.outbox_exception`)
	pgtest.Exec(t, deskConn, `insert into postrider.dlq_command (source, kind, dlq_entry_uuid, outbox_id, event_id, episode, actor)
		values ('orders', 'close', gen_random_uuid(), 1, $1, 1, 'ann')`, event)
	woken := 0
	w := &sourceWork{fleet: a.fleet, source: config.Source{Name: "orders"}, log: slog.New(slog.DiscardHandler)}
	k := &carrier{pool: orders.Pool(t), wake: func() {
		if n := pgtest.Value[int](t, ordersConn, `select count(*) from postrider.outbox_exception where closed_at is not null`); n != 1 {
			t.Error("the relay is woken before the source has done anything")
		}
		woken++
	}}
	for range 2 { // the second time there is nothing to send
		if err := w.commandNow(t.Context(), k); err != nil {
			t.Fatal(err)
		}
	}
	if woken != 1 {
		t.Errorf("the relay was woken %d times", woken)
	}
}

// TestASourceThatSleepsObeys when it wakes up, and lets go of its database again.
func TestASourceThatSleepsObeys(t *testing.T) {
	t.Parallel()
	broker := kafkatest.Kfake(t)
	broker.CreateTopic(t, "postrider.dlq", 1, nil)
	desk, deskConn := newSource(t)
	orders, ordersConn := newSource(t)
	enqueue(t, ordersConn, outbox.Message{Topic: "orders.a", Key: []byte("k"), Payload: []byte("dead")})
	outboxtest.Settle(t, ordersConn, outboxtest.DeadLettered, 1)
	file := newFleetFile(t, desk.URL, broker.Addrs...)
	file.write(t, sourceLine("orders", orders.URL, "sleep: 5s"))
	a := file.run(t, nil)
	eventually(t, "it sleeps", func() (bool, string) {
		return a.fleet.Statuses()[0].State == SourceAsleep, fmt.Sprint(a.fleet.Statuses())
	})
	event := pgtest.Value[string](t, ordersConn, `select event_id::text from postrider.outbox_exception`)
	pgtest.Exec(t, deskConn, `insert into postrider.dlq_command (source, kind, dlq_entry_uuid, outbox_id, event_id, episode, actor)
		values ('orders', 'close', gen_random_uuid(), 1, $1, 1, 'ann')`, event)
	pgtest.WaitFor(t, deskConn, `select coalesce(answer, '') = 'closed' from postrider.dlq_command`)
	pgtest.WaitFor(t, ordersConn, `select count(*) = 0 from pg_stat_activity where datname = current_database() and application_name = 'postrider relay'`)
}

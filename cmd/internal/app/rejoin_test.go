package app

import (
	"errors"
	"fmt"
	"testing"

	"github.com/postrider/postrider/cmd/internal/api"
	"github.com/postrider/postrider/internal/dlq"
	"github.com/postrider/postrider/internal/testenv/kafkatest"
	"github.com/postrider/postrider/internal/testenv/outboxtest"
	"github.com/postrider/postrider/internal/testenv/pgtest"
	"github.com/postrider/postrider/outbox"
)

// TestARestoredSourceIsNotCarried: the database of a source is set back while a relay leads it. The relay begins no term there, and so
// sends nothing, until people lead it back.
func TestARestoredSourceIsNotCarried(t *testing.T) {
	t.Parallel()
	broker := kafkatest.Kfake(t)
	for _, topic := range []string{"orders.a", "postrider.dlq"} {
		broker.CreateTopic(t, topic, 1, nil)
	}
	desk, deskConn := newSource(t)
	orders, ordersConn := newSource(t)
	enqueue(t, ordersConn, outbox.Message{Topic: "orders.a", Payload: []byte("before")})
	pgtest.Exec(t, ordersConn, `select postrider.outbox_name_source('orders')`)
	backup := orders.Copy(t)
	ordersConn = orders.Conn(t)
	backupConn := backup.Conn(t)
	pgtest.Exec(t, backupConn, `update postrider.outbox_source set place = null`) // as in a backup that is restored in its place
	file := newFleetFile(t, desk.URL, broker.Addrs...)
	file.write(t, sourceLine("orders", orders.URL))
	a := file.run(t, nil)
	enqueue(t, ordersConn, outbox.Message{Topic: "orders.a", Payload: []byte("lost")})
	broker.ReadAll(t, "orders.a", 2)
	// The next look at the source notes its receipts.
	pgtest.WaitFor(t, ordersConn, `select max(position) = 2 from postrider.outbox_receipt`)
	seen := pgtest.Value[int64](t, ordersConn, `select max(number) from postrider.outbox_receipt`)
	pgtest.WaitFor(t, deskConn, `select receipt >= $1 from postrider.dlq_source`, seen)
	receipts := pgtest.Value[int64](t, backupConn, `select max(number) from postrider.outbox_receipt`)
	orders.Replace(t, backup)

	restored := orders.Conn(t)
	eventually(t, "it is refused because it was set back", func() (bool, string) {
		if n := pgtest.Value[int64](t, restored, `select max(number) from postrider.outbox_receipt`); n != receipts {
			t.Fatalf("a relay has written receipts up to %d, the backup has %d", n, receipts)
		}
		s := a.fleet.Statuses()[0]
		return s.State == SourceRefused && s.Reason == string(dlq.StopRewound), fmt.Sprint(s)
	})
	c, err := file.load()
	if err != nil {
		t.Fatal(err)
	}
	services, err := NewServices(desk.Pool(t), c)
	if err != nil {
		t.Fatal(err)
	}
	if looks := LookAtSources(t.Context(), c, services); api.OrZero(looks.Items[0].Reason) != "rewound" {
		t.Errorf("a look says %+v", looks.Items[0])
	}
	req := dlq.RejoinRequest{Source: "orders", Actor: "ada"}
	if _, err := RejoinSource(t.Context(), c, services, dlq.RejoinRequest{Source: "billing", Actor: "ada"}, false); !errors.Is(err, dlq.ErrNotFound) {
		t.Errorf("a source that is not in the settings: %v", err)
	}
	if _, err := ForgetSource(t.Context(), c, services, "orders", "ada"); !errors.Is(err, dlq.ErrSource) {
		t.Errorf("a source that is in the settings is forgotten: %v", err)
	}
	if plan, err := RejoinSource(t.Context(), c, services, req, true); err != nil || plan.Reason != dlq.StopRewound || plan.Done {
		t.Fatalf("%+v, %v", plan, err)
	}
	if done, err := RejoinSource(t.Context(), c, services, req, false); err != nil || !done.Done {
		t.Fatalf("%+v, %v", done, err)
	}
	waitStates(t, a, map[string]SourceState{"orders": SourceLeading})
	broker.ReadAll(t, "orders.a", 3) // what waited in the backup goes out once more
	if n := pgtest.Value[int](t, deskConn, `select count(*) from postrider.access_audit where action = 'source.rejoin' and target_id = 'orders'`); n != 1 {
		t.Errorf("%d rows in the audit log", n)
	}
}

// TestCopiesOfADatabase: a database that was made of another as a template is refused, until people say that it was moved, or give it
// an identity of its own; and what becomes of its backlog is what they said.
func TestCopiesOfADatabase(t *testing.T) {
	t.Parallel()
	original, conn := newSource(t)
	for _, topic := range []string{"orders.dead", "orders.sent", "orders.waits"} {
		enqueue(t, conn, outbox.Message{Topic: topic, Key: []byte(topic), Payload: []byte("x")})
	}
	outboxtest.Settle(t, conn, outboxtest.DeadLettered, 1)
	outboxtest.Settle(t, conn, outboxtest.Published, 2)
	pgtest.Exec(t, conn, `insert into postrider.outbox_hold (scope, topic, key, cause, event_id, next_probe_at)
		select 'key', topic, key, 'halted', event_id, 'infinity' from postrider.outbox_exception; select postrider.outbox_name_source('orders')`)
	moved, left, sent := original.Copy(t), original.Copy(t), original.Copy(t)
	desk, _ := newSource(t)
	file := newFleetFile(t, desk.URL, "127.0.0.1:1")
	file.write(t, sourceLine("orders", moved.URL), sourceLine("left", left.URL), sourceLine("sent", sent.URL))
	c, err := file.load()
	if err != nil {
		t.Fatal(err)
	}
	services, err := NewServices(desk.Pool(t), c)
	if err != nil {
		t.Fatal(err)
	}
	reasons := func() (all []string) {
		for _, l := range LookAtSources(t.Context(), c, services).Items {
			all = append(all, l.Name+" "+api.OrZero(l.Reason))
		}
		return all
	}
	if got := fmt.Sprint(reasons()); got != "[left name orders copy sent name]" {
		t.Errorf("the copies are %s", got)
	}
	if done, err := RejoinSource(t.Context(), c, services, dlq.RejoinRequest{Source: "orders", Actor: "ada"}, false); err != nil || !done.Copied || !done.Done {
		t.Errorf("moved: %+v, %v", done, err)
	}
	if done, err := RejoinSource(t.Context(), c, services, dlq.RejoinRequest{Source: "orders", Actor: "ada"}, false); err != nil || !done.Nothing() {
		t.Errorf("moved, once more: %+v, %v", done, err)
	}
	if _, err := RejoinSource(t.Context(), c, services, dlq.RejoinRequest{Source: "left", Actor: "ada"}, false); !errors.Is(err, dlq.ErrSource) {
		t.Errorf("a copy with the name of another: %v", err)
	}
	ids := map[string]bool{pgtest.Value[string](t, moved.Conn(t), `select source_uuid::text from postrider.outbox_source`): true}
	for source, backlog := range map[string]string{"left": "leave", "sent": "send"} {
		was, is, err := NewIdentity(t.Context(), c, source, backlog)
		if err != nil || was != "orders" {
			t.Fatalf("%s: %s, %v", source, was, err)
		}
		ids[is] = true
		if _, _, err := NewIdentity(t.Context(), c, source, backlog); !errors.Is(err, dlq.ErrSource) {
			t.Errorf("%s, once more: %v", source, err)
		}
	}
	if len(ids) != 3 {
		t.Errorf("the identities are %v", ids)
	}
	if got := fmt.Sprint(reasons()); got != "[left  orders  sent ]" {
		t.Errorf("then they are %s", got)
	}
	for db, want := range map[*pgtest.DB]string{moved: "1 dead_lettered, 2 published, 3 pending; 1", left: "1 published, 2 published, 3 published; 0", sent: "1 exhausted, 2 published, 3 pending; 1"} {
		conn := db.Conn(t)
		if got := pgtest.Value[string](t, conn, `select string_agg(id || ' ' || state, ', ' order by id) || '; ' || (select count(*) from postrider.outbox_hold) from postrider.v_outbox_event`); got != want {
			t.Errorf("%s: the events and holds are %s, want %s", db.Name, got, want)
		}
	}
	// The receipts of the copy agree with its log, and what is written from now on waits for its relay.
	leftConn := left.Conn(t)
	enqueue(t, leftConn, outbox.Message{Topic: "left.a", Payload: []byte("new")})
	pgtest.Exec(t, leftConn, `update postrider.outbox_receipt set at = at - interval '1 hour'`)
	if got := pgtest.Value[string](t, leftConn, `select string_agg(state, ' ') from postrider.v_outbox_event where id > 3`); got != "pending" {
		t.Errorf("what is written later is %s", got)
	}
	if _, err := leftConn.Exec(t.Context(), `select removed from postrider.outbox_purge_events('1 minute', 1000)`); err != nil {
		t.Errorf("retention of the copy: %v", err)
	}
}

// TestACopyIsNotCarried: a process meets a database that was made of another as a template. It sends nothing of it, until people say
// that it was moved.
func TestACopyIsNotCarried(t *testing.T) {
	t.Parallel()
	broker := kafkatest.Kfake(t)
	broker.CreateTopic(t, "orders.a", 1, nil)
	original, conn := newSource(t)
	enqueue(t, conn, outbox.Message{Topic: "orders.a", Payload: []byte("waits")})
	pgtest.Exec(t, conn, `select postrider.outbox_name_source('orders')`)
	copied := original.Copy(t)
	desk, _ := newSource(t)
	file := newFleetFile(t, desk.URL, broker.Addrs...)
	file.write(t, sourceLine("orders", copied.URL))
	a := file.run(t, nil)
	waitStates(t, a, map[string]SourceState{"orders": SourceRefused})
	if s := a.fleet.Statuses()[0]; s.Reason != reasonCopy {
		t.Errorf("it is refused as %+v", s)
	}
	if n := pgtest.Value[int](t, copied.Conn(t), `select count(*) from postrider.outbox_receipt where note = 'began'`); n != 0 {
		t.Errorf("a relay has begun %d terms", n)
	}
	c, err := file.load()
	if err != nil {
		t.Fatal(err)
	}
	services, err := NewServices(desk.Pool(t), c)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := RejoinSource(t.Context(), c, services, dlq.RejoinRequest{Source: "orders", Actor: "ada"}, false); err != nil {
		t.Fatal(err)
	}
	waitStates(t, a, map[string]SourceState{"orders": SourceLeading})
	broker.ReadAll(t, "orders.a", 1)
}

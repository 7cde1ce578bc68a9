package app

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/cmd/internal/access"
	"github.com/postrider/postrider/internal/migrations"
	"github.com/postrider/postrider/internal/testenv/kafkatest"
	"github.com/postrider/postrider/internal/testenv/pgtest"
)

// confined is a login of a source's relay that may connect to its own database alone, as docs/security.md says.
func confined(t *testing.T, db *pgtest.DB, conn *pgx.Conn) (address string) {
	t.Helper()
	if err := migrations.ApplyRoles(t.Context(), conn); err != nil {
		t.Fatal(err)
	}
	address, _ = db.Login(t, "postrider_relay")
	login := pgx.Identifier{strings.Split(strings.TrimPrefix(address, "postgres://"), ":")[0]}.Sanitize()
	pgtest.Exec(t, conn, fmt.Sprintf(`do $$ begin
		execute format('revoke connect on database %%I from public', current_database());
		execute format('grant connect on database %%I to %s', current_database()); end $$`, login))
	t.Cleanup(func() { // or the login cannot be dropped
		if _, err := conn.Exec(context.WithoutCancel(t.Context()), fmt.Sprintf(`do $$ begin execute format('revoke connect on database %%I from %s', current_database()); end $$`, login)); err != nil {
			t.Error(err)
		}
	})
	return address
}

// othersAtTheDesk is all that the desk has of other sources than orders.
const othersAtTheDesk = `select concat_ws(' | ',
	(select string_agg(e::text, ' ' order by e) from postrider.dlq_entry e where source <> 'orders'),
	(select string_agg(l::text, ' ' order by l) from postrider.dlq_letter l where source <> 'orders'),
	(select string_agg(g::text, ' ' order by g) from postrider.dlq_group g where source <> 'orders'),
	(select string_agg(c::text, ' ' order by c) from postrider.dlq_command c where source <> 'orders'),
	(select string_agg(d::text, ' ' order by d) from postrider.dlq_redrive d where source <> 'orders'),
	(select string_agg(s::text, ' ' order by s) from postrider.dlq_source s where source <> 'orders' and (stopped is not null or forgotten_at is not null)),
	(select count(*) from postrider.dlq_operation), (select count(*) from postrider.dlq_comment))`

// TestALoginOfOneSourceNeitherReadsNorInfluencesAnother: a person with the logins of orders tries it with SQL, by what is written into the
// outbox, with letters in the dead-letter topic of orders, and with a key of the API that may do everything at orders. The desk's own
// outbox and billing have an event each that was given up and halts its key. Nothing of them is read, and nothing of them changes.
func TestALoginOfOneSourceNeitherReadsNorInfluencesAnother(t *testing.T) {
	t.Parallel()
	f := &forging{t: t, broker: kafkatest.Kfake(t), conns: map[string]*pgx.Conn{}, events: map[string]uuid.UUID{}, dbs: map[string]*pgtest.DB{}}
	for _, topic := range []string{"orders.a", "orders.dlq", "postrider.dlq", "postrider.consumer.dlq", "postrider.lifecycle"} {
		f.broker.CreateTopic(t, topic, 1, nil)
	}
	relays := map[string]string{}
	for _, name := range []string{"main", "orders", "billing"} {
		f.dbs[name], f.conns[name] = newSource(t)
		relays[name] = confined(t, f.dbs[name], f.conns[name])
	}
	for _, name := range []string{"main", "billing"} {
		f.broker.CreateTopic(t, name+".a", 1, small)
		f.events[name] = uuid.New()
	}
	file := newFleetFile(t, f.dbs["main"].URL, f.broker.Addrs...)
	text := "outbox: {after_last_attempt: halt_key}\ncollector: {topics: [orders.dlq]}\nsources:\n  - " + sourceLine("orders", relays["orders"]) + "\n  - " + sourceLine("billing", relays["billing"]) + "\n"
	if err := os.WriteFile(file.path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := file.load()
	if err != nil {
		t.Fatal(err)
	}
	f.app = run(t, Options{Config: c})
	waitStates(t, f.app, map[string]SourceState{"orders": SourceLeading, "billing": SourceLeading})
	for source, event := range f.events {
		pgtest.Exec(t, f.conns[source], `insert into postrider.outbox_event (event_id, topic, key, payload) values ($1, $2, 'k', $3), (gen_random_uuid(), $2, 'k', 'a secret')`,
			event, source+".a", []byte(strings.Repeat("x", 2*smallTopic)))
		pgtest.WaitFor(t, f.conns[source], `select exists (select from postrider.outbox_exception where state = 'dead_lettered') and exists (select from postrider.outbox_exception where state = 'parked')`)
	}
	pgtest.WaitFor(t, f.conns["main"], `select count(*) = 2 from postrider.dlq_entry`)
	standing := func() string {
		var all []string
		for _, source := range []string{"main", "billing"} {
			all = append(all, pgtest.Value[string](t, f.conns[source], `select concat_ws(' | ', (select string_agg(x::text, ' ' order by x.id) from postrider.outbox_exception x),
				(select string_agg(concat_ws(' ', h.cause, h.asked), ' ') from postrider.outbox_hold h), (select string_agg(e.event_id::text, ' ' order by e.id) from postrider.outbox_event e))`))
		}
		return strings.Join(append(all, pgtest.Value[string](t, f.conns["main"], othersAtTheDesk)), "\n")
	}
	was := standing()

	f.trySQL(relays["orders"])
	f.tryEvents()
	f.tryLetters()
	f.tryAPI()

	if now := standing(); now != was {
		t.Errorf("others have\n%s\nand had\n%s", now, was)
	}
	for _, topic := range []string{"orders.a", "main.a", "billing.a", "postrider.consumer.dlq", "postrider.lifecycle"} {
		if got := f.broker.ReadAll(t, topic, 0); len(got) > 0 {
			t.Errorf("%s has %d records", topic, len(got))
		}
	}
}

// trySQL: the login of the relay of orders is let into no other database; a writer of orders has no more than its functions.
func (f *forging) trySQL(relay string) {
	parsed, err := pgx.ParseConfig(relay)
	if err != nil {
		f.t.Fatal(err)
	}
	for _, name := range []string{"main", "billing"} {
		other := parsed.Copy()
		other.Database = pgtest.Value[string](f.t, f.conns[name], `select current_database()`)
		if conn, err := pgx.ConnectConfig(f.t.Context(), other); err == nil {
			_ = conn.Close(f.t.Context())
			f.t.Errorf("the login of orders is let into the database of %s", name)
		} else if !strings.Contains(err.Error(), "42501") {
			f.t.Errorf("%s: %v", name, err)
		}
	}
	writer := f.writer()
	for _, sql := range []string{`insert into postrider.outbox_event (topic, kind) values ('postrider.dlq', 'task')`, `select * from postrider.outbox_exception`,
		`update postrider.outbox_source set desk = 'mine'`, `select postrider.outbox_obey('mine', '[]')`, `select * from postrider.dlq_entry`} {
		if _, err := writer.Exec(f.t.Context(), sql); err == nil {
			f.t.Errorf("a writer may %s", sql)
		}
	}
}

func (f *forging) writer() *pgx.Conn {
	f.t.Helper()
	writer, err := pgx.Connect(f.t.Context(), f.dbs["orders"].As("postrider_writer"))
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() { _ = writer.Close(context.WithoutCancel(f.t.Context())) })
	return writer
}

// tryEvents writes into the outbox of orders for topics of others and with headers of Postrider's: as a writer, who inserts what the
// functions refuse, and as the owner of the database, who writes what Postrider alone writes, into the topic of relays.
func (f *forging) tryEvents() {
	t := f.t
	forged := fmt.Sprintf(`[["postrider-letter-version", "1"], ["postrider-event-id", %q], ["postrider-episode", "1"], ["postrider-outbox-id", "1"],
		["postrider-origin-topic", "billing.a"], ["postrider-payload", "inline"], ["postrider-source", "billing"]]`, f.events["billing"])
	spring := `[["kafka_dlt-original-topic", "billing.a"], ["kafka_dlt-original-partition", {"base64": "AAAAAA=="}], ["kafka_dlt-original-offset", {"base64": "AAAAAAAAAAU="}],
		["kafka_dlt-original-timestamp", {"base64": "AAABi8/laAA="}], ["kafka_dlt-original-consumer-group", "bills"]]`
	writer := f.writer()
	for i, row := range [][2]string{{"billing.a", "[]"}, {"orders.a", forged}, {"orders.a", `[["Postrider-Source", "billing"]]`}, {"postrider.dlq", "[]"},
		{"postrider.consumer.dlq", spring}, {"postrider.lifecycle", "[]"}} {
		pgtest.Exec(t, writer, `insert into postrider.outbox_event (topic, key, payload, headers) values ($1, $2, 'forged', $3)`, row[0], fmt.Sprint("k", i), row[1])
	}
	pgtest.Exec(t, f.conns["orders"], `insert into postrider.outbox_event (topic, kind, key, payload, headers) values
		('postrider.dlq', 'task', 'a', 'forged', '[]'), ('postrider.dlq', 'task', 'b', 'forged', $1), ('postrider.dlq', 'task', 'c', 'forged', $2), ('postrider.dlq', 'redrive', 'd', 'forged', $2)`,
		forged, spring)
	pgtest.WaitFor(t, f.conns["orders"], `select count(*) = 8 from postrider.outbox_exception where state = 'dead_lettered'`)
	f.wantOfOrders(10)
}

// tryLetters forges letters of the events of others in the topic of orders: the same episode, the next one, and with other sources.
func (f *forging) tryLetters() {
	for source := range f.events {
		f.forge("orders.dlq", "forged", f.letter(source, 1)...)
		f.forge("orders.dlq", "forged", f.letter(source, 2)...)
		f.forge("orders.dlq", "forged", append(f.letter(source, 1), "ce_type", "postrider.task.dead_lettered.v1")...)
		f.forge("orders.dlq", "forged", failed(source+".a", 5, "group", "postrider-source", source)...)
	}
	f.wantOfOrders(18)
}

// wantOfOrders waits until the desk has so many investigations beside the two of others, all of orders.
func (f *forging) wantOfOrders(n int) {
	f.t.Helper()
	pgtest.WaitFor(f.t, f.conns["main"], `select count(*) = $1 from postrider.dlq_entry`, n+2)
	if got := pgtest.Value[int](f.t, f.conns["main"], `select count(*) from postrider.dlq_entry where source = 'orders' and starts_with(subject_id, 'orders/')`); got != n {
		f.t.Errorf("%d of %d investigations are of orders: %q", got, n, f.entries("true"))
	}
}

// tryAPI asks for what others have, with a key that may do everything at orders, and sends what orders has to others.
func (f *forging) tryAPI() {
	t := f.t
	_, key, err := f.app.Services().Access.Create(access.WithActor(t.Context(), access.Actor{Name: "test"}),
		access.NewKey{Name: "orders", Scopes: []access.Scope{access.Admin}, Sources: access.Sources{"orders"}})
	if err != nil {
		t.Fatal(err)
	}
	tenant := &person{t, f.app, "orders", key}
	var secrets []string // ids and texts of others
	for source, event := range f.events {
		secrets = append(secrets, event.String(), pgtest.Value[string](t, f.conns["main"], `select dlq_entry_uuid::text from postrider.dlq_entry where source = $1`, source),
			pgtest.Value[string](t, f.conns["main"], `select dlq_group_uuid::text from postrider.dlq_group where source = $1 and pending > 0`, source))
	}
	for _, path := range []string{"/dlq", "/dlq?source=billing", "/groups", "/commands", "/operations", "/audit", "/sources", "/dlq/stats"} {
		status, raw, err := tenant.send(t.Context(), "GET", path, "")
		if err != nil || status != 200 {
			t.Errorf("GET %s: %d %s, %v", path, status, raw, err)
		}
		for _, secret := range append(slices.Clone(secrets), "billing.a", "main.a", "a secret") {
			// What orders forged has the names of others, and the ids of events that it knew.
			if strings.Contains(string(raw), secret) && !slices.Contains([]string{f.events["main"].String(), f.events["billing"].String(), "billing.a", "main.a"}, secret) {
				t.Errorf("GET %s shows %s", path, secret)
			}
		}
	}
	own := pgtest.Value[string](t, f.conns["main"], `select dlq_entry_uuid::text from postrider.dlq_entry where source = 'orders' and subject_type = 'record' limit 1`)
	for source := range f.events {
		entry := pgtest.Value[string](t, f.conns["main"], `select dlq_entry_uuid::text from postrider.dlq_entry where source = $1`, source)
		group := pgtest.Value[string](t, f.conns["main"], `select dlq_group_uuid::text from postrider.dlq_group where source = $1 and pending > 0`, source)
		for _, request := range [][3]string{
			{"GET", "/dlq/" + entry, ""}, {"GET", "/dlq/" + entry + "/payload", ""}, {"GET", "/groups/" + group, ""},
			{"POST", "/dlq/requeue", fmt.Sprintf(`{"ids": [%q]}`, entry)}, {"POST", "/dlq/requeue", fmt.Sprintf(`{"ids": [%q, %q]}`, own, entry)},
			{"POST", "/dlq/release", fmt.Sprintf(`{"ids": [%q]}`, entry)}, {"POST", "/dlq/purge", fmt.Sprintf(`{"ids": [%q], "release_keys": true}`, entry)},
			{"PATCH", "/dlq/" + entry, `{"resolution_status": "cancelled"}`}, {"POST", "/dlq/" + entry + "/comments", `{"text": "x"}`},
			{"POST", "/groups/" + group + "/resolve", ""}, {"POST", "/operations", fmt.Sprintf(`{"kind": "resolve", "name": "n", "scope": {"group": %q}}`, group)},
			{"POST", "/dlq/requeue", fmt.Sprintf(`{"ids": [%q], "target": %q}`, own, source+".a")},
			{"POST", "/sources/billing/forget", ""}, {"POST", "/sources/billing/rejoin", ""}, {"GET", "/outbox", ""}, {"GET", "/holds", ""}, {"POST", "/holds/1/release", ""}, {"GET", "/keys", ""},
		} {
			if status, raw, err := tenant.send(t.Context(), request[0], request[1], request[2]); err != nil || status != 403 && status != 404 {
				t.Errorf("%s %s %s: %d %s, %v", request[0], request[1], request[2], status, raw, err)
			}
		}
	}
}

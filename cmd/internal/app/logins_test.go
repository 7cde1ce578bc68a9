package app

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/migrations"
	"github.com/postrider/postrider/internal/testenv/kafkatest"
	"github.com/postrider/postrider/internal/testenv/pgtest"
)

// TestALoginOfOneSourceReachesNoOther: the relay's and a writer's login of orders, with the rights of docs/security.md, and even the owner
// of its database. By SQL they reach no other database. What they write into their outbox, for topics of billing, of Postrider and with
// headers of Postrider's, changes nothing but topics and investigations of orders.
func TestALoginOfOneSourceReachesNoOther(t *testing.T) {
	t.Parallel()
	broker := kafkatest.Kfake(t)
	for _, topic := range []string{"orders.a", "billing.a", "postrider.dlq", "postrider.consumer.dlq", "postrider.lifecycle"} {
		broker.CreateTopic(t, topic, 1, nil)
	}
	dbs, conns, relays := map[string]*pgtest.DB{}, map[string]*pgx.Conn{}, map[string]string{}
	for _, name := range []string{"main", "orders", "billing"} {
		dbs[name], conns[name] = newSource(t)
		if err := migrations.ApplyRoles(t.Context(), conns[name]); err != nil {
			t.Fatal(err)
		}
		relays[name], _ = dbs[name].Login(t, "postrider_relay")
		login := pgx.Identifier{strings.Split(strings.TrimPrefix(relays[name], "postgres://"), ":")[0]}.Sanitize()
		pgtest.Exec(t, conns[name], fmt.Sprintf(`do $$ begin
			execute format('revoke connect on database %%I from public', current_database());
			execute format('grant connect on database %%I to %s', current_database()); end $$`, login))
		t.Cleanup(func() { // or the login cannot be dropped
			if _, err := conns[name].Exec(context.WithoutCancel(t.Context()), fmt.Sprintf(`do $$ begin execute format('revoke connect on database %%I from %s', current_database()); end $$`, login)); err != nil {
				t.Error(err)
			}
		})
	}
	file := newFleetFile(t, dbs["main"].URL, broker.Addrs...)
	text := "collector: {topics: [orders.dlq]}\nsources:\n  - " + sourceLine("orders", relays["orders"]) + "\n  - " + sourceLine("billing", relays["billing"]) + "\n"
	if err := os.WriteFile(file.path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := file.load()
	if err != nil {
		t.Fatal(err)
	}
	a := run(t, Options{Config: c})
	waitStates(t, a, map[string]SourceState{"orders": SourceLeading, "billing": SourceLeading})

	// SQL: the login of orders comes into no other database.
	parsed, err := pgx.ParseConfig(relays["orders"])
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"main", "billing"} {
		other := parsed.Copy()
		other.Database = pgtest.Value[string](t, conns[name], `select current_database()`)
		if conn, err := pgx.ConnectConfig(t.Context(), other); err == nil {
			_ = conn.Close(t.Context())
			t.Errorf("the login of orders is let into the database of %s", name)
		} else if !strings.Contains(err.Error(), "42501") {
			t.Errorf("%s: %v", name, err)
		}
	}

	// A writer: what the functions refuse it inserts.
	writer, err := pgx.Connect(t.Context(), dbs["orders"].As("postrider_writer"))
	if err != nil {
		t.Fatal(err)
	}
	defer writer.Close(t.Context()) //nolint:errcheck // the test is over
	forged := fmt.Sprintf(`[["postrider-letter-version", "1"], ["postrider-event-id", %q], ["postrider-episode", "1"], ["postrider-outbox-id", "1"],
		["postrider-origin-topic", "billing.a"], ["postrider-payload", "inline"], ["postrider-source", "billing"]]`, "0192f000-0000-7000-8000-000000000001")
	spring := `[["kafka_dlt-original-topic", "billing.a"], ["kafka_dlt-original-partition", {"base64": "AAAAAA=="}], ["kafka_dlt-original-offset", {"base64": "AAAAAAAAAAU="}],
		["kafka_dlt-original-timestamp", {"base64": "AAABi8/laAA="}], ["kafka_dlt-original-consumer-group", "bills"]]`
	for _, row := range [][2]string{{"billing.a", "[]"}, {"orders.a", forged}, {"orders.a", `[["Postrider-Source", "billing"]]`}, {"postrider.dlq", "[]"},
		{"postrider.consumer.dlq", spring}, {"postrider.lifecycle", "[]"}} {
		pgtest.Exec(t, writer, `insert into postrider.outbox_event (topic, key, payload, headers) values ($1, 'k', 'forged', $2)`, row[0], row[1])
	}
	for _, sql := range []string{`insert into postrider.outbox_event (topic, kind) values ('postrider.dlq', 'task')`, `select * from postrider.outbox_exception`,
		`update postrider.outbox_source set desk = 'mine'`, `select postrider.outbox_obey('mine', '[]')`, `select * from postrider.dlq_entry`} {
		if _, err := writer.Exec(t.Context(), sql); err == nil {
			t.Errorf("a writer may %s", sql)
		}
	}
	// The owner of the database writes what Postrider alone writes: into the topic of relays.
	pgtest.Exec(t, conns["orders"], `insert into postrider.outbox_event (topic, kind, key, payload, headers) values
		('postrider.dlq', 'task', 'k', 'forged', '[]'), ('postrider.dlq', 'task', 'k', 'forged', $1), ('postrider.dlq', 'task', 'k', 'forged', $2), ('postrider.dlq', 'redrive', 'k', 'forged', $2)`,
		forged, spring)

	pgtest.WaitFor(t, conns["orders"], `select count(*) = 8 from postrider.outbox_exception where state = 'dead_lettered'`)
	pgtest.WaitFor(t, conns["main"], `select count(*) = 10 from postrider.dlq_entry`)
	if got := pgtest.Column[string](t, conns["main"], `select distinct source from postrider.dlq_entry`); !slices.Equal(got, []string{"orders"}) {
		t.Errorf("investigations are of %q", got)
	}
	if got := pgtest.Column[string](t, conns["main"], `select subject_id from postrider.dlq_entry where not starts_with(subject_id, 'orders/')`); len(got) > 0 {
		t.Errorf("subjects of others: %q", got)
	}
	for _, topic := range []string{"orders.a", "billing.a", "postrider.consumer.dlq", "postrider.lifecycle"} {
		if got := broker.ReadAll(t, topic, 0); len(got) > 0 {
			t.Errorf("%s has %d records", topic, len(got))
		}
	}
	for _, name := range []string{"main", "billing"} {
		if got := pgtest.Value[int](t, conns[name], `select (select count(*) from postrider.outbox_event) + (select count(*) from postrider.outbox_exception) + (select count(*) from postrider.outbox_hold)`); got != 0 {
			t.Errorf("the outbox of %s has %d rows", name, got)
		}
	}
}

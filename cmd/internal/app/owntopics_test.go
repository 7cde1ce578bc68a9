package app

import (
	"strings"
	"testing"

	"github.com/postrider/postrider/internal/testenv/kafkatest"
	"github.com/postrider/postrider/internal/testenv/pgtest"
)

// TestOwnTopics: a start makes the set of Postrider's own topics that of its settings. Writers' functions then refuse
// them, and what was written there by a plain insert is given up.
func TestOwnTopics(t *testing.T) {
	t.Parallel()
	db, broker := pgtest.New(t), kafkatest.Kfake(t)
	conn := db.Conn(t)
	for _, topic := range []string{"dead", "life", "orders"} {
		broker.CreateTopic(t, topic, 1, nil)
	}
	c := settings(t, db.URL, broker.Addrs...)
	c.DLQ.Topic, c.Tasks.LifecycleTopic = "dead", "life"
	for range 2 { // a restart changes nothing
		a, err := New(t.Context(), Options{Config: c, Roles: []Role{Relay}})
		if err != nil {
			t.Fatal(err)
		}
		if err := a.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := pgtest.Value[string](t, conn, `select string_agg(topic || ': ' || use, ', ' order by topic) from postrider.outbox_own_topic`); got != "dead: dead letters, life: lifecycle events" {
			t.Fatalf("the own topics are %s", got)
		}
	}
	for _, topic := range []string{"dead", "life"} {
		if _, err := conn.Exec(t.Context(), `select postrider.outbox_publish($1, 'k', '{}')`, topic); err == nil || !strings.Contains(err.Error(), "Postrider itself writes") {
			t.Errorf("an event for %s: %v", topic, err)
		}
	}
	pgtest.Exec(t, conn, `insert into postrider.outbox_event (topic, key, payload) values ('dead', 'k', 'forged'), ('orders', 'k', 'v')`)
	run(t, Options{Config: c, Roles: []Role{Relay}})
	waitRow(t, conn, "the forged event is given up", `select count(*) = 1 from postrider.outbox_exception where id = 1 and state = 'dead_lettered' and last_error_code = 'RESERVED_TOPIC'`)
	waitRow(t, conn, "the other one goes", `select state = 'published' from postrider.v_outbox_event where id = 2`)
}

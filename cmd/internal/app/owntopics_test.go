package app

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/postrider/postrider/cmd/internal/config"
	"github.com/postrider/postrider/internal/tasks/ledgertest"
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
		if got := pgtest.Value[string](t, conn, `select string_agg(topic || ': ' || use, ', ' order by topic) from postrider.outbox_own_topic`); got != "dead: dead letters, life: lifecycle events, postrider.consumer.dlq: dead letters of consumers" {
			t.Fatalf("the own topics are %s", got)
		}
	}
	for _, topic := range []string{"dead", "life", "postrider.consumer.dlq"} {
		if _, err := conn.Exec(t.Context(), `select postrider.outbox_publish($1, 'k', '{}')`, topic); err == nil || !strings.Contains(err.Error(), "Postrider itself writes") {
			t.Errorf("an event for %s: %v", topic, err)
		}
	}
	pgtest.Exec(t, conn, `insert into postrider.outbox_event (topic, key, payload) values ('dead', 'k', 'forged'), ('orders', 'k', 'v')`)
	run(t, Options{Config: c, Roles: []Role{Relay}})
	waitRow(t, conn, "the forged event is given up", `select count(*) = 1 from postrider.outbox_exception where id = 1 and state = 'dead_lettered' and last_error_code = 'RESERVED_TOPIC'`)
	waitRow(t, conn, "the other one goes", `select state = 'published' from postrider.v_outbox_event where id = 2`)
}

// TestAttemptsAreShown: people see how many attempts an event has before it was tried, while it waits and after it went: its
// task's template says it, else the topic's settings.
func TestAttemptsAreShown(t *testing.T) {
	t.Parallel()
	db, broker := pgtest.New(t), kafkatest.Kfake(t)
	conn, pool := db.Conn(t), db.Pool(t)
	for _, topic := range []string{"orders", "rare"} {
		broker.CreateTopic(t, topic, 1, nil)
	}
	ledgertest.Apply(t, pool, ledgertest.Template{Configuration: `{"max_retries": 2}`})
	id := ledgertest.Create(t, pool, ledgertest.New{})
	pgtest.Exec(t, conn, fmt.Sprintf(`insert into postrider.outbox_event (topic, key, payload, available_at, task_uuid) values
		('orders', 'a', 'x', null, null), ('rare', 'b', 'x', null, null), ('orders', 'c', 'x', null, '%[1]s'),
		('orders', 'd', 'x', now() + interval '1 hour', null), ('rare', 'e', 'x', now() + interval '1 hour', null), ('rare', 'f', 'x', now() + interval '1 hour', '%[1]s')`, id))
	const shown = `select string_agg(convert_from(key, 'UTF8') || ' ' || state || ' ' || coalesce(max_attempts::text, 'null'), ', ' order by id) from postrider.v_outbox_event where topic in ('orders', 'rare')`
	if got := pgtest.Value[string](t, conn, shown); got != "a pending 5, b pending 5, c pending 2, d pending 5, e pending 5, f pending 2" {
		t.Errorf("before any relay: %s", got)
	}
	file := filepath.Join(t.TempDir(), "postrider.yaml")
	if err := os.WriteFile(file, []byte("topics:\n  - match: ra*\n    max_attempts: 9\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	ruled, err := config.Load(config.From{File: file})
	if err != nil {
		t.Fatal(err)
	}
	c := settings(t, db.URL, broker.Addrs...)
	c.Outbox.MaxAttempts, c.Topics = 7, ruled.Topics
	run(t, Options{Config: c, Roles: []Role{Relay}})
	waitRow(t, conn, "what people see", `select (`+shown+`) = 'a published 7, b published 9, c published 2, d scheduled 7, e scheduled 9, f scheduled 2'`)
}

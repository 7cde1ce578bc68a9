package app

import (
	"context"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/migrations"
	"github.com/postrider/postrider/internal/testenv/kafkatest"
	"github.com/postrider/postrider/internal/testenv/pgtest"
)

// asRelay makes the topics of a small app, and the address of a database for a new login with the relay's rights; conn is
// the owner's.
func asRelay(t *testing.T, db *pgtest.DB, broker *kafkatest.Broker) (conn *pgx.Conn, address, password string) {
	t.Helper()
	broker.CreateTopic(t, "orders", 1, nil)
	broker.CreateTopic(t, "postrider.dlq", 1, nil)
	conn = db.Conn(t)
	if err := migrations.ApplyRoles(t.Context(), conn); err != nil {
		t.Fatal(err)
	}
	address, password = db.Login(t, "postrider_relay")
	return conn, address, password
}

// A user without the rights of a role is refused at the start, and would otherwise fail for ever beside a readiness
// that knows nothing of it.
func TestWithoutTheRightsOfARole(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	conn := db.Conn(t)
	if err := migrations.ApplyRoles(t.Context(), conn); err != nil {
		t.Fatal(err)
	}
	for _, role := range []string{"postrider_operator", "postrider_writer"} {
		address, _ := db.Login(t, role)
		a, err := New(t.Context(), Options{Config: settings(t, address, "127.0.0.1:9")})
		if err == nil {
			t.Error(role, "is accepted", a.Stop(context.Background()))
		} else if !strings.Contains(err.Error(), "postrider_relay") || !strings.Contains(err.Error(), "postrider doctor") {
			t.Errorf("%s: %v", role, err)
		}
	}
}

// An app with the rights of its role archives what the settings say, counts it, renews the dashboards' figures,
// and tells Kafka.
func TestAppArchives(t *testing.T) {
	t.Parallel()
	db, broker := pgtest.New(t), kafkatest.Kfake(t)
	broker.CreateTopic(t, "postrider.lifecycle", 1, nil)
	broker.CreateTopic(t, "postrider.dlq", 1, nil)
	conn := db.Conn(t)
	for _, sql := range []string{
		`insert into postrider.tasker_task_namespaces (name) values ('default')`,
		`insert into postrider.tasker_named_tasks (task_namespace_uuid, name, version, configuration, state_machine_id)
			select n.task_namespace_uuid, 'task', '1.0.0', '{}', m.state_machine_id from postrider.tasker_task_namespaces n, postrider.tasker_state_machines m where m.name = 'workflow'`,
		`insert into postrider.tasker_tasks (named_task_uuid, state, live, state_entered_at)
			select named_task_uuid, s, s = 'pending', now() - d * interval '1 day' from postrider.tasker_named_tasks,
			(values ('complete', 20), ('complete', 5), ('cancelled', 20), ('error', 20), ('pending', 0)) v(s, d)`,
	} {
		if _, err := conn.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	if err := migrations.ApplyRoles(t.Context(), conn); err != nil {
		t.Fatal(err)
	}
	address, _ := db.Login(t, "postrider_relay")
	c := settings(t, address, broker.Addrs...)
	c.Archive.RetentionDays, c.Archive.ArchiveCancelled, c.Archive.ArchiveFailed = 10, true, false
	a := run(t, Options{Config: c})
	waitReady(t, a)
	waitRow(t, conn, "two tasks are archived", `select count(*) = 2 from postrider.tasker_tasks_archive where final_state in ('complete', 'cancelled')`)
	waitRow(t, conn, "three are live", `select count(*) = 3 from postrider.tasker_tasks`)
	waitRow(t, conn, "the figures are fresh", `select bool_and(as_of > now() - interval '1 minute') from postrider.dashboard_summary`)
	for _, record := range broker.ReadAll(t, "postrider.lifecycle", 2) {
		if !strings.Contains(string(record.Value), `"final_state"`) {
			t.Errorf("the event says %s", record.Value)
		}
	}
	eventually(t, "the metrics", func() (bool, string) {
		_, body := get(t, a, "/metrics")
		return strings.Contains(body, `postrider_archive_duration_seconds_count{batch_size="1000"} 1`) &&
			strings.Contains(body, `postrider_archive_failures_total 0`), body
	})
}

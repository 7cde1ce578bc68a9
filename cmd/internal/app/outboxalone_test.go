package app

import (
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/postrider/postrider/cmd/internal/obs"
	"github.com/postrider/postrider/internal/migrations"
	"github.com/postrider/postrider/internal/relay"
	"github.com/postrider/postrider/internal/testenv/kafkatest"
	"github.com/postrider/postrider/internal/testenv/logtest"
	"github.com/postrider/postrider/internal/testenv/pgtest"
)

// serviceDatabase is a database to which a service's own migration tool, here psql, applied the script for these parts, with the
// roles, and what psql does there as a login with a role.
func serviceDatabase(t *testing.T, parts ...migrations.Part) (db *pgtest.DB, as func(address, sql string, arguments ...string) string) {
	t.Helper()
	psql, err := exec.LookPath("psql")
	if err != nil {
		logtest.NotTested(t, "there is no psql; install the PostgreSQL client programs")
	}
	db = pgtest.NewEmpty(t)
	as = func(address, sql string, arguments ...string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), psql, append(arguments, "-X", "-q", "-t", "-A", "--set", "ON_ERROR_STOP=1", "--file", "-", address)...)
		cmd.Stdin = strings.NewReader(sql)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("psql: %v\n%s", err, out)
		}
		return strings.TrimSpace(string(out))
	}
	all, err := migrations.All()
	if err != nil {
		t.Fatal(err)
	}
	as(db.URL, migrations.New(nil, all, migrations.WithOnly(parts...)).SQL(migrations.ForTool), "--single-transaction")
	as(db.URL, migrations.RolesScript(parts))
	return db, as
}

// TestServeOnAnOutboxAlone: the relay of a service's database sends, gives up, keeps what it gave up until it is closed, removes what
// is old, and says how it does, with the rights of its role.
func TestServeOnAnOutboxAlone(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		parts []migrations.Part
		roles []Role
	}{
		"outbox":           {migrations.Parts()[:1], []Role{Relay, HTTP}},
		"outbox and tasks": {migrations.Parts()[:2], []Role{Relay, HTTP, Detector, Archiver}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db, psql := serviceDatabase(t, c.parts...)
			owner, broker := db.Conn(t), kafkatest.Kfake(t)
			broker.CreateTopic(t, "orders", 1, nil)
			broker.CreateTopic(t, "postrider.dlq", 1, nil)
			broker.CreateTopic(t, "postrider.lifecycle", 1, nil)
			pgtest.Exec(t, owner, `insert into postrider.access_audit (at, actor, action, target_type) values (now() - interval '5 years', 'a', 'old', 'event')`)
			address, _ := db.Login(t, "postrider_relay")
			writer, _ := db.Login(t, "postrider_writer")
			var log logtest.Buffer
			logger, err := obs.NewLogger(&log, "info", "json")
			if err != nil {
				t.Fatal(err)
			}
			s := settings(t, address, broker.Addrs...)
			s.HTTP.API, s.Outbox.RetentionDays = false, 0
			s.Staleness.DetectionInterval, s.Staleness.LatencyLimit = 50*time.Millisecond, 1 // each batch is too slow
			a := run(t, Options{Config: s, Roles: c.roles, Logger: logger})
			waitReady(t, a)
			psql(writer, `select postrider.outbox_publish('orders', 'k', '{"n": 1}')`)
			psql(writer, `insert into postrider.outbox_event (topic, key, payload) values ('postrider.lifecycle', 'k', 'not its own')`)
			if got := broker.ReadAll(t, "orders", 1); string(got[0].Value) != `{"n": 1}` {
				t.Errorf("the topic has %s", got[0].Value)
			}
			if got := broker.ReadAll(t, "postrider.dlq", 1); string(got[0].Value) != "not its own" {
				t.Errorf("the dead-letter topic has %s", got[0].Value)
			}
			pgtest.WaitFor(t, owner, `select exists (select from postrider.outbox_exception where state = 'dead_lettered' and closed_at is null)`)
			_, metrics := get(t, a, "/metrics")
			for _, line := range []string{`postrider_outbox_dead_lettered_total{source="main"} 1`, `postrider_outbox_leading{source="main"} 1`, `postrider_ready{check="database"} 1`} {
				if !strings.Contains(metrics, "\n"+line+"\n") {
					t.Errorf("the metrics lack %s", line)
				}
			}
			// The desk's word comes from elsewhere. Nothing goes before it.
			if n := pgtest.Value[int](t, owner, `select postrider.outbox_close(array[id], array[event_id], array[episode]) from postrider.outbox_exception`); n != 1 {
				t.Errorf("%d events were closed", n)
			}
			pgtest.Exec(t, owner, `update postrider.outbox_exception set closed_at = now() - interval '40 days'`)
			if _, err := Cleanup(t.Context(), s, logger, relay.CleanupOptions{}); err != nil { // the relay does it, too
				t.Error(err)
			}
			pgtest.WaitFor(t, owner, `select not exists (select from postrider.outbox_event) and not exists (select from postrider.outbox_exception)`)
			pgtest.WaitFor(t, owner, `select not exists (select from postrider.access_audit where action = 'old')`)
			if len(c.parts) > 1 {
				pgtest.Exec(t, owner, `select postrider.apply_template('{"name": "order", "namespace_name": "ns", "version": "1.0.0", "steps": [{"name": "a", "handler": "h"}]}')`)
				psql(writer, `select postrider.create_task('ns', 'order')`)
				broker.ReadAll(t, "postrider.lifecycle", 1)
				pgtest.WaitFor(t, owner, `select last_pass_at is not null from postrider.tasker_detector`)
				pgtest.WaitFor(t, owner, `select coalesce(paused_by = 'latency_limit', false) from postrider.tasker_switch where engine = 'detector'`)
				pgtest.WaitFor(t, owner, `select exists (select from postrider.dashboard_summary)`)
			}
			for line := range strings.Lines(log.String()) {
				if strings.Contains(line, "detection of stale tasks is paused") {
					continue // the latency limit, which is meant to
				}
				if strings.Contains(line, `"level":"ERROR"`) || strings.Contains(line, "SQLSTATE") {
					t.Error(line)
				}
			}
		})
	}
}

// TestRolesThatNeedMore: each role that needs what the database was installed without is refused by its name, with what to do.
func TestRolesThatNeedMore(t *testing.T) {
	t.Parallel()
	db, _ := serviceDatabase(t, migrations.PartOutbox)
	s := settings(t, db.URL, "127.0.0.1:1")
	for _, c := range []struct {
		roles []Role
		says  []string
	}{
		{nil, []string{"collector needs desk", "operator needs desk", "http needs desk", "detector needs tasks", "archiver needs tasks", "--roles relay;", "http.api set to false", "installed with outbox alone"}},
		{[]Role{Collector}, []string{"collector needs desk", "start this process on another database"}},
		{[]Role{Relay, Operator}, []string{"operator needs desk", "--roles relay."}},
	} {
		a, err := New(t.Context(), Options{Config: s, Roles: c.roles})
		if err == nil {
			t.Errorf("%v: it starts", c.roles)
			_ = a.Stop(t.Context())
			continue
		}
		for _, part := range c.says {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("%v: %v; want %q", c.roles, err, part)
			}
		}
	}
}

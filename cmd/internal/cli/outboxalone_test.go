package cli

import (
	"strings"
	"testing"

	"github.com/postrider/postrider/internal/testenv/kafkatest"
	"github.com/postrider/postrider/internal/testenv/outboxtest"
	"github.com/postrider/postrider/internal/testenv/pgtest"
)

// TestCommandsOnAnOutboxAlone: people treat the outbox of a service by the commands for outboxes, with the rights of an operator,
// and each change is in that database's audit log. Commands of the desk say that it is not here.
func TestCommandsOnAnOutboxAlone(t *testing.T) {
	t.Parallel()
	db, broker := pgtest.NewEmpty(t), kafkatest.Kfake(t)
	broker.CreateTopic(t, "orders", 1, nil)
	broker.CreateTopic(t, "postrider.dlq", 1, nil)
	conn := db.Conn(t)
	succeed(t, db, "migrate", "up", "--only", "outbox")
	pgtest.Exec(t, conn, `insert into postrider.outbox_event (topic, key, payload) values ('orders', 'k', 'dead'), ('orders', 'k', 'waits'), ('orders', 'other', 'waits');
		insert into postrider.outbox_hold (scope, topic, key, cause, event_id, next_probe_at)
		select 'key', topic, key, 'halted', event_id, 'infinity' from postrider.outbox_event where id = 1;
		insert into postrider.outbox_hold (scope, topic, code, cause, next_probe_at) values ('failure', 'orders', 'X', 'circuit_breaker', 'infinity')`)
	outboxtest.Settle(t, conn, outboxtest.DeadLettered, 1)
	outboxtest.Settle(t, conn, outboxtest.Scheduled, 2)
	operator, relay := asRole(t, db, "postrider_operator"), asRole(t, db, "postrider_relay")
	run := func(address, args string, code int, wants ...string) {
		t.Helper()
		r := postrider(t, []string{"DATABASE_URL=" + address, "KAFKA_BROKERS=" + strings.Join(broker.Addrs, ","), "HTTP_API=false", "OUTBOX_RETENTION_DAYS=0"}, strings.Fields(args)...)
		if r.code != code {
			t.Errorf("%s: exit code %d, %s%s", args, r.code, r.stdout, r.stderr)
		}
		contains(t, r.stdout+r.stderr, wants...)
	}
	run(operator, "outbox status", ExitOK, "parked")
	run(operator, "outbox list", ExitOK, "orders", "dead_lettered")
	run(operator, "outbox holds", ExitOK, "halted", "circuit_breaker")
	run(operator, "outbox skip 2 --reason ticket", ExitOK, "is given up")
	run(operator, "outbox redrive 1", ExitOK, "back in its place")
	run(operator, "outbox release 1", ExitOK, "is released")
	run(operator, "outbox give-up 2", ExitOK, "become dead letters")
	run(operator, "audit list", ExitOK, "outbox.skip", "outbox.redrive", "outbox.release", "outbox.give_up")
	run(relay, "outbox process", ExitOK, "succeeded")
	run(relay, "outbox retry", ExitOK)
	run(relay, "outbox cleanup", ExitOK, "REMOVED")
	run(operator, "doctor --role operator", ExitOK, "installed with outbox alone: audit/0001_baseline, outbox/0001_baseline", " 0 failed")
	run(relay, "doctor --role relay", ExitOK, "installed with outbox alone", " 0 failed")
	for _, args := range []string{"dlq list", "outbox stats", "op list", "task list", "apikey list"} {
		run(operator, args, ExitFailure, "was installed without this part of the schema (postrider migrate status)")
	}
	run(relay, "serve --roles collector", ExitFailure, "collector needs desk", "installed with outbox alone")
}

package app

import (
	"strings"
	"testing"

	"github.com/postrider/postrider/internal/testenv/kafkatest"
	"github.com/postrider/postrider/internal/testenv/pgtest"
)

// TestOldRowsOfTheDeskGo: a process that serves the desk removes what is older than the settings say, with the rights of
// postrider_relay.
func TestOldRowsOfTheDeskGo(t *testing.T) {
	t.Parallel()
	db, broker := pgtest.New(t), kafkatest.Kfake(t)
	conn, address, _ := asRelay(t, db, broker)
	pgtest.Exec(t, conn, `
		insert into postrider.dlq_entry (subject_type, subject_id, original_state, dlq_reason, dlq_timestamp, last_occurred_at, snapshot, resolution_status, resolution_timestamp)
		select 'event', 'old ' || n, 'failed', 'max_retries_exceeded', now(), now(), '{}', 'cancelled', now() - n * interval '1 day' from generate_series(9, 12) n;
		insert into postrider.dlq_operation (kind, name, actor, state, scope, finished_at) select 'purge', 'old ' || n, 'a', 'completed', '{}', now() - n * interval '1 day' from generate_series(9, 12) n;
		insert into postrider.access_audit (actor, action, target_type, at) select 'old', 'b', 'c', now() - n * interval '1 day' from generate_series(39, 42) n;
		insert into postrider.access_answer (access_key_id, idempotency_key, request_hash, created_at) select 'k', n::text, '', now() - n * interval '1 day' from generate_series(9, 12) n`)
	c := settings(t, address, broker.Addrs...)
	c.DLQ.RetentionDays, c.DLQ.OperationRetentionDays, c.DLQ.AuditRetentionDays, c.HTTP.IdempotencyTTL = 10, 10, 40, 10*24*3600*1e9
	a := run(t, Options{Config: c, Roles: []Role{Operator, HTTP}})
	for _, table := range []string{"dlq_entry", "dlq_operation", "access_audit where actor = 'old'", "access_answer"} {
		eventually(t, table, func() (bool, string) {
			n := pgtest.Value[int](t, conn, "select count(*) from postrider."+table)
			return n == 1, strings.Repeat("|", n)
		})
	}
	_, metrics := get(t, a, "/metrics")
	for _, kind := range []string{"investigation", "operation", "audit", "answer"} {
		if line := `postrider_pruned_total{kind="` + kind + `"} 3`; !strings.Contains(metrics, line) {
			t.Errorf("no %s", line)
		}
	}
}

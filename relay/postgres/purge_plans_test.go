package postgres

import (
	"strings"
	"testing"
)

// purgePlans are those of the purge and the backlog.
func purgePlans() map[string]plan {
	return map[string]plan{
		"find_published":      {"700, 1000, 2592000000000", "outbox_event_pkey"},
		"purge_published":     {ids(1000), "outbox_event_pkey"},
		"find_dead_lettered":  {"'11111111-1111-1111-1111-111111111111', 1000, 2592000000000", "outbox_event_given_up"},
		"purge_dead_lettered": {ids(1000) + ", " + array(1000, "1", "int"), "outbox_event_pkey"},
		"read_backlog":        {"10000" + someMarks, "outbox_event_claim outbox_event_parked outbox_event_scheduled outbox_event_exhausted"},
	}
}

// TestPurgePlansWithStaleStatistics: see TestPlansWithStaleStatistics. The purge and the backlog must not
// need any index that writers do not pay for already.
func TestPurgePlansWithStaleStatistics(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	load(f)
	f.exec(`update postrider.outbox_event set state = 'published', sent_at = now(), updated_at = now() where id % 3 = 0`)
	f.exec(`update postrider.outbox_event set state = 'dead_lettered', sent_at = now(), updated_at = now() where id % 100 = 1`)
	for name, q := range purgePlans() {
		wantPlan(f, name, q.args, q.uses)
	}
	f.exec(`alter table postrider.outbox_idempotency_key set (autovacuum_enabled = off)`)
	f.exec(`insert into postrider.outbox_idempotency_key (topic, idempotency_key, event_id) select 't', n::text, gen_random_uuid() from generate_series(1, 20000) n`)
	for _, name := range []string{"find_idempotency_keys", "purge_idempotency_keys"} {
		for _, mode := range []string{"force_generic_plan", "force_custom_plan"} {
			plan := explain(f, name, "10, 13, 2592000000000", mode)
			if !strings.Contains(plan, "Tid Range Scan on outbox_idempotency_key") || strings.Contains(plan, "Seq Scan") {
				t.Errorf("%s, %s reads more than its blocks:\n%s", name, mode, plan)
			}
		}
	}
}

// The letter and the investigation of an event are found by their keys, also when there are few.
func TestClosedInvestigationIsFoundByKey(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.exec(`insert into postrider.dlq_letter (letter_id, dialect, dlq_topic, dlq_partition, dlq_offset, key_kind, payload_kind)
		select 'event:' || gen_random_uuid() || ':1', 'postrider', 'd', 0, n, 'inline', 'inline' from generate_series(1, 20000) n`)
	f.exec(`insert into postrider.dlq_entry (subject_type, subject_id, original_state, dlq_reason, dlq_timestamp, last_occurred_at, snapshot)
		select 'event', gen_random_uuid()::text, 'failed', 'undeliverable', now(), now(), '{}' from generate_series(1, 20000) n`)
	before := value[int64](f, `select coalesce(sum(seq_tup_read), 0)::bigint from pg_stat_user_tables where relname in ('dlq_letter', 'dlq_entry')`)
	conn, err := f.relay.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for range 20 {
		if _, err := conn.Exec(t.Context(), `select postrider.dlq_event_closed(gen_random_uuid(), 1)`); err != nil {
			t.Fatal(err)
		}
	}
	conn.Conn().Close(t.Context()) // statistics are reported at the end of the session
	conn.Release()
	f.waitFor(`select sum(idx_scan) >= 20 from pg_stat_user_tables where relname = 'dlq_letter'`)
	after := value[int64](f, `select coalesce(sum(seq_tup_read), 0)::bigint from pg_stat_user_tables where relname in ('dlq_letter', 'dlq_entry')`)
	if after != before {
		t.Errorf("%d rows were read one after the other", after-before)
	}
}

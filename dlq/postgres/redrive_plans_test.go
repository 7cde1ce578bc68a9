package postgres

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/dlq"
	"github.com/postrider/postrider/dlq/dlqtest"
	"github.com/postrider/postrider/relay/outbox"
)

// TestPlansAfterABulkLoad: the tables were analysed while they were empty, and then filled. What runs for each batch
// must find its rows by their keys all the same.
func TestPlansAfterABulkLoad(t *testing.T) {
	t.Parallel()
	r := newRedriving(t)
	mustExec(t, r.subject.pool, `analyze`)
	mustExec(t, r.subject.pool, `insert into postrider.dlq_entry (dlq_entry_uuid, subject_type, subject_id, original_state, dlq_reason, dlq_timestamp, topic, snapshot, occurrences, last_occurred_at)
		select gen_random_uuid(), 'event', i::text, 'failed', 'max_retries_exceeded', now(), 'orders', '{}', 1, now() from generate_series(1, 20000) i`)
	mustExec(t, r.subject.pool, `insert into postrider.dlq_letter (letter_id, dlq_entry_uuid, dialect, dlq_topic, dlq_partition, dlq_offset, key_kind, payload_kind, headers, event_id, episode, outbox_id)
		select 'event:' || e.subject_id || ':1', e.dlq_entry_uuid, 'postrider', 'd', 0, e.subject_id::bigint, 'tombstone', 'tombstone', '[]', gen_random_uuid(), 1, e.subject_id::bigint from postrider.dlq_entry e`)
	mustExec(t, r.subject.pool, `insert into postrider.dlq_replay (replay_id, dlq_entry_uuid, generation, letter_id, outbox_id, event_id, target, actor)
		select e.dlq_entry_uuid || ':1', e.dlq_entry_uuid, 1, 'l', e.subject_id::bigint, gen_random_uuid(), 'orders', 'a' from postrider.dlq_entry e`)
	mustExec(t, r.subject.pool, `insert into postrider.dlq_operation (kind, name, actor, state, scope, options) values ('redrive', 'n', 'a', 'running', '{}', '{}')`)
	mustExec(t, r.subject.pool, `insert into postrider.dlq_operation_item (dlq_operation_uuid, item, dlq_entry_uuid)
		select o.dlq_operation_uuid, row_number() over (), e.dlq_entry_uuid from postrider.dlq_operation o, postrider.dlq_entry e`)
	mustExec(t, r.subject.pool, `insert into postrider.outbox_hold (scope, topic, key, cause, event_id, next_probe_at) values ('key', 'orders', 'k', 'halted', gen_random_uuid(), 'infinity')`)

	var entries []uuid.UUID
	var operation uuid.UUID
	if err := r.subject.pool.QueryRow(t.Context(), `select array_agg(e.dlq_entry_uuid), (select dlq_operation_uuid from postrider.dlq_operation)
		from (select dlq_entry_uuid from postrider.dlq_entry limit 1000) e`).Scan(&entries, &operation); err != nil {
		t.Fatal(err)
	}
	texts := func(s string) []string { return slices.Repeat([]string{s}, len(entries)) }
	replays := column(entries, func(id uuid.UUID) string { return id.String() + ":1" })
	one := make([]int32, len(entries))
	for name, query := range map[string][]any{
		"lock":    {redriveLock, entries},
		"read":    {redriveRead, entries, outbox.HeaderRetryTopic, outbox.HeaderInvalidHeaders},
		"events":  {haltingOf, entries},
		"close":   {entryClose, entries, "cancelled", texts(""), "a"},
		"pending": {entryLock, texts("event"), texts("7"), entries},
		"from":    {entryCameFrom, entries, replays},
		"succeed": {entrySucceed, entries, entries},
		"open":    {redriveOpen, int64(100), "", 1000},
		"end":     {redriveEnd, replays, texts("gone")},
		"note": {redriveNote, nullUUID(operation), make([]bool, len(entries)), "a", entries, one, texts("l"), make([]int64, len(entries)), entries,
			make([]bool, len(entries)), one, texts("orders")},
		"again":   {redriveDiedAgain, replays},
		"points":  {letterPointing, entries, true},
		"next":    {letterPointingNext, 500},
		"waiting": {operationWaiting, operation, 1000},
		"treated": {operationTreated, operation, make([]int64, len(entries)), texts("done"), texts("")},
	} {
		plan := explain(t, r, query)
		for line := range strings.SplitSeq(plan, "\n") {
			if strings.Contains(line, "Seq Scan on dlq_") || strings.Contains(line, "Hash Join") || strings.Contains(line, "Merge Join") {
				t.Errorf("%s reads a whole table:\n%s", name, plan)
				break
			}
		}
	}
}

// explain returns the plan of a query in a transaction as redrives have it.
func explain(t *testing.T, r *redriving, query []any) string {
	t.Helper()
	tx, err := r.subject.pool.BeginTx(t.Context(), pgx.TxOptions{BeginQuery: steady})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(t.Context()) }()
	return explained(t, tx, query[0].(string), query[1:]...)
}

// TestManyChangesAtOnceAreCheap: what counts the changes of a statement compares them by a hash, though everything else
// in the transaction does without.
func TestManyChangesAtOnceAreCheap(t *testing.T) {
	t.Parallel()
	r := newRedriving(t)
	var settings []string
	if err := r.subject.pool.QueryRow(t.Context(), `select proconfig from pg_proc where oid = 'postrider.dlq_count_entries'::regproc`).Scan(&settings); err != nil {
		t.Fatal(err)
	}
	if !slices.Contains(settings, "enable_hashjoin=on") {
		t.Errorf("%q", settings)
	}
}

// TestRedriveFromAPartitionedOutbox: a letter's event in the first partition, one that was moved to the default one, and
// a new event in a later one.
func TestRedriveFromAPartitionedOutbox(t *testing.T) {
	t.Parallel()
	r := newRedriving(t)
	refer := func(l *dlq.Letter) { l.Payload, l.PayloadKind = nil, dlq.Reference }
	first, moved, halting := r.die(1, refer), r.die(2, refer), r.die(7, nil)
	r.halt(7)
	for _, sql := range []string{
		`select postrider.outbox_partition_prepare(10)`,
		`alter table postrider.outbox_event validate constraint outbox_event_partition_bound`,
		`select postrider.outbox_partition_convert(1000)`,
	} {
		mustExec(t, r.subject.pool, sql)
	}
	mustExec(t, r.subject.pool, `with old as (delete from postrider.outbox_event where event_id = $1 returning topic, key, payload, headers)
		insert into postrider.outbox_event (id, event_id, topic, key, payload, headers, state, episode, updated_at, sent_at)
		overriding system value select 900000, $1, topic, key, payload, headers, 'dead_lettered', 1, now(), now() from old`, dlqtest.EventID(2))
	mustExec(t, r.subject.pool, `update postrider.dlq_letter set outbox_id = 900000 where event_id = $1`, dlqtest.EventID(2))
	done := r.redrive(first, moved, halting)
	if len(done.Entries) != 3 {
		t.Fatalf("%+v", done)
	}
	mustExec(t, r.subject.pool, `update postrider.outbox_event set state = 'published', sent_at = now(), updated_at = now() where state = 'pending'`)
	if f, err := r.Follow(t.Context(), 10, true); err != nil || f != (dlq.Followed{Delivered: 3}) {
		t.Errorf("%+v, %v", f, err)
	}
}

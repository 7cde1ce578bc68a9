package postgres

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/dlq"
	"github.com/postrider/postrider/internal/testenv/outboxtest"
	"github.com/postrider/postrider/internal/testenv/pgtest"
	"github.com/postrider/postrider/message"
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
	mustExec(t, r.subject.pool, `insert into postrider.dlq_redrive (redrive_id, dlq_entry_uuid, generation, letter_id, outbox_id, event_id, target, actor)
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
	redrives := column(entries, func(id uuid.UUID) string { return id.String() + ":1" })
	for name, query := range map[string][]any{
		"lock":      {redriveLock, entries},
		"to go":     {purgeLock, entries},
		"forget":    {redriveForget, redrives},
		"read":      {redriveRead, entries, message.HeaderInvalidHeaders},
		"events":    {haltingOf, entries},
		"close":     {entryClose, entries, "cancelled", texts(""), "a"},
		"pending":   {entryLock, texts("event"), texts("7"), entries},
		"from":      {entryCameFrom, entries, redrives, texts("orders")},
		"succeed":   {entrySucceed, entries, entries},
		"open":      {redriveOpen, int64(100), "", 1000, "orders"},
		"end":       {redriveEnd, redrives, texts("gone")},
		"again":     {redriveDiedAgain, redrives},
		"points":    {letterPointing, entries, true},
		"next":      {letterPointingNext, 500},
		"waiting":   {operationWaiting, operation, 1000},
		"treated":   {operationTreated, operation, make([]int64, len(entries)), texts("done"), texts(""), "sent"},
		"outcome":   {operationOutcome, entries, entries, texts("delivered")},
		"told":      {commandUnanswered, "orders", 500, 1 << 20},
		"answer":    {commandAnswer, entries, texts("gone"), make([]int64, len(entries)), texts("")},
		"due":       {commandDue, texts("orders")},
		"oldest":    {commandOldest, texts("orders")},
		"wait":      {commandWait, entries},
		"of others": {purgeOfSources, entries},
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
	return explainAs(t, r, steady, query)
}

// explainAs returns the plan of a query in a transaction that begins so.
func explainAs(t *testing.T, r *redriving, begin string, query []any) string {
	t.Helper()
	tx, err := r.subject.pool.BeginTx(t.Context(), pgx.TxOptions{BeginQuery: begin})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(t.Context()) }()
	return explained(t, tx, query[0].(string), query[1:]...)
}

// TestWaitingItemsAreReadAlongTheirIndex: the waiting items of an operation are found without a walk over the others, no
// matter what the operation has treated, how large it is, and what statistics know.
func TestWaitingItemsAreReadAlongTheirIndex(t *testing.T) {
	t.Parallel()
	for name, analysed := range map[string]string{"never": "", "while it was empty": "before", "with what is in it": "after"} {
		t.Run("analysed "+name, func(t *testing.T) {
			t.Parallel()
			r := newRedriving(t)
			// No statistics but these.
			mustExec(t, r.subject.pool, `alter table postrider.dlq_operation_item set (autovacuum_enabled = off); alter table postrider.dlq_operation set (autovacuum_enabled = off)`)
			if analysed == "before" {
				mustExec(t, r.subject.pool, `analyze`)
			}
			type sample struct {
				id      uuid.UUID
				items   int
				waiting []int64
			}
			var all []sample
			for _, c := range []struct {
				items, through int
				waits          string // which of the items behind it
			}{{12, 0, "true"}, {3000, 2990, "true"}, {20000, 0, "true"}, {20000, 19990, "true"}, {20000, 5000, "i % 1000 = 7"}, {20000, 20000, "true"}} {
				o := sample{id: uuid.New(), items: c.items}
				mustExec(t, r.subject.pool, `insert into postrider.dlq_operation (dlq_operation_uuid, kind, name, actor, state, scope, items, treated_through) values ($1, 'redrive', $2, 'a', 'running', '{}', $3, $4)`,
					o.id, o.id.String(), c.items, c.through)
				mustExec(t, r.subject.pool, `insert into postrider.dlq_operation_item (dlq_operation_uuid, item, dlq_entry_uuid, state)
					select $1, i, gen_random_uuid(), case when i > $3 and `+c.waits+` then 'waiting' else 'done' end from generate_series(1, $2::int) i`, o.id, c.items, c.through)
				o.waiting = pgtest.Column[int64](t, r.subject.pool, `select item from postrider.dlq_operation_item where dlq_operation_uuid = $1 and state = 'waiting' order by item limit 5`, o.id)
				all = append(all, o)
			}
			if analysed == "after" {
				mustExec(t, r.subject.pool, `vacuum (analyze) postrider.dlq_operation_item, postrider.dlq_operation`)
			}
			for i, o := range all {
				plan := explainAs(t, r, beginRead, []any{operationItemsWaiting, o.id, 0, 5})
				// A dozen items are as soon read and sorted: then any index that begins with the operation will do.
				anyIndex := o.items <= 12 && strings.Contains(plan, "Index Cond: (dlq_operation_uuid = ") && !strings.Contains(plan, "Seq Scan on dlq_operation_item")
				if !anyIndex && (!strings.Contains(plan, "dlq_operation_item_waiting") || strings.Contains(plan, "Sort") || !strings.Contains(plan, "(item + 0) >")) {
					t.Errorf("operation %d:\n%s", i, plan)
				}
				items, err := r.Items(t.Context(), o.id, dlq.ItemFilter{State: "waiting"}, 0, 5)
				if err != nil || !slices.Equal(column(items, func(i dlq.Item) int64 { return i.Place }), o.waiting) {
					t.Errorf("operation %d: %+v, %v; want %v", i, items, err, o.waiting)
				}
				if len(o.waiting) < 5 {
					continue
				}
				if items, err = r.Items(t.Context(), o.id, dlq.ItemFilter{State: "waiting"}, o.waiting[1], 2); err != nil || len(items) != 2 || items[0].Place != o.waiting[2] || items[0].State != "waiting" {
					t.Errorf("operation %d, behind the second: %+v, %v", i, items, err)
				}
			}
		})
	}
}

// TestManyChangesAtOnceAreCheap: the trigger that counts the changes of a statement compares them by a hash, though
// everything else in the transaction does without.
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

// TestRedriveOfWhatTheLogHasNoMore: retention took the rows of the log, and the exceptions have their own copies.
func TestRedriveOfWhatTheLogHasNoMore(t *testing.T) {
	t.Parallel()
	r := newRedriving(t)
	refer := func(l *dlq.Letter) {
		l.Key, l.KeyKind, l.Payload, l.PayloadKind, l.Headers = nil, dlq.Reference, nil, dlq.Reference, nil
	}
	first, halting := r.die(1, refer), r.die(7, nil)
	r.halt(7)
	mustExec(t, r.subject.pool, `update postrider.outbox_receipt set at = now() - interval '1 day'`)
	mustExec(t, r.subject.pool, `select postrider.outbox_purge_events('1 hour', 1000000)`)
	if n := r.count(`select count(*) from postrider.outbox_event`); n != 0 {
		t.Fatalf("retention left %d", n)
	}
	if done := r.redrive(first, halting); len(done.Entries) != 2 {
		t.Fatalf("%+v", done)
	}
	out := r.sent()
	if len(out) != 1 || string(out[0].Key) != "key-1" || string(out[0].Payload) != `{"n":1}` || out[0].Headers[0] != [2]string{"trace", "x"} {
		t.Errorf("%+v", out)
	}
	if f, err := r.Follow(t.Context(), 10, true); err != nil || f != (dlq.Followed{}) {
		t.Errorf("on their way: %+v, %v", f, err)
	}
	r.settleSent(outboxtest.Published, 1)
	r.settle(outboxtest.Published, 7)
	if f, err := r.Follow(t.Context(), 10, true); err != nil || f != (dlq.Followed{Delivered: 2}) {
		t.Errorf("%+v, %v", f, err)
	}
}

package postgres

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/dlq"
	"github.com/postrider/postrider/internal/dlq/dlqtest"
	relaypostgres "github.com/postrider/postrider/internal/relay/postgres"
	"github.com/postrider/postrider/internal/testenv/pgtest"
)

// TestAGroupLeavesWhatIsOnItsWay: closing a group closes no investigation with a redrive on its way, also when the redrive
// was sent while the closing waited for the investigation.
func TestAGroupLeavesWhatIsOnItsWay(t *testing.T) {
	t.Parallel()
	r := newRedriving(t)
	d, entries := r.people(), r.many(5)
	group := groupOf(t, r.subject, entries[0])
	r.redrive(entries[0], entries[1])
	r.dieAgain(1) // of the first; its letter, which will say so, is on its way
	// Another one is being sent.
	tx, err := r.subject.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) }()
	if _, err := lockEntries(t.Context(), tx, redriveLock, entries[4:]); err != nil {
		t.Fatal(err)
	}
	type result struct {
		done dlq.ResolvedGroup
		err  error
	}
	ended := make(chan result, 1)
	go func() {
		done, err := d.ResolveGroup(t.Context(), group, dlq.GroupResolution{Actor: "ada"})
		ended <- result{done, err}
	}()
	untilWaiting(t, r.subject.pool)
	pgtest.Exec(t, tx, `insert into postrider.dlq_redrive (redrive_id, dlq_entry_uuid, generation, outbox_id, event_id, target, actor) values ('r', $1, 1, 1, gen_random_uuid(), 't', 'a')`, entries[4])
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	got := <-ended
	if got.err != nil || got.done.Closed != 2 || got.done.Left != 3 {
		t.Errorf("%+v, %v; want 2 closed and 3 left", got.done, got.err)
	}
	for i, want := range []dlq.Status{dlq.Pending, dlq.Pending, dlq.ManuallyResolved, dlq.ManuallyResolved, dlq.Pending} {
		if status, _ := r.status(entries[i]); status != want {
			t.Errorf("investigation %d is %s, want %s", i, status, want)
		}
	}
	// Delivered, they are closed by that.
	r.deliver(1)
	if status, by := r.status(entries[1]); status != dlq.ManuallyResolved || by != "postrider" {
		t.Errorf("it is %s by %s", status, by)
	}
}

// TestHeadersOfOperationsAreHidden: redaction also hides the headers that an operation gives, wherever the operation is
// shown; the messages get them as they were given.
func TestHeadersOfOperationsAreHidden(t *testing.T) {
	t.Parallel()
	r := newRedriving(t)
	redactor, err := dlq.NewRedactor(dlq.RedactionRules{Headers: []string{"authori*"}})
	if err != nil {
		t.Fatal(err)
	}
	redriver, err := NewRedriver(RedriverConfig{Pool: r.subject.pool, Auditor: r.audit, Exceptions: exceptions{relaypostgres.NewStore(r.subject.pool, relaypostgres.StoreOptions{})}, Redactor: redactor})
	if err != nil {
		t.Fatal(err)
	}
	const secret = "Bearer s3cret"
	entry := r.dieUnreadable(1)
	hidden := func(where string, o dlq.Operation, err error) {
		t.Helper()
		shown, _ := json.Marshal(o)
		if err != nil || strings.Contains(string(shown), "s3cret") || !slices.EqualFunc(o.Options.Headers, [][]string{{"Authorization", dlq.Redacted}, {"priority", "5"}}, slices.Equal) {
			t.Errorf("%s: %s, %v", where, shown, err)
		}
	}
	o, err := redriver.PlanOperation(t.Context(), dlq.NewOperation{Kind: dlq.OpRedrive, Name: "n", Actor: "ada", Scope: dlq.Scope{Entries: []uuid.UUID{entry}},
		Options: dlq.OperationOptions{Headers: [][]string{{"Authorization", secret}, {"priority", "5"}}}})
	hidden("planned", o, err)
	for _, c := range []dlq.Command{dlq.Start, dlq.Pause, dlq.Resume} {
		o, err := redriver.Command(t.Context(), o.UUID, c, "")
		hidden(string(c), o, err)
	}
	list, err := redriver.ListOperations(t.Context(), dlq.OperationFilter{Open: true}, uuid.Nil, 10)
	if err != nil || len(list) != 1 {
		t.Fatalf("%+v, %v", list, err)
	}
	hidden("listed", list[0], nil)
	mustExec(t, r.subject.pool, `update postrider.dlq_operation set next_at = null`)
	if n, _, err := redriver.Step(t.Context()); n != 1 || err != nil {
		t.Fatalf("%d were treated, %v", n, err)
	}
	if out := r.sent(); len(out) != 1 || !slices.Equal(own(out[0]), []string{"tenant=acme", "Authorization=" + secret, "priority=5"}) {
		t.Errorf("sent: %+v", out)
	}
	o, err = redriver.Operation(t.Context(), o.UUID)
	hidden("treated", o, err)
}

// TestFunctionsReadNoWholeTable: after a load without an ANALYZE, changes that people make find their rows by their
// keys, inside the functions as well.
func TestFunctionsReadNoWholeTable(t *testing.T) {
	t.Parallel()
	r := newRedriving(t)
	mustExec(t, r.subject.pool, `analyze`)
	mustExec(t, r.subject.pool, `insert into postrider.dlq_group (dlq_group_uuid, fingerprint, fingerprint_version, parts, title, first_seen_at, last_seen_at)
		select ('0192aaaa-0000-7000-8000-' || lpad(i::text, 12, '0'))::uuid, i::text, 1, '{}', 't', now(), now() from generate_series(1, 400) i`)
	mustExec(t, r.subject.pool, `insert into postrider.dlq_entry (dlq_entry_uuid, subject_type, subject_id, original_state, dlq_reason, dlq_timestamp, topic, snapshot, occurrences, last_occurred_at, dlq_group_uuid)
		select gen_random_uuid(), 'event', i::text, 'failed', 'max_retries_exceeded', now(), 'orders', '{}', 1, now(), ('0192aaaa-0000-7000-8000-' || lpad((1 + i % 400)::text, 12, '0'))::uuid from generate_series(1, 20000) i`)
	mustExec(t, r.subject.pool, `insert into postrider.dlq_letter (letter_id, dlq_entry_uuid, dialect, dlq_topic, dlq_partition, dlq_offset, key_kind, payload_kind, headers, event_id, episode, outbox_id)
		select 'event:' || e.subject_id || ':1', e.dlq_entry_uuid, 'postrider', 'd', 0, e.subject_id::bigint, 'tombstone', 'tombstone', '[]', gen_random_uuid(), 1, e.subject_id::bigint from postrider.dlq_entry e`)
	mustExec(t, r.subject.pool, `insert into postrider.dlq_redrive (redrive_id, dlq_entry_uuid, generation, letter_id, outbox_id, event_id, target, actor, outcome)
		select e.dlq_entry_uuid || ':1', e.dlq_entry_uuid, 1, 'l', e.subject_id::bigint, gen_random_uuid(), 'orders', 'a', 'delivered' from postrider.dlq_entry e`)
	var entries []uuid.UUID
	if err := r.subject.pool.QueryRow(t.Context(), `select array_agg(e.dlq_entry_uuid) from (select dlq_entry_uuid from postrider.dlq_entry where subject_id::bigint % 400 = 7) e`).Scan(&entries); err != nil || len(entries) != 50 {
		t.Fatalf("%d investigations, %v", len(entries), err)
	}
	group := uuid.MustParse("0192aaaa-0000-7000-8000-000000000003")
	tx, err := r.subject.pool.BeginTx(t.Context(), pgx.TxOptions{BeginQuery: steady})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) }()
	const read = `select coalesce(sum(seq_tup_read + coalesce(idx_tup_fetch, 0)), 0)::bigint from pg_stat_xact_user_tables where relname in ('dlq_entry', 'dlq_letter', 'dlq_redrive')`
	for _, c := range []struct {
		name, query string
		arguments   []any
	}{
		{"change", entryChange, []any{entries[0], "cancelled", nil, nil, nil, nil, "ada"}},
		{"purge", purgeDelete, []any{entries}},
		{"resolve a group", groupResolve, []any{group, dlqtest.Start.AddDate(100, 0, 0), 10, "cancelled", "", "ada"}},
	} {
		before := pgtest.Value[int64](t, tx, read)
		rows, err := tx.Query(t.Context(), c.query, c.arguments...)
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		rows.Close()
		if err := rows.Err(); err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		if n := pgtest.Value[int64](t, tx, read) - before; n > 1000 {
			t.Errorf("%s: %d rows are read of 20000", c.name, n)
		}
	}
	if got := pgtest.Value[string](t, tx, fmt.Sprintf(`select count(*) || ' ' || count(*) filter (where resolution_status = 'cancelled' and dlq_group_uuid = '%s') from postrider.dlq_entry`, group)); got != "19950 10" {
		t.Errorf("investigations left, and closed with their group: %s", got)
	}
}

// TestRareItemsAreFound: the few that a large operation left alone are listed without a walk over the others.
func TestRareItemsAreFound(t *testing.T) {
	t.Parallel()
	r := newRedriving(t)
	o := r.plan(dlq.Scope{Entries: r.many(1)}, dlq.OperationOptions{})
	mustExec(t, r.subject.pool, `insert into postrider.dlq_operation_item (dlq_operation_uuid, item, dlq_entry_uuid, state)
		select $1, i, gen_random_uuid(), case when i > 19998 then 'failed' when i > 19996 then 'skipped' else 'done' end
		from generate_series(2, 20000) i`, o.UUID)
	mustExec(t, r.subject.pool, `vacuum (analyze) postrider.dlq_operation_item`)
	for state, want := range map[string][]int64{"failed": {19999, 20000}, "skipped": {19997, 19998}} {
		items, err := r.Items(t.Context(), o.UUID, dlq.ItemFilter{State: state}, 0, 50)
		if err != nil || !slices.Equal(column(items, func(i dlq.Item) int64 { return i.Place }), want) {
			t.Errorf("%s: %+v, %v", state, items, err)
		}
		plan := explainAs(t, r, beginRead, []any{operationItems, o.UUID, 0, 50, state, ""})
		if !strings.Contains(plan, "dlq_operation_item_left") {
			t.Errorf("%s:\n%s", state, plan)
		}
	}
}

package postgres

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/postrider/postrider/internal/dlq"
	"github.com/postrider/postrider/internal/dlq/dlqtest"
)

// TestItemsSayWhatTheyAreAbout: an item has what people know its investigation by, a little of a long key, and nothing of an
// investigation that is gone.
func TestItemsSayWhatTheyAreAbout(t *testing.T) {
	t.Parallel()
	r := newRedriving(t)
	keyed := func(n int, key []byte) uuid.UUID {
		return r.die(n, func(l *dlq.Letter) { l.Key, l.ErrorCode = key, fmt.Sprintf("CODE_%d", n) })
	}
	task := r.record(dlqtest.Letters(dlqtest.Task(9, 1))[0])
	entries := []uuid.UUID{keyed(1, []byte("a key")), keyed(2, []byte{'k', 0xff, 'y'}), keyed(3, []byte(strings.Repeat("ä", 5000))), keyed(4, []byte{}), keyed(5, nil),
		keyed(6, []byte(strings.Repeat("\xff", 300))), task, r.die(8, nil)}
	o, err := r.PlanOperation(t.Context(), dlq.NewOperation{Kind: dlq.OpResolve, Name: "items", Actor: "ada", Scope: dlq.Scope{Entries: entries}})
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Purge(t.Context(), entries[7]); err != nil {
		t.Fatal(err)
	}
	items, err := r.Items(t.Context(), o.UUID, dlq.ItemFilter{}, 0, 100)
	if err != nil || len(items) != len(entries) {
		t.Fatalf("%d items, %v", len(items), err)
	}
	found := map[uuid.UUID]dlq.Item{}
	for _, i := range items {
		found[i.Entry] = i
	}
	for n, want := range []*string{new("a key"), new("k\ufffdy"), new(strings.Repeat("ä", dlq.MaxItemKey)), new(""), nil, new("\ufffd")} {
		i := found[entries[n]]
		got, _ := json.Marshal(i.Key)
		wanted, _ := json.Marshal(want)
		if string(got) != string(wanted) || i.Topic != "orders" || i.EventID != dlqtest.EventID(n+1) || i.ErrorCode != fmt.Sprintf("CODE_%d", n+1) || i.DLQReason == "" || i.TaskUUID != uuid.Nil {
			t.Errorf("item of event %d: %+v, key %s, want %s", n+1, i, got, wanted)
		}
	}
	if i := found[task]; i.TaskUUID == uuid.Nil || i.EventID != uuid.Nil || i.Key != nil || i.DLQReason == "" {
		t.Errorf("item of a task: %+v", i)
	}
	if i := found[entries[7]]; i.Topic != "" || i.Key != nil || i.EventID != uuid.Nil || i.DLQReason != "" || i.ErrorCode != "" {
		t.Errorf("item of an investigation that is gone: %+v", i)
	}
}

// TestItemsOfALargeOperationAreLookedUp: what a page of items says about its investigations is found by their ids, among
// 100,000, whatever statistics know.
func TestItemsOfALargeOperationAreLookedUp(t *testing.T) {
	t.Parallel()
	r := newRedriving(t)
	mustExec(t, r.subject.pool, `insert into postrider.dlq_operation (dlq_operation_uuid, kind, name, actor, state, scope, items) values ($1, 'redrive', 'large', 'a', 'running', '{}', 100000)`, numberedUUID(9, 0))
	mustExec(t, r.subject.pool, `insert into postrider.dlq_entry (dlq_entry_uuid, subject_type, subject_id, original_state, dlq_reason, dlq_timestamp, topic, snapshot, last_occurred_at)
		select `+numbered(1)+`, 'event', i::text, 'failed', 'max_retries_exceeded', now(), 'orders', jsonb_build_object('key', 'key-' || i), now() from generate_series(1, 100000) i`)
	mustExec(t, r.subject.pool, `insert into postrider.dlq_operation_item (dlq_operation_uuid, item, dlq_entry_uuid) select $1, i, `+numbered(1)+` from generate_series(1, 100000) i`, numberedUUID(9, 0))
	var page []uuid.UUID
	for i := range 101 {
		page = append(page, numberedUUID(1, 50_000+i))
	}
	look := func(when string) {
		t.Helper()
		plan := explainAs(t, r, beginRead, []any{entryKnownBy, page, dlq.MaxItemKey})
		if !strings.Contains(plan, "Index Scan using dlq_entry_pkey") || strings.Contains(plan, "Seq Scan") || strings.Contains(plan, "Hash") || strings.Contains(plan, "Merge") {
			t.Errorf("%s:\n%s", when, plan)
		}
	}
	look("without statistics")
	mustExec(t, r.subject.pool, `vacuum (analyze) postrider.dlq_entry, postrider.dlq_operation_item`)
	look("with statistics")
	began := time.Now()
	items, err := r.Items(t.Context(), numberedUUID(9, 0), dlq.ItemFilter{}, 49_999, 101)
	if err != nil || len(items) != 101 || items[100].Key == nil || *items[100].Key != "key-50100" {
		t.Errorf("%d items, %v", len(items), err)
	}
	t.Logf("a page of 101 took %s", time.Since(began))
}

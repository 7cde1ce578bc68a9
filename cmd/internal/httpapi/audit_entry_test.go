package httpapi_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	"github.com/google/uuid"

	"github.com/postrider/postrider/internal/dlq"
	"github.com/postrider/postrider/internal/dlq/dlqtest"
	"github.com/postrider/postrider/internal/testenv/outboxtest"
)

// TestTheAuditOfAnInvestigation: an investigation shows every change that was made to it, alone or among others, by an
// operation or a group, by rule or by hand. It does not show changes to other investigations.
func TestTheAuditOfAnInvestigation(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	var ids []string
	for n := range 9 {
		ids = append(ids, r.die(n+1))
	}
	ask := func(method, path, body string) reply {
		t.Helper()
		return r.ask(method, path, body).is(map[bool]int{true: 201, false: 200}[path == "/operations"])
	}
	step := func(op string) {
		t.Helper()
		r.exec(`update postrider.dlq_operation set next_at = case when dlq_operation_uuid = $1 then now() else 'infinity' end`, op)
		if _, _, err := r.services.Redriver.Step(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	operation := func(kind string, ids ...string) {
		t.Helper()
		text, _ := json.Marshal(ids)
		op := ask("POST", "/operations", fmt.Sprintf(`{"kind": %q, "name": %q, "scope": {"ids": %s}}`, kind, kind, text)).text("operation_uuid")
		ask("POST", "/operations/"+op+"/start", "")
		step(op)
	}
	follow := func() {
		t.Helper()
		if _, err := r.services.Redriver.Follow(t.Context(), 100, true); err != nil {
			t.Fatal(err)
		}
	}
	ask("PATCH", "/dlq/"+ids[0], `{"notes": "alone"}`)
	ask("POST", "/dlq/requeue", fmt.Sprintf(`{"ids": [%q, %q]}`, ids[0], ids[1]))
	outboxtest.SettleAll(t, r.pool, outboxtest.Published, outboxtest.Pending, 0)
	follow()
	operation("redrive", ids[2], ids[3])
	operation("resolve", ids[4], ids[5])
	// Given up again: the collector closes the first, because another goes on.
	ask("POST", "/dlq/requeue", fmt.Sprintf(`{"ids": [%q]}`, ids[6]))
	event := value[uuid.UUID](r, `select event_id from postrider.dlq_redrive where dlq_entry_uuid = $1`, ids[6])
	outboxtest.SettleAll(t, r.pool, outboxtest.Exhausted, `select id from postrider.outbox_event where event_id = $1`, event)
	follow()
	again := dlqtest.Letters(dlqtest.Event(77, 1))[0]
	again.ID, again.EventID, again.Subject.ID, again.OutboxID = "event:"+event.String()+":1", event, event.String(), nil
	if _, err := r.services.Store.RecordLetters(t.Context(), []dlq.Letter{again}); err != nil {
		t.Fatal(err)
	}
	group := r.ask("GET", "/dlq/"+ids[7], "").text("group_uuid")
	ask("POST", "/groups/"+group+"/resolve", "")
	for n, want := range [][]string{
		{"dlq.resolve by postrider, of 2", "dlq.requeue by key admin, of 2", "dlq.note by key admin, of 0"},
		{"dlq.resolve by postrider, of 2", "dlq.requeue by key admin, of 2"},
		{"operation.start by key admin, of 0", "operation.plan by key admin, of 0"},
		nil,
		{"dlq.resolve by key admin, of 2", "operation.start by key admin, of 0", "operation.plan by key admin, of 0"},
		nil,
		{"dlq.resolve by postrider, of 1", "dlq.requeue by key admin, of 1"},
		{"group.resolve by key admin, of 3"},
		nil,
	} {
		if want == nil { // as the one before it
			continue
		}
		var got []string
		for _, one := range r.ask("GET", "/dlq/"+ids[n], "").is(200).at("audit").([]any) {
			row := one.(map[string]any)
			details := row["details"].(map[string]any)
			all, _ := details["entries_in_all"].(float64)
			got = append(got, fmt.Sprintf("%s by %s, of %d", row["action"], row["actor"], int(all)))
			if named, there := details["entries"]; there && !slices.Equal(named.([]any), []any{ids[n]}) {
				t.Errorf("%d: others are named: %v", n, named)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%d: %q, want %q", n, got, want)
		}
	}
}

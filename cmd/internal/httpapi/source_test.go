package httpapi_test

import (
	"slices"
	"testing"

	"github.com/postrider/postrider/internal/dlq"
	"github.com/postrider/postrider/internal/dlq/dlqtest"
)

// TestInvestigationsSayTheirSource: investigations, their letters and their groups do, and lists of them select one. Two databases
// have the same event, and neither is shown as the other's.
func TestInvestigationsSayTheirSource(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	own := r.record(r.dead(7, nil))
	other := r.record(dlq.Decode(dlqtest.From("orders", dlqtest.Event(7, 1))))
	event := dlqtest.EventID(7).String()
	for source, c := range map[string]struct {
		id, subject    string
		outbox, inside any
	}{
		"main":   {own, event, 1007.0, nil},
		"orders": {other, "orders/" + event, nil, 8.0},
	} {
		shown := r.ask("GET", "/dlq/"+c.id, "").is(200)
		letter := shown.at("letters").([]any)[0].(map[string]any)
		if shown.text("source") != source || shown.text("subject_id") != c.subject || letter["source"] != source ||
			letter["outbox_id"] != c.outbox || letter["source_outbox_id"] != c.inside || letter["event_id"] != event {
			t.Errorf("%s: %s", source, shown.Raw)
		}
		group := r.ask("GET", "/groups/"+shown.text("group_uuid"), "").is(200)
		if group.text("source") != source || group.at("total") != 1.0 {
			t.Errorf("%s: %s", source, group.Raw)
		}
		for path, id := range map[string]string{"/dlq": "id", "/groups": "group_uuid"} {
			want := map[string]string{"id": c.id, "group_uuid": shown.text("group_uuid")}[id]
			listed := r.ask("GET", path+"?source="+source, "").is(200)
			items := listed.at("items").([]any)
			if len(items) != 1 || items[0].(map[string]any)[id] != want || items[0].(map[string]any)["source"] != source || listed.at("total") != 1.0 {
				t.Errorf("%s?source=%s: %s", path, source, listed.Raw)
			}
			if none := r.ask("GET", path+"?source=billing", "").is(200); len(none.at("items").([]any)) != 0 {
				t.Errorf("%s of a source without any: %s", path, none.Raw)
			}
		}
		found := r.ask("GET", "/dlq?event_id="+event, "").is(200).at("items").([]any)
		if !slices.ContainsFunc(found, func(i any) bool { return i.(map[string]any)["id"] == c.id }) {
			t.Errorf("%s: the event finds %v", source, found)
		}
	}
	planned := r.ask("POST", "/operations", `{"kind": "redrive", "name": "of orders", "scope": {"filter": {"source": "orders"}}}`).is(201)
	if planned.at("items") != 1.0 || planned.at("scope").(map[string]any)["filter"].(map[string]any)["source"] != "orders" {
		t.Errorf("%s", planned.Raw)
	}
	groups := map[string]string{"main": r.ask("GET", "/dlq/"+own, "").text("group_uuid"), "orders": r.ask("GET", "/dlq/"+other, "").text("group_uuid")}
	r.ask("POST", "/groups/"+groups["orders"]+"/merge", `{"into": "`+groups["main"]+`"}`).is(400).says("source main", "source orders")
}

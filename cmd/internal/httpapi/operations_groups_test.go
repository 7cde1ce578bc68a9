package httpapi_test

import (
	"fmt"
	"strings"

	"github.com/postrider/postrider/cmd/internal/access"
)

func (r *rig) driveGroups() {
	t := r.t
	id := r.die(31)
	group := r.ask("GET", "/dlq/"+id, "").text("group_uuid")
	listed := r.ask("GET", "/groups?topic=orders&page_size=1&order_by=total&error_code=INVALID_RECORD&text=refused", "").is(200)
	if items := listed.at("items").([]any); len(items) != 1 || items[0].(map[string]any)["group_uuid"] != group {
		t.Errorf("%s", listed.Raw)
	}
	for _, query := range []string{"state=old", "order_by=x", "after=x", "limit=0", "limit=1&page_size=1", "x=1"} {
		r.ask("GET", "/groups?"+query, "").is(400)
	}
	if got := r.ask("GET", "/groups/"+group, "").is(200); len(got.at("why").([]any)) == 0 || got.at("recommended_entry_uuid") == nil {
		t.Errorf("%s", got.Raw)
	}
	r.ask("GET", "/groups/"+nowhere, "").is(404)
	r.ask("GET", "/groups/x", "").is(400)
	if got := r.ask("PATCH", "/groups/"+group, `{"note": "seen", "assignee": "ann", "muted": true, "muted_until": "2099-01-01T00:00:00Z"}`).is(200); got.text("state") != "muted" || got.text("note") != "seen" {
		t.Errorf("%s", got.Raw)
	}
	r.ask("PATCH", "/groups/"+group, `{"muted": false}`).is(200)
	r.ask("PATCH", "/groups/"+group, `{}`).is(400)
	r.ask("PATCH", "/groups/"+group, `{"muted_until": "x"}`).is(400)
	r.ask("PATCH", "/groups/"+group, `{"note": "x", "if_assignee": "ann"}`).is(400).says("if_assignee")
	r.ask("PATCH", "/groups/"+group, `{"assignee": "bob", "if_assignee": ""}`).is(409).says("ann", "unassigned")
	r.ask("PATCH", "/groups/"+group, `{"assignee": "ann", "if_assignee": ""}`).is(200) // it is with her already
	if got := r.ask("PATCH", "/groups/"+group, `{"assignee": "bob", "if_assignee": "ann"}`).is(200); got.text("assignee") != "bob" {
		t.Errorf("it is with %s", got.Raw)
	}
	r.ask("PATCH", "/groups/"+nowhere, `{"note": "x"}`).is(404)
	for _, body := range []string{`{"resolution_status": "pending"}`, `{"until": "x"}`, `{"until": 5}`, `{"x": 1}`} {
		r.ask("POST", "/groups/"+group+"/resolve", body).is(400)
	}
	r.ask("POST", "/groups/"+nowhere+"/resolve", `{}`).is(404)
	other := r.pointing("77")
	from := r.ask("GET", "/dlq/"+other, "").text("group_uuid")
	if got := r.ask("POST", "/groups/"+from+"/merge", fmt.Sprintf(`{"into": %q}`, group)).is(200); got.at("moved") == 0.0 || got.at("left") != 0.0 || r.ask("GET", "/dlq/"+other, "").text("group_uuid") != group {
		t.Errorf("merged: %s", got.Raw)
	}
	if got := r.ask("POST", "/groups/"+group+"/split", fmt.Sprintf(`{"ids": [%q]}`, other)).is(200); got.at("items").([]any)[0].(map[string]any)["group_uuid"] != from || r.ask("GET", "/dlq/"+other, "").text("group_uuid") != from {
		t.Errorf("split again: %s", got.Raw)
	}
	r.ask("POST", "/groups/"+group+"/merge", fmt.Sprintf(`{"into": %q}`, group)).is(400)
	r.ask("POST", "/groups/"+group+"/merge", fmt.Sprintf(`{"into": %q}`, nowhere)).is(404)
	r.ask("POST", "/groups/"+group+"/split", fmt.Sprintf(`{"ids": [%q]}`, other)).is(404)
	onTheirWay := value[int](r, `select count(*) from postrider.dlq_entry e join postrider.dlq_redrive r using (dlq_entry_uuid) where e.dlq_group_uuid = $1 and r.outcome is null`, group)
	if got := r.ask("POST", "/groups/"+group+"/resolve", `{"resolution_status": "permanently_failed", "resolution_notes": "known", "until": "2099-01-01"}`).is(200); got.at("closed") == 0.0 || got.at("left") != float64(onTheirWay) {
		t.Errorf("%d are on their way: %s", onTheirWay, got.Raw)
	}
	if got := r.ask("GET", "/dlq/"+id, "").text("resolution_status"); got != "permanently_failed" {
		t.Errorf("the investigation is %s", got)
	}
	r.ask("POST", "/groups/"+group+"/resolve", "").is(200)
	r.driveComments("/groups/"+group, "group.comment, group.comment, group.comment_delete")
}

// driveComments drives the comments of a subject, which no one has commented on; done is what the audit log has then.
func (r *rig) driveComments(subject, done string) {
	t := r.t
	t.Helper()
	const text = `Räder \u2603\nstehen <b>still</b>`
	first := r.ask("POST", subject+"/comments", `{"text": "`+text+`"}`).is(201)
	if first.text("author") != "key admin" || first.text("text") != "Räder \u2603\nstehen <b>still</b>" || first.at("deleted_at") != nil {
		t.Errorf("%s", first.Raw)
	}
	id := fmt.Sprint(first.at("comment_id"))
	r.ask("POST", subject+"/comments", `{"text": "the second"}`, "X-API-Key", r.keys[access.Resolve]).is(201)
	page := r.ask("GET", subject+"/comments?limit=1", "").is(200)
	rest := r.ask("GET", subject+"/comments?after="+page.text("next"), "").is(200)
	if items := rest.at("items").([]any); page.text("next") != id || len(items) != 1 || items[0].(map[string]any)["text"] != "the second" || items[0].(map[string]any)["author"] != "key resolve" || rest.at("next") != nil {
		t.Errorf("%s, then %s", page.Raw, rest.Raw)
	}
	at := subject + "/comments/" + id
	r.ask("DELETE", at, "", "X-API-Key", r.keys[access.Resolve]).is(409).says("written by key admin")
	for range 2 { // again changes nothing
		if gone := r.ask("DELETE", at, "").is(200); gone.at("text") != nil || gone.at("deleted_at") == nil || gone.text("author") != "key admin" {
			t.Errorf("%s", gone.Raw)
		}
	}
	if all := r.ask("GET", subject+"/comments", "").is(200).at("items").([]any); len(all) != 2 || all[0].(map[string]any)["text"] != nil {
		t.Errorf("%v", all)
	}
	if got := value[string](r, `select string_agg(action, ', ' order by access_audit_id) from postrider.access_audit where target_id = $1 and action like '%.comment%'`, subject[strings.LastIndex(subject, "/")+1:]); got != done {
		t.Errorf("the audit log has %s, want %s", got, done)
	}
	elsewhere := subject[:strings.LastIndex(subject, "/")+1] + nowhere
	r.ask("GET", elsewhere+"/comments", "").is(404).says(nowhere)
	r.ask("POST", elsewhere+"/comments", `{"text": "x"}`).is(404).says(nowhere)
	r.ask("DELETE", elsewhere+"/comments/"+id, "").is(404).says("comment " + id)
	r.ask("DELETE", subject+"/comments/x", "").is(400).says("whole number")
	r.ask("GET", subject+"/comments?after=x", "").is(400).says("after")
	for _, body := range []string{`{}`, `{"text": " \n"}`, `{"text": "\u0000"}`, `{"text": 1}`, `{"text": "` + strings.Repeat("x", 16385) + `"}`} {
		r.ask("POST", subject+"/comments", body).is(400).says("text")
	}
}

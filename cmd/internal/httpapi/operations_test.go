package httpapi_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/postrider/postrider/cmd/internal/access"
	"github.com/postrider/postrider/cmd/internal/config"
	"github.com/postrider/postrider/cmd/internal/httpapi"
	"github.com/postrider/postrider/internal/dlq"
)

const nowhere = "018f0000-0000-7000-8000-00000000dead"

// Every operation is driven, with every answer that is documented for it; each answer is compared with the
// description when it comes (rig.ask), and at the end it is counted whether all were seen.
func TestEveryOperationAndEveryDocumentedAnswer(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	r.furnish()
	r.driveInvestigations()
	r.driveRequeue()
	r.driveRelease()
	r.driveFetch()
	r.drivePurge()
	r.driveGroups()
	r.driveCommands()
	r.driveOperations()
	r.driveTasks()
	r.driveArchive()
	r.driveEngines()
	r.driveTemplates()
	r.driveOutbox()
	r.driveCluster()
	r.driveAccess()
	r.ask("GET", "/status", "").is(200)
	r.ask("GET", "/series", "").is(200)
	r.ask("GET", "/series?span=1h", "").is(400).says("span")
	r.driveWhatAllRefuse()
	for _, o := range r.spec.operations {
		for status := range o.answers {
			if !r.seen[o.id][status] {
				t.Errorf("%s was never answered with %d, which is documented", o.id, status)
			}
		}
	}
}

func (r *rig) driveInvestigations() {
	t := r.t
	id := r.die(1)
	// Q's shape.
	first := r.ask("GET", "/dlq?page=1&page_size=1", "").is(200)
	item := first.at("items").([]any)[0].(map[string]any)
	if item["id"] != id || item["entity"] != "event" || item["reason"] != "invalid_record" || item["message"] != "refused for the test" || item["retry_count"] != 5.0 {
		t.Errorf("%v", item)
	}
	if first.at("page") != 1.0 || first.at("page_size") != 1.0 || first.at("total") != 1.0 || first.at("total_exact") != true || first.at("incomplete") != false {
		t.Errorf("%s", first.Raw)
	}
	second := r.die(2)
	// By pages, by limit and offset, and by cursor the same comes.
	ids := func(a reply) (out []string) {
		for _, one := range a.is(200).at("items").([]any) {
			out = append(out, one.(map[string]any)["id"].(string))
		}
		return out
	}
	page := r.ask("GET", "/dlq?page_size=1", "").is(200)
	for name, got := range map[string][]string{
		"page":   ids(r.ask("GET", "/dlq?page=2&page_size=1", "")),
		"offset": ids(r.ask("GET", "/dlq?limit=1&offset=1", "")),
		"after":  ids(r.ask("GET", "/dlq?page_size=1&after="+page.text("next"), "")),
		"asc":    ids(r.ask("GET", "/dlq?page_size=1&order_dir=asc", "")),
	} {
		if len(got) != 1 || got[0] != id {
			t.Errorf("%s: %v, want %s after %s", name, got, id, second)
		}
	}
	for query, want := range map[string]int{
		"reason=REFUSED": 2, "reason=nothing-like-it": 0, "resolution_status=pending": 2, "resolution_status=cancelled": 0, "topic=orders": 2, "topic=x": 0,
		"error_code=INVALID_RECORD": 2, "subject_type=task": 0, "dlq_reason=max_retries_exceeded": 2, "from=2020-01-01&to=2020-01-02": 0,
		"order_by=updated_at&order_dir=asc": 2, "group=" + nowhere: 0, "assignee=ann": 0, "subject_id=" + nowhere: 0,
	} {
		if got := ids(r.ask("GET", "/dlq?"+query, "")); len(got) != want {
			t.Errorf("%s: %v", query, got)
		}
	}
	for query, says := range map[string]string{
		"page=0": "page", "page_size=101": "1 to 100", "page_size=x": "page_size", "page=1&offset=3": "not both", "order_by=id": "order_by", "order_dir=up": "order_dir",
		"from=yesterday": "from", "resolution_status=open": "resolution_status", "dlq_reason=x": "dlq_reason", "group=1": "uuid", "after=x": "after", "page=100000&page_size=100": "after",
		"to=2026-13-01": "to", "reson=x": "reson", "reason=%00": "UTF-8",
	} {
		r.ask("GET", "/dlq?"+query, "").is(400).says(says)
	}
	for query, want := range map[string][2]any{"": {second, nil}, "order_dir=asc": {nil, second}, "order_by=updated_at&topic=orders": {second, nil}, "topic=x": {nil, nil}} {
		if got := r.ask("GET", "/dlq/"+id+"/neighbours?"+query, "").is(200); got.at("previous") != want[0] || got.at("next") != want[1] || got.at("incomplete") != false {
			t.Errorf("%s: %s, want %v", query, got.Raw, want)
		}
	}
	r.ask("GET", "/dlq/"+nowhere+"/neighbours", "").is(404).says(nowhere)
	r.ask("GET", "/dlq/"+id+"/neighbours?order_by=id", "").is(400).says("order_by")
	detail := r.ask("GET", "/dlq/"+id, "").is(200)
	if len(detail.at("letters").([]any)) != 1 || detail.at("snapshot", "payload", "n") != 1.0 || detail.at("task_snapshot") != nil {
		t.Errorf("%s", detail.Raw)
	}
	r.ask("GET", "/dlq/"+nowhere, "").is(404).says(nowhere)
	r.ask("GET", "/dlq/1", "").is(400).says("uuid")
	r.ask("GET", "/dlq/"+id+"?x=1", "").is(400)
	// By its task's id, the newest.
	task := r.taskEntry()
	if got := r.ask("GET", "/dlq/"+task, "").is(200); got.text("task_uuid") != task || got.at("task_snapshot") == nil || got.text("entity") != "task" {
		t.Errorf("%s", got.Raw)
	}

	reveal := r.ask("GET", "/dlq/"+id+"/payload?why=looking", "").is(200)
	if reveal.text("payload", "encoding") != "json" || reveal.at("payload", "value", "n") != 1.0 || reveal.text("key", "value") != "key-1" {
		t.Errorf("%s", reveal.Raw)
	}
	r.ask("GET", "/dlq/"+id+"/payload?letter_id=no", "").is(404)
	r.ask("GET", "/dlq/"+nowhere+"/payload", "").is(404)
	r.ask("GET", "/dlq/x/payload", "").is(400)
	if n := value[int](r, `select count(*) from postrider.access_audit where action like '%reveal%' and target_id = $1`, id); n != 1 {
		t.Errorf("%d rows of the audit log about the look", n)
	}

	patched := r.ask("PATCH", "/dlq/"+id, `{"resolution_status": "manually_resolved", "notes": "Fixed it", "resolved_by": "ops@example.com", "metadata": {"ticket": "X-1"}, "assignee": "ann"}`).is(200)
	if patched.at("success") != true || patched.text("dlq_entry_uuid") != id || patched.text("entry", "resolution_notes") != "Fixed it" || patched.text("entry", "resolved_by") != "ops@example.com" {
		t.Errorf("%s", patched.Raw)
	}
	for _, c := range []struct{ body, left string }{
		{`{"metadata": null, "notes": "looked again"}`, `{"ticket":"X-1"}`}, {`{"metadata": {}}`, `null`}, {`{"metadata": {"ticket": "X-2"}}`, `{"ticket":"X-2"}`},
	} {
		changed := r.ask("PATCH", "/dlq/"+id, c.body).is(200)
		if left, _ := json.Marshal(changed.at("metadata")); string(left) != c.left {
			t.Errorf("%s is answered with the metadata %s, want %s", c.body, left, c.left)
		}
		if left, _ := json.Marshal(r.ask("GET", "/dlq/"+id, "").at("metadata")); string(left) != c.left {
			t.Errorf("after %s it is %s, want %s", c.body, left, c.left)
		}
	}
	r.ask("PATCH", "/dlq/"+id, `{"metadata": null}`).is(400).says("nothing is to be changed")
	r.ask("PATCH", "/dlq/"+id, `{"resolution_status": "cancelled"}`).is(409).says("manually_resolved")
	r.ask("PATCH", "/dlq/"+id, `{"resolution_status": "pending"}`).is(409)
	r.ask("PATCH", "/dlq/"+id, `{"resolution_notes": "more"}`).is(200)
	for _, body := range []string{`{}`, `{"resolution_status": "open"}`, `{"notes": "a", "resolution_notes": "b"}`, `{"metadata": []}`, `{"note": "x"}`, `{"notes": "\u0000"}`} {
		r.ask("PATCH", "/dlq/"+id, body).is(400)
	}
	r.ask("PATCH", "/dlq/"+id, `{"notes": "x", "if_assignee": "ann"}`).is(400).says("if_assignee")
	r.ask("PATCH", "/dlq/"+id, `{"assignee": "bob", "if_assignee": "carl"}`).is(409).says("ann", "carl")
	r.ask("PATCH", "/dlq/"+nowhere, `{"notes": "x"}`).is(404)

	stats := r.ask("GET", "/dlq/stats", "").is(200)
	if stats.at("total") != 3.0 || stats.at("by_reason", "invalid_record") != 2.0 || stats.at("last_24h") != 3.0 || stats.at("pending") != 2.0 {
		t.Errorf("%s", stats.Raw)
	}
	// What is reported can be asked for.
	for word, n := range stats.at("by_reason").(map[string]any) {
		if found := r.ask("GET", "/dlq?reason="+url.QueryEscape(strings.ToUpper(word)), "").is(200); found.at("total") != n {
			t.Errorf("%v have the reason %s, %v are found", n, word, found.at("total"))
		}
	}
	r.ask("GET", "/dlq/stats?x=1", "").is(400)
	r.driveComments("/dlq/"+id, "dlq.comment, dlq.comment, dlq.comment_delete")
}

func (r *rig) driveRequeue() {
	t := r.t
	id, closed, edited, elsewhere := r.die(11), r.die(12), r.die(13), r.die(14)
	task := value[string](r, `select dlq_entry_uuid::text from postrider.dlq_entry where subject_type = 'task' limit 1`)
	// The person who was named before stays named.
	r.ask("PATCH", "/dlq/"+closed, `{"resolved_by": "ops@example.com"}`).is(200)
	if got := r.ask("PATCH", "/dlq/"+closed, `{"resolution_status": "cancelled"}`).is(200); got.text("entry", "resolved_by") != "ops@example.com" {
		t.Errorf("%s", got.Raw)
	}
	body := fmt.Sprintf(`{"ids": [%q, %q, %q]}`, id, closed, task)
	r.driveReach(id)
	done := r.ask("POST", "/dlq/requeue", body).is(200)
	if got := fmt.Sprint(done.at("requeued")); got != "["+id+"]" {
		t.Errorf("%s", done.Raw)
	}
	reasons := map[string]string{}
	for _, s := range done.at("skipped").([]any) {
		reasons[s.(map[string]any)["id"].(string)] = s.(map[string]any)["reason"].(string)
	}
	if reasons[closed] != "not_pending" || reasons[task] != "task_subject" {
		t.Errorf("%v", reasons)
	}
	again := r.ask("POST", "/dlq/requeue", fmt.Sprintf(`{"ids": [%q]}`, id)).is(200)
	if skipped := again.at("skipped").([]any); len(skipped) != 1 || skipped[0].(map[string]any)["reason"] != "already_queued" {
		t.Errorf("%s", again.Raw)
	}
	if got := r.ask("GET", "/dlq/"+id, "").is(200); got.text("redrive_state") != "queued" || len(got.at("redrives").([]any)) != 1 || len(got.at("audit").([]any)) != 1 {
		t.Errorf("%s", got.Raw)
	}
	before := value[int](r, `select count(*) from postrider.outbox_event`)
	r.ask("POST", "/dlq/requeue", fmt.Sprintf(`{"ids": [%q, %q]}`, edited, nowhere)).is(404).says(nowhere)
	for _, body := range []string{`{}`, `{"ids": []}`, `{"ids": ["1"]}`, `{"ids": [1]}`, `{"ids": "x"}`, fmt.Sprintf(`{"ids": [%q], "target": "not a topic"}`, edited),
		fmt.Sprintf(`{"ids": [%q], "edit": {}}`, edited), fmt.Sprintf(`{"ids": [%q, %q], "edit": {"tombstone": true}}`, edited, elsewhere),
		fmt.Sprintf(`{"ids": [%q], "edit": {"payload": 1, "tombstone": true}}`, edited), fmt.Sprintf(`{"ids": [%q], "edit": {"headers": {"postrider-event-id": "x"}}}`, edited),
		fmt.Sprintf(`{"ids": [%q], "edit": {"headers": 1}}`, edited), `{"ids": [` + strings.Repeat(`"`+nowhere+`",`, 500) + `"` + nowhere + `"]}`} {
		r.ask("POST", "/dlq/requeue", body).is(400)
	}
	if after := value[int](r, `select count(*) from postrider.outbox_event`); after != before {
		t.Errorf("refused requests wrote %d events", after-before)
	}
	r.ask("POST", "/dlq/requeue", fmt.Sprintf(`{"ids": [%q], "edit": {"tombstone": true}}`, edited), "X-API-Key", r.keys[access.Redrive]).is(403).says("redrive:edit")
	r.ask("POST", "/dlq/requeue", fmt.Sprintf(`{"ids": [%q], "edit": {"payload": {"mended": true}, "headers": {"trace": "y"}}}`, edited)).is(200)
	r.ask("POST", "/dlq/requeue", fmt.Sprintf(`{"ids": [%q], "target": "orders.mended"}`, elsewhere)).is(200)
	if n := value[int](r, `select count(*) from postrider.outbox_event where payload = '{"mended": true}' or topic = 'orders.mended'`); n != 2 {
		t.Errorf("%d of two events", n)
	}
}

func (r *rig) drivePurge() {
	t := r.t
	id, old := r.die(21), r.die(22)
	holding, _, _ := r.halted(23)
	if got := r.ask("POST", "/dlq/purge", fmt.Sprintf(`{"ids": [%q]}`, id)).is(200); got.at("purged") != 1.0 {
		t.Errorf("%s", got.Raw)
	}
	r.ask("GET", "/dlq/"+id, "").is(404)
	r.ask("POST", "/dlq/purge", fmt.Sprintf(`{"ids": [%q]}`, id)).is(404)
	if got := r.ask("GET", "/dlq/"+holding, "").is(200); got.at("key_held") != true {
		t.Errorf("%s", got.Raw)
	}
	r.ask("POST", "/dlq/purge", fmt.Sprintf(`{"ids": [%q]}`, holding)).is(409).says("release_keys")
	for _, body := range []string{`{}`, `{"ids": [], "older_than": "2026-01-01"}`, `{"ids": []}`, `{"older_than": "soon"}`, fmt.Sprintf(`{"ids": [%q], "reason": "x"}`, old)} {
		r.ask("POST", "/dlq/purge", body).is(400)
	}
	if got := r.ask("POST", "/dlq/purge", `{"older_than": "2026-01-01T00:00:00Z", "reason": "network"}`).is(200); got.at("purged") != 0.0 {
		t.Errorf("%s", got.Raw)
	}
	r.exec(`update postrider.dlq_entry set created_at = '2025-01-01', updated_at = now() where dlq_entry_uuid = any ($1)`, []string{old, holding})
	if got := r.ask("POST", "/dlq/purge", `{"older_than": "2025-02-01", "text": "REFUSED"}`).is(200); got.at("purged") != 1.0 || got.at("holding") != 1.0 {
		t.Errorf("%s", got.Raw)
	}
	if got := r.ask("POST", "/dlq/purge", fmt.Sprintf(`{"ids": [%q], "release_keys": true}`, holding)).is(200); got.at("purged") != 1.0 {
		t.Errorf("%s", got.Raw)
	}
}

func (r *rig) driveOperations() {
	t := r.t
	a, b := r.die(41), r.die(42)
	plan := func(body string, headers ...string) reply { return r.ask("POST", "/operations", body, headers...) }
	planned := plan(fmt.Sprintf(`{"kind": "redrive", "name": "incident 7", "reason": "fixed", "scope": {"ids": [%q, %q]}, "options": {"rate": 50, "canary": 1}}`, a, b)).is(201)
	id := planned.text("operation_uuid")
	if planned.text("state") != "planned" || planned.at("plan", "items") != 2.0 || planned.at("plan", "topics", "orders") != 2.0 || planned.at("scope", "ids") != 2.0 {
		t.Errorf("%s", planned.Raw)
	}
	for _, body := range []string{`{}`, `{"kind": "x", "name": "n", "scope": {"filter": {}}}`, `{"kind": "redrive", "name": "", "scope": {"filter": {}}}`,
		`{"kind": "redrive", "name": "n", "scope": {}}`, `{"kind": "redrive", "name": "n", "scope": {"filter": {"dlq_reason": "x"}}}`, `{"kind": "redrive", "name": "n", "scope": {"filter": {"subject_type": "x"}}}`,
		`{"kind": "redrive", "name": "n", "scope": {"filter": {}}, "options": {"rate": -1}}`, `{"kind": "redrive", "name": "n", "scope": {"ids": ["x"]}}`, `{"kind": "redrive", "name": "n", "scope": {"filter": {"topic": "nobody.has.it"}}}`} {
		plan(body).is(400)
	}
	plan(fmt.Sprintf(`{"kind": "redrive", "name": "n", "scope": {"ids": [%q]}}`, nowhere)).is(404)
	resolve := fmt.Sprintf(`{"kind": "resolve", "name": "n", "scope": {"ids": [%q]}}`, a)
	plan(resolve, "X-API-Key", r.keys[access.Redrive]).is(403).says("resolve")
	other := plan(resolve).is(201).text("operation_uuid")
	r.ask("POST", "/operations/"+other+"/start", "", "X-API-Key", r.keys[access.Redrive]).is(403).says("resolve")
	for name, options := range map[string]string{"with": `{"headers": [["priority", "5"]]}`, "without": `{"no_headers": true}`} {
		body := fmt.Sprintf(`{"kind": "redrive", "name": "repaired %s", "scope": {"filter": {}}, "options": %s}`, name, options)
		plan(body, "X-API-Key", r.keys[access.Redrive]).is(403).says("redrive:edit")
		if got := plan(body).is(201); got.at("plan", "unreadable_headers") != 0.0 {
			t.Errorf("%s", got.Raw)
		}
	}
	plan(`{"kind": "redrive", "name": "repair", "scope": {"filter": {}}, "options": {"headers": [["priority"]]}}`).is(400).says("pair")
	halting := func(options string) reply {
		return plan(`{"kind": "redrive", "name": "halting at ` + options + `", "scope": {"filter": {}}, "options": {` + strings.ReplaceAll(options, "'", `"`) + `}}`)
	}
	halting("'halt_minimum': 0").is(400).says("halt minimum is 0, it must be 1 or more")
	halting("'halt_ratio': 1.5").is(400).says("halt ratio is 1.5")
	for options, want := range map[string][2]float64{"'halt_ratio': 0, 'halt_minimum': 1": {0, 1}, "'halt_ratio': 0": {0, 3}, "'rate': 1": {0.1, 3}, "'halt_ratio': null": {0.1, 3}} {
		if got := halting(options).is(201); got.at("options", "halt_ratio") != want[0] || got.at("options", "halt_minimum") != want[1] {
			t.Errorf("%s: %s", options, got.Raw)
		}
	}
	group := plan(fmt.Sprintf(`{"kind": "redrive", "name": "all of the group", "scope": {"group": %q}}`, r.ask("GET", "/dlq/"+a, "").text("group_uuid"))).is(201)
	if group.at("plan", "items").(float64) < 2 {
		t.Errorf("%s", group.Raw)
	}
	plan(`{"kind": "redrive", "name": "orders", "scope": {"filter": {"topic": "orders", "subject_type": "event"}}}`).is(201)
	plan(`{"kind": "redrive", "name": "orders", "scope": {"filter": {"topic": "orders"}}}`).is(409).says("the name is taken")
	plan(fmt.Sprintf(`{"kind": "redrive", "name": "m", "scope": {"group": %q}}`, nowhere)).is(404).says("group " + nowhere)

	whole := r.ask("GET", "/operations?open=true&limit=100", "").is(200).at("items").([]any)
	var paged []any
	for query := "limit=2"; query != ""; {
		page := r.ask("GET", "/operations?open=true&"+query, "").is(200)
		paged, query = append(paged, page.at("items").([]any)...), ""
		if next := page.at("next"); next != nil {
			query = "limit=2&after=" + next.(string)
		}
	}
	if len(whole) < 5 || !reflect.DeepEqual(paged, whole) {
		t.Errorf("%d operations page after page, %d at once", len(paged), len(whole))
	}
	ofGroup := r.ask("GET", "/operations?open=true&group="+group.at("scope", "group").(string), "").is(200)
	if list := ofGroup.at("items").([]any); len(list) != 1 || list[0].(map[string]any)["operation_uuid"] != group.text("operation_uuid") {
		t.Errorf("of a group: %s", ofGroup.Raw)
	}
	if none := r.ask("GET", "/operations?group="+nowhere, "").is(200).at("items").([]any); len(none) != 0 {
		t.Errorf("of no group: %v", none)
	}
	r.ask("GET", "/operations?group=x", "").is(400).says("uuid")
	r.ask("GET", "/operations?after=x", "").is(400).says("uuid")
	r.ask("GET", "/operations?after="+nowhere, "").is(400).says(nowhere, "not any more")
	r.ask("GET", "/operations?open=maybe", "").is(400)
	r.ask("GET", "/operations/"+id, "").is(200)
	r.ask("GET", "/operations/"+nowhere, "").is(404).says("operation " + nowhere + ": not found")
	r.ask("GET", "/operations/x", "").is(400)
	items := r.ask("GET", "/operations/"+id+"/items?limit=1&state=waiting", "").is(200)
	if rest := r.ask("GET", "/operations/"+id+"/items?after="+items.text("next"), "").is(200); len(rest.at("items").([]any)) != 1 || rest.at("next") != nil {
		t.Errorf("%s", rest.Raw)
	}
	item := items.at("items").([]any)[0].(map[string]any)
	about := r.ask("GET", "/dlq/"+item["dlq_entry_uuid"].(string), "").is(200)
	if item["topic"] != "orders" || item["key"] != about.at("snapshot", "key") || item["key"] == nil || item["event_id"] != about.text("subject_id") || item["dlq_reason"] != about.text("dlq_reason") || item["error_code"] != about.text("error_code") {
		t.Errorf("%v of %s", item, about.Raw)
	}
	r.ask("GET", "/operations/"+id+"/items?state=x", "").is(400)
	r.ask("GET", "/operations/"+nowhere+"/items", "").is(404)
	for _, c := range []struct{ do, then string }{{"start", "canary"}, {"pause", "paused"}, {"resume", "canary"}, {"abort", "aborted"}} {
		r.ask("POST", "/operations/"+nowhere+"/"+c.do, "").is(404)
		r.ask("POST", "/operations/x/"+c.do, "").is(400)
		r.ask("POST", "/operations/"+id+"/"+c.do, `{"x": 1}`).is(400)
		r.ask("POST", "/operations/"+id+"/"+c.do, `{"reason": "`+strings.Repeat("x", dlq.MaxNotes+1)+`"}`).is(400).says("reason")
		if c.do == "abort" {
			r.ask("POST", "/operations/"+id+"/abort", `{"only_planned": true}`).is(409)
		}
		if got := r.ask("POST", "/operations/"+id+"/"+c.do, `{"reason": "because of `+c.do+`"}`).is(200); got.text("state") != c.then {
			t.Errorf("%s: %s", c.do, got.Raw)
		}
	}
	// The batches of an operation are in the audit log, too, and do not hide what people did.
	r.exec(`insert into postrider.access_audit (actor, action, target_type, target_id, details) select 'ada', 'dlq.requeue', 'operation', $1, '{}' from generate_series(1, 200)`, id)
	detail := r.ask("GET", "/operations/"+id, "").is(200)
	var commands []string
	for _, c := range detail.at("commands").([]any) {
		c := c.(map[string]any)
		if at, err := time.Parse(time.RFC3339Nano, c["at"].(string)); err != nil || time.Since(at) > time.Hour {
			t.Errorf("%v, %v", c, err)
		}
		commands = append(commands, fmt.Sprint(c["command"], " by ", c["actor"], ": ", c["reason"]))
	}
	if folded := r.ask("GET", "/audit?limit=100&target_id="+id+"&batches=false", "").is(200).at("items").([]any); len(folded) != len(commands) {
		t.Errorf("%d rows of the audit log without batches, want %d", len(folded), len(commands))
	} else if start := folded[len(folded)-2].(map[string]any); start["action"] != "operation.start" || start["batches"] != 200.0 {
		t.Errorf("the row of the start: %v", start)
	}
	if newest := r.ask("GET", "/audit?limit=1&target_id="+id, "").is(200).at("items").([]any)[0].(map[string]any); newest["action"] != "dlq.requeue" {
		t.Errorf("the newest row of the audit log: %v", newest)
	}
	r.ask("GET", "/audit?batches=maybe", "").is(400).says("batches")
	who := planned.text("actor")
	if want := []string{"abort by " + who + ": because of abort", "resume by " + who + ": because of resume", "pause by " + who + ": because of pause", "start by " + who + ": because of start", "plan by " + who + ": fixed"}; !slices.Equal(commands, want) {
		t.Errorf("commands %q, want %q", commands, want)
	}
	if got := r.ask("GET", "/operations/"+group.text("operation_uuid"), "").is(200).at("commands").([]any); len(got) != 1 || got[0].(map[string]any)["reason"] != nil {
		t.Errorf("commands of a plan without a reason: %v", got)
	}
	if got := r.ask("POST", "/operations/"+group.text("operation_uuid")+"/abort", `{"only_planned": true}`).is(200); got.text("state") != "aborted" {
		t.Errorf("a plan was not withdrawn: %s", got.Raw)
	}
	for _, do := range []string{"start", "pause", "resume"} {
		r.ask("POST", "/operations/"+id+"/"+do, "").is(409).says("aborted")
	}
	r.exec(`update postrider.dlq_operation set state = 'completed', updated_at = now() where dlq_operation_uuid = $1`, id)
	r.ask("POST", "/operations/"+id+"/abort", "").is(409)
}

// busy drives the answer that the first request with the same Idempotency-Key is in work.
func (r *rig) busy(method, path, body string) {
	r.t.Helper()
	r.ask(method, path, body, "Idempotency-Key", r.begun(method, path, body)).is(409).says("in work")
}

// begun is an Idempotency-Key under which a request is in work.
func (r *rig) begun(method, path, body string) string {
	r.t.Helper()
	target, err := url.Parse("/v1" + path)
	if err != nil {
		r.t.Fatal(err)
	}
	key := "begun " + uuid.NewString()
	ctx := access.WithActor(r.t.Context(), access.Actor{KeyID: strings.Split(r.keys[access.Admin], "_")[1]})
	if _, known, err := r.services.Access.Begin(ctx, key, []byte(strings.Join([]string{method, target.Path, target.RawQuery, body}, "\x00"))); err != nil || known != nil {
		r.t.Fatal(known, err)
	}
	return key
}

// driveWhatAllRefuse drives the answers that every operation has.
func (r *rig) driveWhatAllRefuse() {
	for _, o := range r.spec.operations {
		path := sample(o)
		r.ask(o.method, path, "", "X-API-Key", "").is(401)
		other := access.Read
		if o.scope == access.Read {
			other = access.Resolve
		}
		r.ask(o.method, path, "", "X-API-Key", r.keys[other]).is(403).says(string(o.scope))
		r.ask(o.method, path+"?surely_unknown=1", "{}").is(400)
		if o.method == http.MethodGet {
			continue
		}
		r.ask(o.method, path, strings.Repeat(" ", 70_000)).is(413)
		if o.body {
			r.ask(o.method, strings.ReplaceAll(strings.ReplaceAll(path, "outbox/"+nowhere, "outbox/1"), "holds/"+nowhere, "holds/1"), "{}", "Content-Type", "text/plain").is(415)
		}
		if o.id != "createKey" {
			r.ask(o.method, path, "{ }", "Idempotency-Key", r.begun(o.method, path, "{}")).is(422)
		}
		r.busy(o.method, path, "{}")
	}
	// A client that asks too often, a server that takes too long, and a server that fails.
	r.behind(func(c *httpapi.APIConfig) { c.Requests = access.NewLimiter(0.0001, 1) }, http.StatusTooManyRequests)
	r.behind(func(c *httpapi.APIConfig) {
		c.Timeout, c.Keys = time.Nanosecond, looking{c.Keys}
		for i := range c.Routes { // and none has longer
			c.Routes[i].Limit = 0
		}
	}, http.StatusServiceUnavailable)
	r.behind(func(c *httpapi.APIConfig) { c.Keys = failing{c.Keys} }, http.StatusInternalServerError)
}

// looking is a store of keys that knows none from a moment ago.
type looking struct{ httpapi.Keys }

func (l looking) Authenticate(ctx context.Context, token string, _ access.Use) (access.Key, error) {
	return l.Keys.Authenticate(ctx, token, access.Changing)
}

// failing is a store of keys whose database fails.
type failing struct{ httpapi.Keys }

func (failing) Authenticate(context.Context, string, access.Use) (access.Key, error) {
	return access.Key{}, errors.New("secret of the server")
}

// behind asks every operation of a server that is changed so that it answers with a status.
func (r *rig) behind(change func(*httpapi.APIConfig), status int) {
	r.t.Helper()
	c, err := config.Load(config.From{})
	if err != nil {
		r.t.Fatal(err)
	}
	services, err := r.services.ForHTTP(c, nil)
	if err != nil {
		r.t.Fatal(err)
	}
	cfg := httpapi.APIConfig{Routes: services.Routes(), Keys: access.Recently{Store: r.services.Access}, Describe: httpapi.Describe}
	change(&cfg)
	api, err := httpapi.NewAPI(cfg)
	if err != nil {
		r.t.Fatal(err)
	}
	server := httptest.NewServer(api)
	defer server.Close()
	other := &rig{Server: server, t: r.t, spec: r.spec, keys: r.keys, seen: r.seen}
	if status == http.StatusTooManyRequests {
		other.ask("GET", "/dlq/stats", "").is(200)
	}
	for _, o := range r.spec.operations {
		got := other.ask(o.method, sample(o), "").is(status)
		if strings.Contains(got.Raw, "secret") {
			r.t.Errorf("%s tells too much: %s", o.id, got.Raw)
		}
	}
}

// sample is a path of an operation, to nothing.
func sample(o *operation) string {
	return strings.NewReplacer("{id}", nowhere, "{step}", nowhere, "{comment}", "1", "{namespace}", "x", "{name}", "x").Replace(o.path)
}

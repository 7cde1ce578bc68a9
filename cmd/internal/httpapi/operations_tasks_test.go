package httpapi_test

import (
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/postrider/postrider/internal/tasks/ledgertest"
	"github.com/postrider/postrider/internal/testenv/outboxtest"
)

func (r *rig) driveTasks() {
	t := r.t
	created := r.ask("POST", "/tasks", `{"namespace_name": "default", "task_name": "task", "context": {"order": 1}, "priority": 3, "idempotency_key": "one"}`).is(201)
	id := created.text("task_uuid")
	if again := r.ask("POST", "/tasks", `{"namespace_name": "default", "task_name": "task", "idempotency_key": "one"}`).is(201); again.text("task_uuid") != id {
		t.Errorf("%s", again.Raw)
	}
	r.ask("POST", "/tasks", fmt.Sprintf(`{"namespace_name": "default", "task_name": "task", "task_uuid": %q}`, id)).is(409)
	r.ask("POST", "/tasks", `{"namespace_name": "default", "task_name": "no such"}`).is(404)
	for _, body := range []string{`{}`, `{"namespace_name": "default", "task_name": "task", "priority": 5000000000}`, `{"namespace_name": "default", "task_name": "task", "context": {"a": "\u0000"}}`} {
		r.ask("POST", "/tasks", body).is(400)
	}
	if got := r.ask("GET", "/tasks?page_size=1&namespace=default&name=task&version=1.0.0&status=pending", "").is(200); len(got.at("items").([]any)) != 1 {
		t.Errorf("%s", got.Raw)
	}
	r.task("")
	older := r.ask("GET", "/tasks?page_size=1", "").is(200)
	page := r.ask("GET", "/tasks?page=2&page_size=1", "").is(200).at("items").([]any)
	after := r.ask("GET", "/tasks?page_size=1&after="+older.text("next"), "").is(200).at("items").([]any)
	if len(page) != 1 || len(after) != 1 || page[0].(map[string]any)["task_uuid"] != after[0].(map[string]any)["task_uuid"] {
		t.Errorf("page %v, after %v", page, after)
	}
	if last := r.ask("GET", "/tasks?after=00000000-0000-0000-0000-000000000001", "").is(200); last.at("next") != nil || len(last.at("items").([]any)) != 0 {
		t.Errorf("%s", last.Raw)
	}
	r.ask("GET", "/tasks?page=2&after="+id, "").is(400).says("not both")
	r.ask("GET", "/tasks?after=x", "").is(400).says("uuid")
	r.ask("GET", "/tasks?state=x", "").is(400)
	r.ask("GET", "/tasks?status=x", "").is(400).says("no machine has the state")
	r.ask("GET", "/tasks?status=waiting_for_retry", "").is(200)
	r.ask("GET", "/tasks?flagged=x", "").is(400)
	r.ask("GET", "/tasks?near_stale=x", "").is(400)
	r.ask("GET", "/tasks?near_stale=true&flagged=true", "").is(400).says("near_stale")
	r.ask("GET", "/tasks?from=x", "").is(400)
	for query, want := range map[string]int{"from=2020-01-01": 2, "to=2020-01-01": 0, "from=2020-01-01&to=2999-01-01": 2, "flagged=true": 1, "flagged=true&status=complete": 0, "near_stale=true": 0, "near_stale=false": 2, "flagged=false": 2} {
		if query == "flagged=true" {
			r.exec(`update postrider.tasker_tasks set stale_flagged_at = now(), stale_rule = 'x' where task_uuid = $1`, id)
		}
		if got := r.ask("GET", "/tasks?"+query, "").is(200).at("items").([]any); len(got) != want {
			t.Errorf("%s: %d tasks, want %d", query, len(got), want)
		}
		r.exec(`update postrider.tasker_tasks set stale_flagged_at = null, stale_rule = ''`)
	}
	r.ask("GET", "/tasks/"+id, "").is(200)
	gone := r.archived()
	step := r.steps(id)["a"]
	for _, rest := range []string{"", "/payload", "/workflow_steps", "/transitions", "/step_transitions", "/workflow_steps/" + step} {
		r.ask("GET", "/tasks/"+id+rest, "").is(200)
		r.ask("GET", "/tasks/x"+rest, "").is(400)
		r.ask("GET", "/tasks/"+nowhere+rest, "").is(404)
		for _, prefix := range []string{"/v1", "/api/v1"} {
			if got := r.askAt(prefix, "GET", "/tasks/"+gone+rest, "").is(301); got.Header.Get("Location") != prefix+"/archive/tasks/"+gone+rest {
				t.Errorf("%s", got.Header.Get("Location"))
			}
		}
	}
	if got := r.ask("GET", "/tasks/"+gone+"/transitions?page_size=1&after=2", "").is(301); got.Header.Get("Location") != "/v1/archive/tasks/"+gone+"/transitions?page_size=1&after=2" {
		t.Errorf("the redirect goes to another page: %s", got.Header.Get("Location"))
	}
	r.ask("GET", "/tasks/"+id+"/workflow_steps/"+nowhere, "").is(404)
	// Who follows the redirect finds the fields of a live one.
	for _, rest := range []string{"", "/payload", "/workflow_steps", "/transitions", "/step_transitions"} {
		live, archived := fieldsOf("", r.ask("GET", "/tasks/"+id+rest, "").is(200).at()), fieldsOf("", r.ask("GET", "/archive/tasks/"+gone+rest, "").is(200).at())
		if !slices.Equal(live, archived) {
			t.Errorf("%s: a live task has the fields\n%v, an archived one\n%v", rest, live, archived)
		}
	}

	at := "/tasks/" + id + "/workflow_steps/"
	if got := r.ask("PATCH", at+step, `{"action": "complete-manually", "notes": "by hand", "results": {"ok": true}}`).is(200); got.text("workflow_step", "status") != "resolved_manually" || got.text("task_state") == "" {
		t.Errorf("%s", got.Raw)
	}
	for _, of := range []string{"/tasks/" + id, "/archive/tasks/" + gone} {
		for _, rest := range []string{"/transitions", "/step_transitions"} {
			newest := r.ask("GET", of+rest+"?page_size=1", "").is(200)
			if older := r.ask("GET", of+rest+"?limit=1&after="+url.QueryEscape(newest.text("next")), "").is(200); len(newest.at("items").([]any)) != 1 || len(older.at("items").([]any)) != 1 ||
				fmt.Sprint(newest.at("items")) == fmt.Sprint(older.at("items")) {
				t.Errorf("%s%s: %s, and behind it %s", of, rest, newest.Raw, older.Raw)
			}
			r.ask("GET", of+rest+"?after=x", "").is(400).says("the next of an earlier answer")
		}
	}
	r.ask("PATCH", at+step, `{"action": "cancel"}`).is(409)
	r.ask("PATCH", at+step, `{"action": "explode"}`).is(400)
	r.ask("PATCH", at+nowhere, `{"action": "retry"}`).is(404)

	failed := r.task("error")
	if got := r.ask("POST", "/tasks/"+failed+"/retry", "").is(200); got.text("status") != "retry_queued" || got.text("task_uuid") != failed {
		t.Errorf("%s", got.Raw)
	}
	r.ask("POST", "/tasks/"+failed+"/retry", "").is(400).says("cannot be retried")
	r.ask("POST", "/tasks/"+nowhere+"/retry", "").is(404)
	r.busy("POST", "/tasks/"+failed+"/retry", "")
	r.driveRetries(id, gone)

	if got := r.ask("POST", "/tasks/"+failed+"/dlq", `{"reason": "no use"}`).is(200); got.text("task_uuid") != failed {
		t.Errorf("%s", got.Raw)
	}
	r.ask("POST", "/tasks/"+failed+"/dlq", `{"reason": " "}`).is(400)
	r.ask("POST", "/tasks/"+nowhere+"/dlq", `{"reason": "x"}`).is(404)
	r.ask("POST", "/tasks/"+r.task("complete")+"/dlq", `{"reason": "x"}`).is(409)

	if got := r.ask("POST", "/tasks/"+id+"/cancel", `{"notes": "why"}`).is(200); got.at("cancelled") != true || got.text("task", "state") != "cancelled" {
		t.Errorf("%s", got.Raw)
	}
	if got := r.ask("POST", "/tasks/"+id+"/cancel", "").is(200); got.at("cancelled") != false {
		t.Errorf("%s", got.Raw)
	}
	r.ask("POST", "/tasks/"+nowhere+"/cancel", "").is(404)
	for _, what := range []string{"retry", "cancel", "unflag"} {
		r.ask("POST", "/tasks/"+gone+"/"+what, "").is(409).says("archive")
	}
	r.ask("POST", "/tasks/"+gone+"/dlq", `{"reason": "x"}`).is(409).says("archive")
	r.ask("PATCH", "/tasks/"+gone+"/workflow_steps/"+step, `{"action": "retry"}`).is(409).says("archive")

	flagged := r.task("")
	if got := r.ask("POST", "/tasks/"+flagged+"/unflag", "").is(200); got.at("unflagged") != false {
		t.Errorf("%s", got.Raw)
	}
	r.exec(`update postrider.tasker_tasks set stale_flagged_at = now(), stale_rule = 'x' where task_uuid = $1`, flagged)
	if got := r.ask("POST", "/tasks/"+flagged+"/unflag", `{"notes": "go on"}`).is(200); got.at("unflagged") != true || got.at("task", "stale_flagged_at") != nil {
		t.Errorf("%s", got.Raw)
	}
	r.ask("POST", "/tasks/"+nowhere+"/unflag", "").is(404)
	r.ask("POST", "/tasks/"+id+"/cancel", `{"x": 1}`).is(400)
}

// reasons are why tasks were skipped, in their order.
func reasons(got reply) (all []string) {
	for _, s := range got.at("skipped").([]any) {
		all = append(all, fmt.Sprint(s.(map[string]any)["reason"]))
	}
	return all
}

// driveRetries retries many tasks at once; ended is one that is not retried, and gone one in the archive.
func (r *rig) driveRetries(ended, gone string) {
	t := r.t
	one, other := r.task("error"), r.task("error")
	ids := func(all ...string) string { return `"ids": ["` + strings.Join(all, `", "`) + `"]` }
	if got := r.ask("POST", "/tasks/retry", `{`+ids(one, ended, gone, nowhere)+`, "dry_run": true}`).is(200); fmt.Sprint(got.at("retried")) != "["+one+"]" || got.at("dry_run") != true ||
		!slices.Equal(reasons(got), []string{"not_retryable", "archived", "not_found"}) {
		t.Errorf("%s", got.Raw)
	}
	if got := r.ask("POST", "/tasks/retry", `{`+ids(one, one)+`}`).is(200); fmt.Sprint(got.at("retried")) != "["+one+"]" || len(got.at("skipped").([]any)) != 0 {
		t.Errorf("%s", got.Raw)
	}
	if got := r.ask("POST", "/tasks/retry", `{"filter": {"namespace": "default", "status": "error"}}`).is(200); fmt.Sprint(got.at("retried")) != "["+other+"]" || got.at("next") != nil {
		t.Errorf("%s", got.Raw)
	}
	r.ask("POST", "/tasks/retry", `{"filter": {"status": "error"}, "after": "`+nowhere+`"}`).is(200)
	for body, says := range map[string]string{`{}`: "one of ids, group and filter", `{` + ids(one) + `, "filter": {"status": "error"}}`: "one of ids", `{"filter": {}}`: "filter is empty",
		`{` + ids(one) + `, "after": "x"}`: "after goes with", `{"filter": {"from": "soon"}}`: "filter.from", `{"filter": {"status": ""}}`: "says nothing", `{"group": null}`: "says nothing", `{"ids": []}`: "0 elements",
		`{"filter": {"status": "nowhere"}}`: "no machine has the state", `{"filter": {"status": "error"}, "after": "x"}`: "uuid"} {
		r.ask("POST", "/tasks/retry", body).is(400).says(says)
	}
	r.ask("POST", "/tasks/retry", `{"group": "`+nowhere+`"}`).is(404)
	r.busy("POST", "/tasks/retry", `{`+ids(one)+`}`)
}

func (r *rig) driveEngines() {
	t := r.t
	r.driveSwitch("detector", "/detector", "/detector")
	r.driveSwitch("archiver", "/archive", "/archive/status")
	r.ask("POST", "/detector/pause", "").is(200) // by hand it goes on
	r.ask("POST", "/archive/pause", "").is(200)
	stale := r.task("")
	ledgertest.Age(t, r.pool, uuid.MustParse(stale), 25*time.Hour)
	for _, body := range []string{"", `{"dry_run": false, "batch_size": 10}`} {
		got := r.ask("POST", "/detector/run", body).is(200)
		if got.at("dry_run") != (body == "") || got.at("detected") != 1.0 || got.at("tasks").([]any)[0].(map[string]any)["task_uuid"] != stale {
			t.Errorf("%q: %s", body, got.Raw)
		}
	}
	if got := r.ask("GET", "/tasks/"+stale, "").is(200); got.text("state") != "error" {
		t.Errorf("%s", got.Raw)
	}
	r.ask("POST", "/detector/run", `{"batch_size": 0}`).is(400)

	const many = 251
	for range many {
		ledgertest.Age(t, r.pool, uuid.MustParse(r.task("complete")), 40*24*time.Hour)
	}
	if got := r.ask("POST", "/archive/run", "").is(200); got.at("dry_run") != true || got.at("tasks_archived") != 250.0 {
		t.Errorf("%s", got.Raw)
	}
	moved, after := 0.0, ""
	for range 5 {
		got := r.ask("POST", "/archive/run", `{"dry_run": false, "after": "`+after+`"}`).is(200)
		moved += got.at("tasks_archived").(float64)
		if got.at("next") == nil {
			break
		}
		after = got.text("next")
	}
	if moved != many {
		t.Errorf("%v of %d tasks were archived", moved, many)
	}
	r.ask("POST", "/archive/run", `{"after": "x"}`).is(400)
	r.ask("POST", "/detector/resume", "").is(200)
	r.ask("POST", "/archive/resume", "").is(200)
}

// driveSwitch turns the switch of engines of a kind, whose routes are under a path, and which a GET of another shows.
func (r *rig) driveSwitch(engine, under, shown string) {
	t := r.t
	if got := r.ask("GET", shown, "").is(200); got.at("paused") != false {
		t.Errorf("%s", got.Raw)
	}
	if got := r.ask("POST", under+"/pause", `{"reason": "one", "for_seconds": 60}`).is(200); got.at("paused") != true || got.text("paused_by") == "" || got.at("resume_at") == nil {
		t.Errorf("%s", got.Raw)
	}
	if got := r.ask("POST", under+"/pause", `{"reason": "two"}`).is(200); got.text("pause_reason") != "one; two" || got.at("resume_at") != nil {
		t.Errorf("%s", got.Raw)
	}
	if got := r.ask("POST", under+"/pause", "").is(200); got.text("pause_reason") != "one; two" {
		t.Errorf("%s", got.Raw)
	}
	if got := r.ask("GET", "/status", "").is(200); got.text(engine, "pause_reason") != "one; two" || got.at("detector", "paused") == got.at("archiver", "paused") {
		t.Errorf("%s", got.Raw)
	}
	r.ask("POST", under+"/pause", `{"for_seconds": 0.5}`).is(400)
	for _, want := range []bool{true, false} {
		if got := r.ask("POST", under+"/resume", "").is(200); got.at("resumed") != want || got.at("switch", "paused") != false {
			t.Errorf("%s", got.Raw)
		}
	}
}

// fieldsOf lists the paths of all fields of a value, without fields that users fill.
func fieldsOf(at string, value any) (all []string) {
	switch v := value.(type) {
	case map[string]any:
		for name, inner := range v {
			all = append(all, at+"."+name)
			if !slices.Contains([]string{"context", "metadata", "inputs", "results"}, name) {
				all = append(all, fieldsOf(at+"."+name, inner)...)
			}
		}
	case []any:
		for _, inner := range v {
			all = append(all, fieldsOf(at+"[]", inner)...)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

func (r *rig) driveArchive() {
	t := r.t
	one, two := r.archived(), r.archived()
	step := value[string](r, `select workflow_step_uuid::text from postrider.tasker_workflow_steps_archive where task_uuid = $1 limit 1`, one)
	first := r.ask("GET", "/archive/tasks?limit=1&namespace=default&name=task&final_state=complete", "").is(200)
	if got := first.at("items").([]any); got[0].(map[string]any)["task_uuid"] != two {
		t.Errorf("%s", first.Raw)
	}
	if got := r.ask("GET", "/archive/tasks?limit=1&after="+first.text("next"), "").is(200).at("items").([]any); got[0].(map[string]any)["task_uuid"] != one {
		t.Errorf("%v, want %s", got, one)
	}
	for _, query := range []string{"page=2&page_size=1", "limit=1&offset=1"} {
		if got := r.ask("GET", "/archive/tasks?"+query, "").is(200); got.at("items").([]any)[0].(map[string]any)["task_uuid"] != one {
			t.Errorf("%s: %s", query, got.Raw)
		}
	}
	for _, query := range []string{"final_state=x", "name=x", "after=x", "limit=1000000", "page=2&offset=1", "page=2&after=" + url.QueryEscape(first.text("next"))} {
		r.ask("GET", "/archive/tasks?"+query, "").is(400)
	}
	for _, rest := range []string{"", "/payload", "/workflow_steps", "/workflow_steps/" + step, "/transitions", "/step_transitions"} {
		r.ask("GET", "/archive/tasks/"+one+rest, "").is(200)
		r.ask("GET", "/archive/tasks/"+nowhere+rest, "").is(404)
		r.ask("GET", "/archive/tasks/x"+rest, "").is(400)
	}
	if got := r.ask("PATCH", "/archive/tasks/"+one, `{}`); got.Status != 405 || got.Header.Get("Allow") != "GET" {
		t.Errorf("the archive is only read: %s", got.Raw)
	}
	r.ask("GET", "/archive/statistics", "").is(200)
	r.ask("GET", "/archive/statistics?x=1", "").is(400)
}

func (r *rig) driveTemplates() {
	t := r.t
	const text = "name: greet\nnamespace_name: polite\nversion: 1.0.0\nsteps:\n  - name: hello\n    handler: hello\nenvironments:\n  test:\n    description: of the test\n"
	yaml := []string{"Content-Type", "application/yaml"}
	if got := r.ask("POST", "/templates", text, yaml...).is(201); got.text("template") != "polite/greet@1.0.0" || got.text("outcome") != "new" {
		t.Errorf("%s", got.Raw)
	}
	if got := r.ask("POST", "/templates", text, yaml...).is(200); got.text("outcome") != "same" {
		t.Errorf("%s", got.Raw)
	}
	r.ask("POST", "/templates", `{"name": "greet", "namespace_name": "polite", "version": "1.1.0", "steps": [{"name": "hello", "handler": "hello"}]}`).is(201)
	wrong := r.ask("POST", "/templates", "name: 1\nsteps: x\n", yaml...).is(400)
	if len(wrong.Error.Details) < 10 {
		t.Errorf("no details: %s", wrong.Raw)
	}
	r.ask("POST", "/templates?environment=none", text, yaml...).is(400).says("none")
	r.ask("POST", "/templates", text, "Content-Type", "text/csv").is(415)
	r.ask("GET", "/templates?namespace=polite", "").is(200)
	r.ask("GET", "/templates?x=1", "").is(400)
	if got := r.ask("GET", "/templates/polite/greet", "").is(200); got.text("version") != "1.1.0" {
		t.Errorf("%s", got.Raw)
	}
	r.ask("GET", "/templates/polite/greet?version=1.0.0", "").is(200)
	r.ask("GET", "/templates/polite/greet?version=9", "").is(404)
	r.ask("GET", "/templates/polite/greet?x=1", "").is(400)
}

func (r *rig) driveOutbox() {
	t := r.t
	id := r.pending()
	if got := r.ask("GET", "/outbox/"+id, "").is(200); got.text("status") != "pending" || got.text("key") != "k" {
		t.Errorf("%s", got.Raw)
	}
	first := r.ask("GET", "/outbox?limit=1", "").is(200)
	if first.at("items").([]any)[0].(map[string]any)["id"] != id {
		t.Errorf("%s", first.Raw)
	}
	if got := r.ask("GET", "/outbox?limit=1&after="+first.text("next"), "").is(200).at("items").([]any); got[0].(map[string]any)["id"] == id {
		t.Errorf("%v", got)
	}
	if got := r.ask("GET", "/outbox?status=pending&topic=orders&event_id="+r.ask("GET", "/outbox/"+id, "").text("event_id"), "").is(200).at("items").([]any); len(got) != 1 {
		t.Errorf("%v", got)
	}
	for _, query := range []string{"status=parked", "after=x", "event_id=1", "task_uuid=1", "after=-1"} {
		r.ask("GET", "/outbox?"+query, "").is(400)
	}
	for _, rest := range []string{"", "/payload"} {
		r.ask("GET", "/outbox/999999999"+rest, "").is(404)
		r.ask("GET", "/outbox/x"+rest, "").is(400)
	}
	if got := r.ask("GET", "/outbox/"+id+"/payload", "").is(200); got.at("payload", "value", "a") != 1.0 {
		t.Errorf("%s", got.Raw)
	}
	number, err := strconv.ParseInt(id, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	// One that the log still has before it is given up when the leader reaches it.
	for range 2 {
		if got := r.ask("POST", "/outbox/"+id+"/skip", `{"reason": "no use"}`).is(200); got.text("status") != "pending" {
			t.Errorf("%s", got.Raw)
		}
	}
	if n := value[int](r, `select count(*) from postrider.outbox_skip_request where id = $1 and reason = 'no use'`, number); n != 1 {
		t.Errorf("it was asked for %d times", n)
	}
	outboxtest.Settle(t, r.pool, outboxtest.Scheduled, number)
	if got := r.ask("POST", "/outbox/"+id+"/skip", `{"reason": "no use"}`).is(200); got.text("status") != "failed" || got.text("last_error_message") == "" {
		t.Errorf("%s", got.Raw)
	}
	r.ask("POST", "/outbox/"+id+"/skip", `{"reason": "again"}`).is(409)
	r.ask("POST", "/outbox/"+id+"/skip", `{"reason": ""}`).is(400)
	r.ask("POST", "/outbox/999999999/skip", `{"reason": "x"}`).is(404)

	_, event, hold := r.halted(51)
	holds := r.ask("GET", "/holds?cause=halted&topic=orders", "").is(200).at("items").([]any)
	if !slices.ContainsFunc(holds, func(h any) bool { return fmt.Sprint(h.(map[string]any)["id"]) == hold }) {
		t.Errorf("%v, want %s", holds, hold)
	}
	r.halted(53)
	first = r.ask("GET", "/holds?limit=1", "").is(200)
	if next := r.ask("GET", "/holds?limit=1&after="+url.QueryEscape(first.text("next")), "").is(200).at("items").([]any); len(next) != 1 || fmt.Sprint(next[0].(map[string]any)["id"]) == fmt.Sprint(first.at("items").([]any)[0].(map[string]any)["id"]) {
		t.Errorf("%v after %s", next, first.Raw)
	}
	for _, query := range []string{"cause=x", "after=x", "after=2026-01-01T00:00:00Z_x", "after=_1"} {
		r.ask("GET", "/holds?"+query, "").is(400)
	}
	if got := r.ask("POST", "/outbox/"+event+"/redrive", "").is(200); got.text("status") != "pending" || got.text("state") != "parked" {
		t.Errorf("%s", got.Raw)
	}
	r.ask("POST", "/outbox/"+event+"/redrive", "").is(409)
	r.ask("POST", "/outbox/"+r.pending()+"/redrive", "").is(409).says("it is pending")
	r.ask("POST", "/outbox/999999999/redrive", "").is(404)
	r.ask("POST", "/outbox/x/redrive", "").is(400)
	_, _, hold = r.halted(52)
	if got := r.ask("POST", "/holds/"+hold+"/release", "").is(200); got.at("draining") != true {
		t.Errorf("%s", got.Raw)
	}
	r.ask("POST", "/holds/999999999/release", "").is(404)
	r.ask("POST", "/holds/x/release", "").is(400)
	r.busy("POST", "/holds/"+hold+"/release", "")

	for _, prefix := range []string{"/v1", "/api/v1"} {
		code := "CODE_OF_" + strings.ToUpper(strings.Trim(strings.ReplaceAll(prefix, "/", "_"), "_"))
		breaker := r.breaker(code)
		holds := r.ask("GET", "/holds?cause=circuit_breaker", "").is(200).at("items").([]any)
		if !slices.ContainsFunc(holds, func(h any) bool {
			m := h.(map[string]any)
			return fmt.Sprint(m["id"]) == breaker && m["scope"] == "failure" && m["failure_code"] == code && m["parked"] == 1.0
		}) {
			t.Errorf("%v, want %s", holds, breaker)
		}
		got := r.askAt(prefix, "POST", "/holds/"+breaker+"/give-up", "").is(200)
		if got.text("scope") != "failure" || got.text("topic") != "orders" || got.text("cause") != "circuit_breaker" || got.at("events") != 1.0 {
			t.Errorf("%s", got.Raw)
		}
		holds = r.ask("GET", "/holds?cause=circuit_breaker", "").is(200).at("items").([]any)
		if !slices.ContainsFunc(holds, func(h any) bool {
			m := h.(map[string]any)
			return fmt.Sprint(m["id"]) == breaker && m["asked"] == "give_up"
		}) {
			t.Errorf("%v do not say what was asked of %s", holds, breaker)
		}
		r.busy("POST", "/holds/"+breaker+"/give-up", "")
	}
	r.ask("POST", "/holds/"+hold+"/give-up", "").is(409).says("key")
	r.ask("POST", "/holds/999999999/give-up", "").is(404)
	r.ask("POST", "/holds/x/give-up", "").is(400)

	outboxtest.SettleAll(t, r.pool, outboxtest.Published, outboxtest.Pending, 0)
	r.delivered()
	if got := r.ask("POST", "/outbox/purge", `{"older_than": "`+time.Now().Add(-30*time.Minute).Format(time.RFC3339)+`", "limit": 100000}`).is(200); got.at("purged").(float64) < 1 || got.at("more") != false {
		t.Errorf("%s", got.Raw)
	}
	for _, body := range []string{`{}`, `{"older_than": "2099-01-01"}`, `{"older_than": "2026-01-01", "limit": -1}`, `{"older_than": "2026-01-01", "from": "x"}`} {
		r.ask("POST", "/outbox/purge", body).is(400)
	}
	tx, err := r.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), `select from postrider.outbox_retention where kind = 'published' for update`); err != nil {
		t.Fatal(err)
	}
	r.ask("POST", "/outbox/purge", `{"older_than": "2026-01-01"}`).is(409)
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	// A delivered row that no receipt names: the log does not agree with its receipts.
	lost := r.delivered()
	r.exec(`update postrider.outbox_receipt set events = '{}', first_id = null where events @> $1::bigint`, lost)
	r.ask("POST", "/outbox/purge", `{"older_than": "`+time.Now().Add(-30*time.Minute).Format(time.RFC3339)+`"}`).is(409).says("does not agree with its receipts")
}

func (r *rig) driveAccess() {
	t := r.t
	created := r.ask("POST", "/keys", `{"name": "ada", "scopes": ["read"], "expires_in_seconds": 60}`).is(201)
	r.ask("GET", "/dlq", "", "X-API-Key", created.text("token")).is(200)
	for _, body := range []string{`{}`, `{"name": "x", "scopes": ["root"]}`, `{"name": "x", "scopes": []}`, `{"name": "x", "scopes": ["read"], "expires_in_seconds": -1}`} {
		r.ask("POST", "/keys", body).is(400)
	}
	r.ask("POST", "/keys", `{"name": "x", "scopes": ["read"]}`, "Idempotency-Key", "once").is(400).says("Idempotency-Key")
	r.ask("POST", "/keys", `{"name": "y", "scopes": ["read"]}`, "Idempotency-Key", r.begun("POST", "/keys", `{"name": "x", "scopes": ["read"]}`)).is(422)
	me := r.ask("GET", "/me", "").is(200)
	if me.text("name") != "key admin" || me.text("id") == "" || fmt.Sprint(me.at("scopes")) != "[admin]" {
		t.Errorf("%s", me.Raw)
	}
	r.ask("GET", "/me?x=1", "").is(400)
	listed := r.ask("GET", "/keys", "").is(200)
	if strings.Contains(listed.Raw, created.text("token")) || !strings.Contains(listed.Raw, created.text("id")) {
		t.Error("the list of keys has no key, or a secret")
	}
	r.ask("GET", "/keys?x=1", "").is(400)
	if got := r.ask("DELETE", "/keys/"+created.text("id"), "").is(200); got.at("revoked_at") == nil {
		t.Errorf("%s", got.Raw)
	}
	r.ask("GET", "/dlq", "", "X-API-Key", created.text("token")).is(401)
	r.ask("DELETE", "/keys/nobody", "").is(404)
	r.ask("DELETE", "/keys/nobody?x=1", "").is(400)
	first := r.ask("GET", "/audit?limit=1&action=key.revoke&target_type=key&target_id="+created.text("id")+"&actor=key%20admin&from=2020-01-01&to=2099-01-01", "").is(200)
	if rows := first.at("items").([]any); len(rows) != 1 || first.at("next") != nil {
		t.Errorf("%s", first.Raw)
	}
	page := r.ask("GET", "/audit?limit=1", "").is(200)
	r.ask("GET", "/audit?after="+page.text("next"), "").is(200)
	r.ask("GET", "/audit?from=x", "").is(400)
	r.ask("GET", "/audit?from=0001-01-01", "").is(400) // it would be no bound
}

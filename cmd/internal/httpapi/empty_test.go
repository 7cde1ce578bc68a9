package httpapi_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/uuid"
)

// TestWhatIsThereAndEmptyIsRefused: a program that has no value for a filter must not list, and not treat, everything.
func TestWhatIsThereAndEmptyIsRefused(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	for n := range 3 {
		r.die(n + 1)
	}
	none := uuid.Nil.String()
	for _, o := range r.spec.operations {
		path := strings.NewReplacer("/outbox/"+nowhere, "/outbox/1", "/holds/"+nowhere, "/holds/1").Replace(sample(o))
		for _, p := range o.params {
			r.ask(o.method, path+"?"+p+"=", wholesome[o.id]).is(400).says("parameter " + p + " is there and empty")
		}
	}
	for _, path := range []string{"/dlq?group=", "/outbox?event_id=", "/outbox?task_uuid=", "/tasks?after=", "/operations?after="} {
		r.ask("GET", path+none, "").is(400).says("not all zeros")
	}
	before := r.digest()
	plan := func(scope string) string {
		return `{"kind": "purge", "name": "n", "options": {"release_keys": true}, "scope": ` + scope + `}`
	}
	type request struct{ path, body, field string }
	bad := []request{
		{"/operations", plan(`{"group": "` + none + `", "filter": {"topic": "orders"}}`), "scope.group"},
		{"/operations", plan(`{"group": null, "filter": {"topic": "orders"}}`), "scope.group"},
		{"/operations", `{"Kind": "purge", "Name": "n", "Scope": {"Filter": {"Topic": ""}}}`, "scope.filter.Topic"},
	}
	for _, empty := range []string{`""`, `null`, `"` + none + `"`} {
		bad = append(bad, request{"/dlq/purge", fmt.Sprintf(`{"older_than": "2099-01-01", "reason": %s}`, empty), "reason"})
		for _, field := range []string{"resolution_status", "dlq_reason", "subject_type", "subject_id", "topic", "error_code", "group", "assignee", "reason", "from", "to"} {
			if empty == `""` && field == "group" { // no uuid at all
				continue
			}
			bad = append(bad, request{"/operations", plan(fmt.Sprintf(`{"filter": {"topic": "orders", %q: %s}}`, field, empty)), "scope.filter." + field})
		}
	}
	for _, q := range bad {
		r.ask("POST", q.path, q.body).is(400).says("field "+q.field+" of the body", "says nothing")
	}
	r.ask("POST", "/operations", plan(`{"filter": {"group": ""}}`)).is(400)
	if after := r.digest(); after != before {
		t.Errorf("a refusal changed something:\n%s", difference(before, after))
	}
	// What says something, and nothing at all, count as before.
	r.ask("POST", "/operations", plan(`{"filter": {}}`)).is(201)
	if got := r.ask("POST", "/dlq/purge", `{"older_than": "2099-01-01", "reason": "no such"}`).is(200); got.at("purged") != 0.0 {
		t.Errorf("%s", got.Raw)
	}
}

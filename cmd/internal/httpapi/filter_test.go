package httpapi_test

import "testing"

// TestFiltersAreReadInOneWay: the same mistake is told of a parameter and of a body, by its name, and of many always the
// first.
func TestFiltersAreReadInOneWay(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	for field, c := range map[string]struct{ text, want string }{
		"resolution_status": {"open", "one of pending, manually_resolved"},
		"dlq_reason":        {"none", "one of staleness_timeout"},
		"subject_type":      {"person", "one of event, task, record"},
		"source":            {"Orders", "the name of a source"},
		"group":             {"x", "a uuid"},
		"from":              {"yesterday", "a date (2026-01-31)"},
		"to":                {"36h", "a date (2026-01-31)"},
	} {
		r.ask("GET", "/dlq?"+field+"="+c.text, "").is(400).says("parameter " + field + ` is "` + c.text + `"; it must be ` + c.want)
		r.ask("POST", "/operations", `{"kind": "redrive", "name": "n", "scope": {"filter": {"`+field+`": "`+c.text+`"}}}`).is(400).
			says("scope.filter." + field + ` is "` + c.text + `"; it must be ` + c.want)
	}
	for range 20 {
		r.ask("GET", "/dlq?to=x&topic=&dlq_reason=x&assignee=", "").is(400).says("parameter topic is there and empty")
		r.ask("GET", "/dlq?to=x&subject_type=x&dlq_reason=x&from=x", "").is(400).says("parameter dlq_reason is")
		r.ask("GET", "/groups?source=Orders&state=muted", "").is(400).says(`parameter source is "Orders"; it must be the name of a source`)
		r.ask("GET", "/groups?text=&assignee=&topic=", "").is(400).says("parameter topic is there and empty")
	}
}

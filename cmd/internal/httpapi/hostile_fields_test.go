package httpapi_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
)

// wholesome are bodies that would do, if their ids were known: one field of each is made nasty at a time.
var wholesome = map[string]string{
	"retryTasks":      `{"ids": ["` + nowhere + `"]}`,
	"releaseKeys":     `{"ids": ["` + nowhere + `"]}`,
	"requeue":         `{"ids": ["` + nowhere + `"], "edit": {"payload_text": "x"}}`,
	"purgeEntries":    `{"ids": ["` + nowhere + `"]}`,
	"changeEntry":     `{"notes": "x"}`,
	"addEntryComment": `{"text": "x"}`,
	"addGroupComment": `{"text": "x"}`,
	"changeGroup":     `{"note": "x"}`,
	"resolveGroup":    `{"resolution_notes": "x"}`,
	"mergeGroup":      `{"into": "` + nowhere + `"}`,
	"splitGroup":      `{"ids": ["` + nowhere + `"]}`,
	"planOperation":   `{"kind": "redrive", "name": "n", "scope": {"filter": {"topic": "nobody.has.it"}}}`,
	"startOperation":  `{"reason": "x"}`,
	"pauseOperation":  `{"reason": "x"}`,
	"resumeOperation": `{"reason": "x"}`,
	"abortOperation":  `{"reason": "x"}`,
	"rejoinSource":    `{"without_letters": true}`,
	"createTask":      `{"namespace_name": "default", "task_name": "nothing of the kind"}`,
	"actOnStep":       `{"action": "retry"}`,
	"deadLetterTask":  `{"reason": "x"}`,
	"purgeDelivered":  `{"older_than": "2020-01-01"}`,
	"skipEvent":       `{"reason": "x"}`,
	"unflagTask":      `{"notes": "x"}`,
	// Refused as they are: what they do needs no id.
	"pauseDetector": `{"for_seconds": 0.5}`,
	"pauseArchiver": `{"for_seconds": 0.5}`,
	"runDetector":   `{"batch_size": 0}`,
	"runArchive":    `{"after": "x"}`,
	"createKey":     `{"name": "x", "scopes": ["read"]}`,
}

// nastyJSON are values of other types than the field has, whichever that is.
var nastyJSON = []string{`null`, `true`, `-1`, `1e400`, `99999999999999999999`, `[]`, `[[[]]]`, `{}`, `{"": {"": null}}`, `"` + strings.Repeat("x", 20_000) + `"`, strings.Repeat("[", 2000) + strings.Repeat("]", 2000)}

// set returns a body with a field made anew.
func set(body map[string]any, path []string, v json.RawMessage) map[string]any {
	if body == nil {
		body = map[string]any{}
	}
	if len(path) == 1 {
		body[path[0]] = v
		return body
	}
	inner, _ := body[path[0]].(map[string]any)
	body[path[0]] = set(inner, path[1:], v)
	return body
}

// hostile is a request with one nasty value.
type hostile struct{ method, path, body string }

// requests are all that can be said wrong in one thing: each parameter of the query, of each part of the path, and each
// field of the body, with each of the values.
func (o *operation) requests(t *testing.T) (all []hostile) {
	t.Helper()
	number := strings.NewReplacer("/outbox/"+nowhere, "/outbox/1", "/holds/"+nowhere, "/holds/1")
	clean := number.Replace(sample(o))
	for _, v := range nasty {
		for _, p := range o.params {
			all = append(all, hostile{o.method, clean + "?" + url.Values{p: {v}}.Encode(), ""})
		}
		for _, part := range []string{"{id}", "{step}", "{comment}", "{namespace}", "{name}"} {
			if strings.Contains(o.path, part) && v != "" && v != nowhere {
				path := strings.Replace(o.path, part, url.PathEscape(v), 1)
				all = append(all, hostile{o.method, number.Replace(sample(&operation{path: path})), wholesome[o.id]})
			}
		}
	}
	values := slices.Clone(nastyJSON)
	for _, v := range nasty {
		raw, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		values = append(values, string(raw), "["+string(raw)+"]")
	}
	for _, path := range o.fields {
		for _, v := range values {
			body := map[string]any{}
			if text := wholesome[o.id]; text != "" {
				if err := json.Unmarshal([]byte(text), &body); err != nil {
					t.Fatal(err)
				}
			}
			raw, err := json.Marshal(set(body, path, json.RawMessage(v)))
			if err != nil {
				t.Fatalf("%s: %v", v, err)
			}
			all = append(all, hostile{o.method, clean, string(raw)})
		}
	}
	for _, v := range nasty {
		all = append(all, hostile{o.method, clean, v})
	}
	return all
}

// TestEveryParameterAndField: each has each nasty value once. No answer is the server's fault, each is an envelope, and
// a refused request changes nothing and leaves no row in the audit log.
func TestEveryParameterAndField(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	r.furnish()
	r.die(1)
	kinds := 0
	for _, o := range r.spec.operations {
		if o.body && len(o.fields) > 0 && wholesome[o.id] == "" && o.id != "cancelTask" && o.id != "applyTemplate" {
			t.Errorf("%s has no wholesome body here", o.id)
		}
		all := o.requests(t)
		kinds += len(o.params) + len(o.fields)
		before, audited := r.digest(), value[int](r, `select count(*) from postrider.access_audit`)
		statuses := map[int]int{}
		var mu sync.Mutex
		var wg sync.WaitGroup
		for part := range slices.Chunk(all, len(all)/4+1) {
			wg.Go(func() {
				for _, q := range part {
					status, err := r.throw(t.Context(), q.method, q.path, q.body, nil)
					if err != nil || status == 0 {
						t.Errorf("%s %s %.300s: %d, %v", q.method, q.path, q.body, status, err)
					}
					mu.Lock()
					statuses[status]++
					mu.Unlock()
				}
			})
		}
		wg.Wait()
		accepted := statuses[http.StatusOK] + statuses[http.StatusCreated]
		changes := o.method != http.MethodGet
		if n := value[int](r, `select count(*) from postrider.access_audit`) - audited; n > accepted || !changes && n != 0 {
			t.Errorf("%s: %d rows in the audit log, %d were accepted: %v", o.id, n, accepted, statuses)
		}
		if after := r.digest(); (accepted == 0 || !changes) && after != before {
			t.Errorf("%s: all were refused, and something changed:\n%s", o.id, difference(before, after))
		}
		if len(o.params)+len(o.fields) > 0 && statuses[http.StatusBadRequest] == 0 {
			t.Errorf("%s refused nothing: %v", o.id, statuses)
		}
	}
	if kinds < 100 {
		t.Errorf("only %d parameters and fields: %v", kinds, slices.Sorted(maps.Keys(wholesome)))
	}
	r.ask("GET", "/status", "").is(200)
	if n := value[int](r, `select count(*) from pg_class where relnamespace = 'postrider'::regnamespace and relname = 'dlq_entry'`); n != 1 {
		t.Error("a table is gone")
	}
}

// TestRepeatedAndForeignParameters: a filter that is given twice, misspelt or to an operation without it must not select
// everything.
func TestRepeatedAndForeignParameters(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	for _, o := range r.spec.operations {
		path := strings.NewReplacer("/outbox/"+nowhere, "/outbox/1", "/holds/"+nowhere, "/holds/1").Replace(sample(o))
		for _, query := range []string{"x=1", "%00=1", "a%0d%0aX-Injected:%201=1", "limit=1&limit=2&Limit=3", "%zz", "a;b"} {
			if got := r.ask(o.method, path+"?"+query, wholesome[o.id]); got.Status != http.StatusBadRequest {
				t.Errorf("%s?%s: %s", o.id, query, got.Raw)
			}
		}
		for _, p := range o.params {
			r.ask(o.method, path+"?"+p+"=1&"+p+"=2", "").is(400).says(fmt.Sprintf("parameter %s is given 2 times", p))
		}
	}
}

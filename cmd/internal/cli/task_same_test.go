package cli

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"maps"
	"net/http/httptest"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"go.yaml.in/yaml/v3"

	"github.com/postrider/postrider/cmd/internal/access"
	"github.com/postrider/postrider/cmd/internal/app"
	"github.com/postrider/postrider/cmd/internal/config"
	"github.com/postrider/postrider/cmd/internal/httpapi"
	"github.com/postrider/postrider/internal/tasks/ledgertest"
	"github.com/postrider/postrider/internal/testenv/pgtest"
)

// faces are the commands and the API on one database.
type faces struct {
	*testing.T
	db   *pgtest.DB
	pool *pgxpool.Pool
	api  *httpapi.API
	// token is of a key that may do everything.
	token string
}

// newFaces have tasks, templates, an archive, events, holds, keys and an audit log.
func newFaces(t *testing.T) *faces {
	t.Helper()
	db, pool := shop(t)
	c, err := config.Load(config.From{Flags: map[string]string{"http.requests_per_second": "0"}})
	if err != nil {
		t.Fatal(err)
	}
	services, err := app.NewServices(pool, c)
	if err != nil {
		t.Fatal(err)
	}
	f := &faces{T: t, db: db, pool: pool}
	if f.api, err = services.API(c, slog.New(slog.DiscardHandler)); err != nil {
		t.Fatal(err)
	}
	ctx := access.WithActor(t.Context(), access.Actor{Name: "test"})
	if _, f.token, err = services.Access.Create(ctx, access.NewKey{Name: "ada", Scopes: []access.Scope{access.Admin}}); err != nil {
		t.Fatal(err)
	}
	for range 2 { // archived one after the other
		ended := createOrder(t, db, "--priority", "3")
		succeed(t, db, "task", "cancel", ended)
		ledgertest.Age(t, pool, uuid.MustParse(ended), 40*24*time.Hour)
		pgtest.Exec(t, pool, `select postrider.archive_completed_tasks(p_dry_run => false, p_archive_cancelled => true)`)
	}
	pgtest.Exec(t, pool, `insert into postrider.outbox_event (topic, key, available_at) values ('odd', convert_to(E'k\x1b[2J', 'UTF8'), now() + interval '1 day'), ('odd', null, now() + interval '1 day')`)
	pgtest.Exec(t, pool, `insert into postrider.outbox_hold (scope, topic, key, partition, partitions, code, cause, error_code, error, event_id, held_at, next_probe_at) values
		('key', 'orders', convert_to(E'k\x1b[2J', 'UTF8'), null, null, null, 'halted', 'MESSAGE_TOO_LARGE', E'too\x07 large', gen_random_uuid(), now() - interval '3 hours', 'infinity'),
		('partition', 'bills', null, 3, 4, null, 'infrastructure', 'LEADER_NOT_AVAILABLE', null, null, now() - interval '2 hours', now() + interval '1 day'),
		('failure', 'stock', null, null, null, 'X', 'circuit_breaker', 'X', null, null, now() - interval '1 hour', now() + interval '1 hour')`)
	succeed(t, db, "task", "detector", "pause", "--by", "kim", "--for", "2h")
	succeed(t, db, "archive", "pause", "--by", "kim")
	return f
}

// asks is a request to the API, and its data.
func (f *faces) asks(method, path, body string) any {
	f.Helper()
	r := httptest.NewRequestWithContext(f.Context(), method, "/v1"+path, strings.NewReader(body))
	r.Header.Set("X-API-Key", f.token)
	r.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	f.api.ServeHTTP(w, r)
	answer := decode[struct {
		OK   bool `json:"ok"`
		Data any  `json:"data"`
	}](f.T, w.Body.String())
	if !answer.OK {
		f.Fatalf("%s %s: %s", method, path, w.Body)
	}
	return answer.Data
}

// prints is what a command prints as JSON. As YAML it must print the same.
func (f *faces) prints(command string) any {
	f.Helper()
	words := strings.Fields(command)
	fromJSON := decode[any](f.T, succeed(f.T, f.db, append(words, "-o", "json")...))
	var fromYAML any
	text := succeed(f.T, f.db, append(words, "-o", "yaml")...)
	if err := yaml.Unmarshal([]byte(text), &fromYAML); err != nil {
		f.Fatalf("%s: %v in\n%s", command, err, text)
	}
	if a, b := encoded(f.T, fromJSON), encoded(f.T, fromYAML); !bytes.Equal(a, b) {
		f.Errorf("%s prints as JSON and as YAML\n%s\n%s", command, a, b)
	}
	return fromJSON
}

// same fails the test unless a command prints what the API serves at a path.
func (f *faces) same(command, path string) any {
	f.Helper()
	served, printed := f.asks("GET", path, ""), f.prints(command)
	f.equal(command+" and "+path, printed, served)
	return printed
}

func (f *faces) equal(what string, printed, served any) {
	f.Helper()
	if !reflect.DeepEqual(printed, served) {
		f.Errorf("%s: the command prints, and the API serves\n%s\n%s", what, encoded(f.T, printed), encoded(f.T, served))
	}
}

func encoded(t *testing.T, v any) []byte {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// member is a part of a value that JSON had.
func member(v any, path ...string) any {
	for _, name := range path {
		object, _ := v.(map[string]any)
		v = object[name]
	}
	return v
}

// pages are the first two pages of a list, of as many things as both have by their flags and parameters.
func (f *faces) pages(command, path string) {
	f.Helper()
	first := f.same(command, path)
	items, _ := member(first, "items").([]any)
	next, more := member(first, "next").(string)
	if len(items) == 0 || !more {
		f.Errorf("%s has no second page: %s", command, encoded(f.T, first))
		return
	}
	second := f.same(command+" --after "+next, path+"&after="+url.QueryEscape(next))
	if items, _ := member(second, "items").([]any); len(items) == 0 || reflect.DeepEqual(items, member(first, "items")) {
		f.Errorf("the second page of %s is %s", command, encoded(f.T, second))
	}
}

// TestTaskCommandsPrintWhatTheAPIServes: what a command prints as JSON, and as YAML, is the data of the API's answer.
func TestTaskCommandsPrintWhatTheAPIServes(t *testing.T) {
	t.Parallel()
	f := newFaces(t)
	treated := createOrder(t, f.db, "--idempotency-key", "k")
	succeed(t, f.db, "task", "step", "complete", treated, "reserve", "--notes", "by phone", "--actor", "kim", "--results", `{"shelf": 3}`)
	pgtest.Exec(t, f.pool, `insert into postrider.tasker_undelivered_events (event_id, episode, task_uuid, topic, attempts, error_code, outcome, detail)
		values (gen_random_uuid(), 1, $1, 'documents', 3, 'INVALID_RECORD', 'refused', 'the task was in dead_letter already')`, uuid.MustParse(treated))
	ledgertest.Put(t, f.pool, uuid.MustParse(createOrder(t, f.db)), "error")
	createOrder(t, f.db)

	f.pages("task list --limit 2", "/tasks?limit=2")
	f.same("task list", "/tasks")
	f.same("task list --state error --namespace shop --name order --template-version 1.0.0", "/tasks?status=error&namespace=shop&name=order&version=1.0.0")
	f.same("task list --state evaluating_results", "/tasks?status=evaluating_results")
	f.same("task list --limit 1 --offset 1", "/tasks?limit=1&offset=1")
	whole := f.same("task show "+treated, "/tasks/"+treated+"/payload")
	if events, _ := member(whole, "undelivered_events").([]any); len(events) != 1 {
		t.Errorf("the task has the undelivered events %v", events)
	}
	f.equal("task show", member(whole, "task"), f.asks("GET", "/tasks/"+treated, ""))
	f.same("task steps "+treated, "/tasks/"+treated+"/workflow_steps")
	f.same("task transitions "+treated, "/tasks/"+treated+"/transitions")
	f.same("task transitions "+treated+" --steps", "/tasks/"+treated+"/step_transitions")

	f.pages("archive list --limit 1", "/archive/tasks?limit=1")
	archived := f.same("archive list --final-state cancelled --namespace shop --name order", "/archive/tasks?final_state=cancelled&namespace=shop&name=order")
	for _, item := range member(archived, "items").([]any) {
		id := member(item, "task_uuid").(string)
		old := f.same("archive show "+id, "/archive/tasks/"+id+"/payload")
		f.equal("archive show", member(old, "task"), f.asks("GET", "/archive/tasks/"+id, ""))
		f.equal("task show of the archive", f.prints("task show "+id), old)
		for _, part := range []string{"workflow_steps", "transitions", "step_transitions"} {
			f.equal("archive show, "+part, member(old, part), member(f.asks("GET", "/archive/tasks/"+id+"/"+part, ""), "items"))
		}
	}
	f.same("archive stats", "/archive/statistics")
	f.equal("archive status", f.same("archive status", "/archive/status"), member(f.asks("GET", "/status", ""), "archiver"))

	f.same("template list", "/templates")
	f.same("template list --namespace nowhere", "/templates?namespace=nowhere")
	f.same("template show shop/order", "/templates/shop/order")
	f.same("template show shop/order@1.0.0", "/templates/shop/order?version=1.0.0")
	f.equal("task detector status", f.prints("task detector status"), member(f.asks("GET", "/status", ""), "detector"))
}

// TestOutboxCommandsPrintWhatTheAPIServes is TestTaskCommandsPrintWhatTheAPIServes, of events, holds, keys and the audit
// log.
func TestOutboxCommandsPrintWhatTheAPIServes(t *testing.T) {
	t.Parallel()
	f := newFaces(t)
	f.pages("outbox list --limit 1 --topic odd", "/outbox?limit=1&topic=odd")
	f.pages("outbox list --limit 3", "/outbox?limit=3")
	f.same("outbox list --status pending", "/outbox?status=pending")
	odd := f.same("outbox list --topic odd", "/outbox?topic=odd")
	event := member(odd, "items").([]any)[0]
	one := f.same("outbox list --event "+member(event, "event_id").(string), "/outbox?event_id="+member(event, "event_id").(string))
	f.equal("an event", member(one, "items").([]any)[0], f.asks("GET", "/outbox/"+member(event, "id").(string), ""))

	f.pages("outbox holds --limit 2", "/holds?limit=2")
	f.same("outbox holds --topic bills --cause infrastructure", "/holds?topic=bills&cause=infrastructure")
	f.same("outbox holds --topic nowhere", "/holds?topic=nowhere")
	pgtest.Exec(t, f.pool, `update postrider.outbox_event set available_at = now() + interval '1 day'`) // the age of what is due grows
	f.equal("outbox status", f.prints("outbox status"), member(f.asks("GET", "/status", ""), "outbox"))

	f.pages("audit list --limit 2", "/audit?limit=2")
	f.same("audit list --action detector.pause", "/audit?action=detector.pause")
	f.same("audit list --action nothing", "/audit?action=nothing")
	f.same("apikey list", "/keys")
}

// TestChangesPrintWhatTheAPIServes: what a command prints about a change has the fields of the API's answer.
func TestChangesPrintWhatTheAPIServes(t *testing.T) {
	t.Parallel()
	f := newFaces(t)
	failed := func() string {
		id := createOrder(t, f.db)
		ledgertest.Put(t, f.pool, uuid.MustParse(id), "error")
		return id
	}
	run := func(words ...string) any {
		t.Helper()
		return decode[any](t, succeed(t, f.db, append(words, "-o", "json")...))
	}
	key := run("apikey", "create", "--name", "x", "--scopes", "read")
	file := written(t, map[string]string{"t.yaml": "name: greet\nnamespace_name: polite\nversion: 1.0.0\n"})
	for what, c := range map[string]struct{ printed, served any }{
		"a task": {run("task", "create", "shop/order", "--context", `{"id": 7}`),
			f.asks("POST", "/tasks", `{"namespace_name": "shop", "task_name": "order", "context": {"id": 7}}`)},
		"a retry":       {run("task", "retry", failed()), f.asks("POST", "/tasks/"+failed()+"/retry", "")},
		"a new key":     {key, f.asks("POST", "/keys", `{"name": "x", "scopes": ["read"]}`)},
		"a revoked key": {run("apikey", "revoke", member(key, "id").(string)), f.asks("DELETE", "/keys/"+member(key, "id").(string), "")},
		"a template": {member(run("template", "apply", file), "items").([]any)[0],
			f.asks("POST", "/templates", `{"name": "greet", "namespace_name": "polite", "version": "1.1.0"}`)},
		"a purge": {run("outbox", "purge", "--older-than", "1d", "--yes"), f.asks("POST", "/outbox/purge", `{"older_than": "2020-01-01"}`)},
	} {
		names := func(v any) []string {
			object, _ := v.(map[string]any)
			return slices.Sorted(maps.Keys(object))
		}
		if printed, served := names(c.printed), names(c.served); len(printed) < 2 || !slices.Equal(printed, served) {
			t.Errorf("%s has the fields %v as the command prints it, and %v as the API serves it", what, printed, served)
		}
	}
}

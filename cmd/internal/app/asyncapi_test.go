package app

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.yaml.in/yaml/v3"

	"github.com/postrider/postrider/internal/tasks/ledger"
	"github.com/postrider/postrider/internal/tasks/ledgertest"
	"github.com/postrider/postrider/internal/tasks/postgres"
	"github.com/postrider/postrider/internal/testenv/kafkatest"
	"github.com/postrider/postrider/internal/testenv/pgtest"
	"github.com/postrider/postrider/message"
)

// catalogue is the AsyncAPI document: of each message, its schemas.
type catalogue struct {
	document map[string]any
	headers  map[string]*jsonschema.Schema
	payloads map[string]*jsonschema.Schema
	types    map[string]string // message by ce_type, where that is one
}

func readCatalogue(t *testing.T) *catalogue {
	t.Helper()
	var text any
	if err := yaml.Unmarshal([]byte(ledger.AsyncAPI()), &text); err != nil {
		t.Fatalf("asyncapi.yaml: %v", err)
	}
	raw, err := json.Marshal(text)
	if err != nil {
		t.Fatal(err)
	}
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	compiler := jsonschema.NewCompiler()
	compiler.DefaultDraft(jsonschema.Draft7) // what AsyncAPI's own schemas are a superset of
	compiler.AssertFormat()
	if err := compiler.AddResource("asyncapi.json", document); err != nil {
		t.Fatal(err)
	}
	c := &catalogue{document: document.(map[string]any), headers: map[string]*jsonschema.Schema{}, payloads: map[string]*jsonschema.Schema{}, types: map[string]string{}}
	messages := c.at(t, "components", "messages")
	for name := range messages {
		for part, schemas := range map[string]map[string]*jsonschema.Schema{"headers": c.headers, "payload": c.payloads} {
			schemas[name], err = compiler.Compile("asyncapi.json#/components/messages/" + name + "/" + part)
			if err != nil {
				t.Fatalf("%s of %s: %v", part, name, err)
			}
		}
		if kind := constantType(messages[name]); kind != "" {
			c.types[kind] = name
		}
	}
	return c
}

// at walks down the document.
func (c *catalogue) at(t *testing.T, path ...string) map[string]any {
	t.Helper()
	here := c.document
	for _, p := range path {
		next, ok := here[p].(map[string]any)
		if !ok {
			t.Fatalf("asyncapi.yaml has no object at %s", strings.Join(path, "."))
		}
		here = next
	}
	return here
}

// constantType finds the ce_type that a message's header schema demands.
func constantType(message any) string {
	var found struct {
		Headers struct {
			AllOf []struct {
				Properties struct {
					Type struct{ Const string } `json:"ce_type"`
				}
			}
		}
	}
	raw, err := json.Marshal(message)
	if err != nil || json.Unmarshal(raw, &found) != nil {
		return ""
	}
	for _, one := range found.Headers.AllOf {
		if one.Properties.Type.Const != "" {
			return one.Properties.Type.Const
		}
	}
	return ""
}

// messageOf tells which message of the catalogue a record is; empty for none.
func (c *catalogue) messageOf(headers map[string]any, topic string) string {
	if _, ours := headers[message.HeaderLetterVersion]; ours {
		return "eventDeadLettered"
	}
	kind, _ := headers["ce_type"].(string)
	switch {
	case c.types[kind] != "":
		return c.types[kind]
	case kind == "postrider.task.task_staleness_detected.v1": // the default of its setting
		return "taskStale"
	case topic == "documents":
		return "taskStart"
	}
	return ""
}

// check validates a record and returns which message it is.
func (c *catalogue) check(t *testing.T, r *kgo.Record) string {
	t.Helper()
	headers := map[string]any{}
	for _, h := range r.Headers {
		headers[h.Key] = string(h.Value)
	}
	name := c.messageOf(headers, r.Topic)
	if name == "" {
		t.Errorf("a record of %s is no message of the catalogue: %v %s", r.Topic, headers, r.Value)
		return ""
	}
	if err := c.headers[name].Validate(headers); err != nil {
		t.Errorf("the headers of a %s: %v\n%v", name, err, headers)
	}
	if name == "eventDeadLettered" {
		return name
	}
	payload, err := jsonschema.UnmarshalJSON(bytes.NewReader(r.Value))
	if err != nil {
		t.Errorf("the value of a %s: %v", name, err)
		return name
	}
	if err := c.payloads[name].Validate(payload); err != nil {
		t.Errorf("the payload of a %s: %v\n%s", name, err, r.Value)
	}
	if body := payload.(map[string]any); body["task_uuid"] != string(r.Key) || body["task_uuid"] != headers["ce_subject"] {
		t.Errorf("a %s of task %v has the key %s and the subject %v", name, body["task_uuid"], r.Key, headers["ce_subject"])
	}
	return name
}

// lives makes tasks do all that is told of.
func lives(t *testing.T, pool *pgxpool.Pool) {
	t.Helper()
	l := postgres.On(pool)
	must := func(_ any, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	exec := func(sql string, args ...any) {
		t.Helper()
		must(pool.Exec(t.Context(), sql, args...))
	}
	ledgertest.Apply(t, pool, ledgertest.Template{Configuration: `{"steps": [{"name": "a"}, {"name": "b", "dependencies": ["a"], "max_retries": 0}]}`})
	ledgertest.AddMachine(t, pool, ledgertest.Protocol())
	ledgertest.Apply(t, pool, ledgertest.Template{Name: "protocol", Machine: "protocol", Configuration: `{"start_event": {"topic": "documents", "type": "document.uploaded"}}`})

	failed := ledgertest.Create(t, pool, ledgertest.New{Context: `{"order": 7}`, Priority: 3})
	steps := ledgertest.Steps(t, pool, failed)
	must(l.StartStep(t.Context(), steps["a"].UUID, "worker-1"))
	must(nil, l.CompleteStep(t.Context(), steps["a"].UUID, json.RawMessage(`{"ok": true}`), 1))
	must(l.StartStep(t.Context(), steps["b"].UUID, ""))
	must(l.FailStep(t.Context(), steps["b"].UUID, ledger.Failure{Error: "no luck"}))
	must(l.Retry(t.Context(), failed, "ann"))
	must(l.Cancel(t.Context(), failed, "ann", "not needed"))

	started := ledgertest.Create(t, pool, ledgertest.New{Name: "protocol", Context: `[1]`})
	ledgertest.Put(t, pool, started, "dead_letter")
	must(l.Retry(t.Context(), started, ""))

	for _, task := range []uuid.UUID{ledgertest.Create(t, pool, ledgertest.New{}), ledgertest.Create(t, pool, ledgertest.New{Name: "protocol"})} {
		ledgertest.Age(t, pool, task, 25*time.Hour)
	}
	exec(`select postrider.detect_and_transition_stale_tasks(false)`)
	// The machine of the one has no failed state: it was left in place.
	exec(`select postrider.unflag_task(task_uuid, 'ann') from postrider.tasker_tasks where stale_flagged_at is not null`)
	ledgertest.Create(t, pool, ledgertest.New{Steps: `[{"name": "x", "dependencies": ["y"]}, {"name": "y", "dependencies": ["x"]}]`})
	must(l.DeadLetter(t.Context(), ledgertest.Create(t, pool, ledgertest.New{}), "the customer called", "ann"))
	must(l.DeadLetter(t.Context(), ledgertest.Create(t, pool, ledgertest.New{Context: fmt.Sprintf(`{"scan": "%s"}`, strings.Repeat("x", 1<<20))}), "too much", ""))
	must(l.DeadLetter(t.Context(), ledgertest.Create(t, pool, ledgertest.New{Steps: `[]`, Context: fmt.Sprintf(`{"scan": "%s"}`, strings.Repeat("x", 1<<20))}), "too much, without steps", ""))
	// A record that would be too large leaves parts out, and says so.
	ledgertest.Create(t, pool, ledgertest.New{Name: "protocol", Context: fmt.Sprintf(`{"scan": "%s"}`, strings.Repeat("x", 1<<20))})
	must(l.Transition(t.Context(), ledgertest.Create(t, pool, ledgertest.New{}), "pending", "initializing", json.RawMessage(fmt.Sprintf(`{"kept": "%s"}`, strings.Repeat("x", 1<<20)))))
	exec(`insert into postrider.outbox_event (topic, key, payload, task_uuid) values ('documents', 'k', convert_to(repeat('x', 2000000), 'UTF8'), $1)`, started)
	exec(`insert into postrider.outbox_event (topic, payload, headers) values ('documents', null, '{"h": 5}')`)
}

// Every record that the ledger and the relay write by themselves is as the catalogue says, and every message of
// the catalogue is written.
func TestRecordsAreAsTheCatalogueSays(t *testing.T) {
	t.Parallel()
	c := readCatalogue(t)
	db, broker := pgtest.New(t), kafkatest.Kfake(t)
	topics := []string{"postrider.lifecycle", "postrider.dlq", "documents"}
	for _, topic := range topics {
		broker.CreateTopic(t, topic, 2, nil)
	}
	pool := db.Pool(t)
	lives(t, pool)
	missing := map[string]bool{}
	for name := range c.payloads {
		missing[name] = true
	}
	var archives bool
	if err := pool.QueryRow(t.Context(), `select exists (select from pg_proc where proname = 'archive_completed_tasks')`).Scan(&archives); err != nil {
		t.Fatal(err)
	}
	if archives {
		old := ledgertest.Create(t, pool, ledgertest.New{})
		ledgertest.Put(t, pool, old, "complete")
		ledgertest.Age(t, pool, old, 60*24*time.Hour)
		if _, err := pool.Exec(t.Context(), `select postrider.archive_completed_tasks(30, 100, false)`); err != nil {
			t.Fatal(err)
		}
	} else {
		delete(missing, "taskArchived")
	}
	run(t, Options{Config: settings(t, db.URL, broker.Addrs...)})
	waitRow(t, db.Conn(t), "all is sent", `select not exists (select from postrider.v_outbox_event where state not in ('published', 'dead_lettered'))`)
	seen := 0
	for _, topic := range topics {
		var n int
		if err := pool.QueryRow(t.Context(), `select count(*) from postrider.v_outbox_event where topic = $1 and state = 'published'
			or $1 = 'postrider.dlq' and state = 'dead_lettered'`, topic).Scan(&n); err != nil {
			t.Fatal(err)
		}
		for _, r := range broker.ReadAll(t, topic, n) {
			delete(missing, c.check(t, r))
			seen++
		}
	}
	if len(missing) > 0 {
		t.Errorf("of %d records none is a %s", seen, strings.Join(slices.Sorted(maps.Keys(missing)), ", "))
	}
}

// The schemas refuse wrong records, and the document holds together.
func TestCatalogueRefuses(t *testing.T) {
	t.Parallel()
	c := readCatalogue(t)
	if c.document["asyncapi"] != "3.0.0" {
		t.Errorf("version %v", c.document["asyncapi"])
	}
	named := map[string]bool{}
	for channel, value := range c.at(t, "channels") {
		for name, ref := range value.(map[string]any)["messages"].(map[string]any) {
			if got := ref.(map[string]any)["$ref"]; got != "#/components/messages/"+name || c.payloads[name] == nil {
				t.Errorf("channel %s: the message %s refers to %v", channel, name, got)
			}
			named[name] = true
		}
	}
	for name := range c.payloads {
		if !named[name] {
			t.Errorf("no channel has the message %s", name)
		}
	}
	channels := c.at(t, "channels")
	for operation, value := range c.at(t, "operations") {
		ref, _ := value.(map[string]any)["channel"].(map[string]any)["$ref"].(string)
		if channels[strings.TrimPrefix(ref, "#/channels/")] == nil {
			t.Errorf("operation %s refers to the channel %s", operation, ref)
		}
	}
	good := func() map[string]any {
		return map[string]any{"task_uuid": "0198c0de-9999-7222-8333-444455556666", "namespace_name": "n", "task_name": "t", "version": "1.0.0",
			"occurred_at": "2026-03-04T05:06:07.89Z", "actor": nil, "reason": "x", "metadata": nil, "from_state": "a", "to_state": "b", "sort_key": 2}
	}
	if err := c.payloads["taskTransitioned"].Validate(good()); err != nil {
		t.Errorf("a good one: %v", err)
	}
	for field, wrong := range map[string]any{"task_uuid": "7", "occurred_at": "yesterday", "sort_key": 1, "from_state": nil, "metadata": "x", "version": ""} {
		bad := good()
		bad[field] = wrong
		if c.payloads["taskTransitioned"].Validate(bad) == nil {
			t.Errorf("%s of %v is accepted", field, wrong)
		}
		delete(bad, field)
		if c.payloads["taskTransitioned"].Validate(bad) == nil {
			t.Errorf("no %s is accepted", field)
		}
	}
}

package mcp_test

import (
	"strconv"
	"strings"
	"testing"

	"github.com/postrider/postrider/cmd/internal/access"
	"github.com/postrider/postrider/internal/dlq"
	"github.com/postrider/postrider/internal/dlq/dlqtest"
	"github.com/postrider/postrider/message"
)

// With the settings as they come, a key without read:payload sees nothing of what messages and tasks carried, whatever
// it asks; one with it sees all but credentials, and each look is in the audit log.
func TestMessagesAreWithheld(t *testing.T) {
	t.Parallel()
	const secret = "s3ntinel"
	event := dlqtest.Event(1, 1)
	event.Key, event.Value = []byte(secret+" key"), []byte(`{"iban": "`+secret+` payload"}`)
	for i := range event.Headers {
		if event.Headers[i].Name == message.HeaderPayloadBytes {
			event.Headers[i].Value = []byte(strconv.Itoa(len(event.Value)))
		}
	}
	event.Headers = append(event.Headers,
		message.Header{Name: "Authorization", Value: []byte(secret + " token")}, message.Header{Name: "x-note", Value: []byte(secret + " note")})
	task := dlqtest.Task(2, 1)
	whole := strings.Replace(string(task.Value), `"snapshot": {`, `"snapshot": {"task": {"context": {"iban": "`+secret+` context"}, "metadata": {"a": "`+secret+`"}, "idempotency_key": "`+secret+`"},
		"steps": [{"step_name": "charge", "inputs": {"a": "`+secret+`"}, "results": ["`+secret+`"]}], "transitions": [{"metadata": {"a": "`+secret+`"}}], `, 1)
	if whole == string(task.Value) {
		t.Fatal("the letter of the task has no snapshot")
	}
	task.Value = []byte(whole)
	r := newRig(t, event, task)
	r.exec(`insert into postrider.outbox_hold (scope, topic, key, cause, event_id, next_probe_at) values ('key', $1, $2, 'halted', $3, 'infinity')`,
		r.topic, event.Key, dlqtest.EventID(1))
	both, token, err := r.access.Create(access.WithActor(t.Context(), access.Actor{Name: "test"}), access.NewKey{Name: "both", Scopes: []access.Scope{access.Read, access.ReadPayload}})
	if err != nil {
		t.Fatal(err)
	}
	const readsAll access.Scope = "read and read:payload"
	r.keys[readsAll] = token

	endpoint := r.serve(map[string]string{"dlq.redact_paths": byDefault, "dlq.redact_headers": byDefault})
	reader, sees := r.agent(endpoint, access.Read), r.agent(endpoint, readsAll)
	ids := map[string]string{}
	_, list := reader.ask("dlq_list", nil)
	for _, item := range fenced(t, list)["items"].([]any) {
		entry := item.(map[string]any)
		ids[entry["subject_type"].(string)] = entry["dlq_entry_uuid"].(string)
	}
	if len(ids) != 2 {
		t.Fatalf("the investigations are %v", ids)
	}
	_, stats := reader.ask("dlq_stats", nil)
	_, groups := reader.ask("dlq_groups", nil)
	_, ofEvent := reader.ask("dlq_show", args("id", ids["event"]))
	_, ofTask := reader.ask("dlq_show", args("id", ids["task"]))
	_, byTask := reader.ask("dlq_show", args("id", dlqtest.EventID(2).String()))
	_, why := reader.ask("dlq_why", args("id", ids["event"]))
	for name, text := range map[string]string{"list": list, "stats": stats, "groups": groups, "show": ofEvent, "show of a task": ofTask, "show by task": byTask, "why": why} {
		if strings.Contains(text, secret) {
			t.Errorf("%s shows what a message carried: %s", name, text)
		}
	}
	for _, part := range []string{`["x-note","[withheld: needs the scope read:payload]"]`, `"payload":"[withheld: needs the scope read:payload]"`, `"payload_bytes":` + strconv.Itoa(len(event.Value)), "refused for the test"} {
		if !strings.Contains(ofEvent, part) {
			t.Errorf("%s is not in %s", part, ofEvent)
		}
	}
	if !strings.Contains(ofTask, `"step_name":"charge"`) {
		t.Errorf("of the task is shown %s", ofTask)
	}
	if n := value[int](r, `select count(*) from postrider.access_audit where action like 'payload.%'`); n != 0 {
		t.Errorf("%d looks are in the audit log, at nothing", n)
	}

	_, ofEvent = sees.ask("dlq_show", args("id", ids["event"]))
	for _, part := range []string{secret + " key", secret + " payload", `["x-note","` + secret + ` note"]`, `["Authorization","` + dlq.Redacted + `"]`} {
		if !strings.Contains(ofEvent, part) {
			t.Errorf("who may see it does not see %s: %s", part, ofEvent)
		}
	}
	if strings.Contains(ofEvent, secret+" token") {
		t.Errorf("a credential is shown: %s", ofEvent)
	}
	if _, ofTask = sees.ask("dlq_show", args("id", dlqtest.EventID(2).String())); !strings.Contains(ofTask, secret+" context") {
		t.Errorf("who may see it does not see the task's context: %s", ofTask)
	}
	sees.refused("dlq_show", args("id", "01940000-0000-7000-8000-00000000ffff"), "NOT_FOUND")
	got := value[string](r, `select string_agg(concat_ws(' ', actor, key_id, target_type, target_id, details->>'via'), ', ' order by access_audit_id)
		from postrider.access_audit where action = 'payload.show' and request_id <> ''`)
	if want := "both " + both.ID + " entry " + ids["event"] + " mcp, both " + both.ID + " entry " + ids["task"] + " mcp"; got != want {
		t.Errorf("the audit log has %q, want %q", got, want)
	}
}

package mcp

import (
	"context"
	"encoding/json"
	"reflect"
	"testing"

	"github.com/postrider/postrider/cmd/internal/access"
)

func TestWithhold(t *testing.T) {
	t.Parallel()
	const w = `"[withheld: needs the scope read:payload]"`
	for name, c := range map[string]struct{ in, want string }{
		"an event": {
			`{"snapshot": {"key": "k", "payload": {"a": 1}, "payload_bytes": 7, "headers": [["a", "b"], ["none", null]], "error": {"message": "m"}}}`,
			`{"snapshot": {"key": ` + w + `, "payload": ` + w + `, "payload_bytes": 7, "headers": [["a", ` + w + `], ["none", null]], "error": {"message": "m"}}}`},
		"payloads of all kinds": {
			`[{"snapshot": {"payload": 7}}, {"snapshot": {"payload": false}}, {"snapshot": {"payload": null, "key": null}}]`,
			`[{"snapshot": {"payload": ` + w + `}}, {"snapshot": {"payload": ` + w + `}}, {"snapshot": {"payload": null, "key": null}}]`},
		"a task": {
			`{"task_snapshot": {"task": {"state": "error", "context": {"a": 1}, "metadata": {}, "idempotency_key": "i"},
				"steps": [{"step_name": "s", "inputs": 1, "results": [2], "last_error": "e"}], "transitions": [{"to_state": "error", "metadata": {"b": 1}}]}, "metadata": {"threshold": 30}}`,
			`{"task_snapshot": {"task": {"state": "error", "context": ` + w + `, "metadata": ` + w + `, "idempotency_key": ` + w + `},
				"steps": [{"step_name": "s", "inputs": ` + w + `, "results": ` + w + `, "last_error": "e"}], "transitions": [{"to_state": "error", "metadata": ` + w + `}]}, "metadata": {"threshold": 30}}`},
		"letters":    {`{"letters": [{"redacted_headers": [["a", {"base64": "AA=="}]]}]}`, `{"letters": [{"redacted_headers": [["a", ` + w + `]]}]}`},
		"holds":      {`{"status": {"outbox": {"holds": [{"key": "k", "topic": "t"}, {"topic": "t"}]}}}`, `{"status": {"outbox": {"holds": [{"key": ` + w + `, "topic": "t"}, {"topic": "t"}]}}}`},
		"operations": {`{"operations": [{"options": {"headers": [["a", "b"]]}}]}`, `{"operations": [{"options": {"headers": [["a", ` + w + `]]}}]}`},
		"no pairs":   {`{"headers": ["a", ["b"], ["c", "d", "e"]]}`, `{"headers": [` + w + `, ` + w + `, ` + w + `]}`},
		// Words of others as names: a topic may have any.
		"counts":  {`{"by_error_code": {"key": 3, "payload": 1}, "plan": {"topics": {"headers": 2, "results": 12345678901234567890, "holds": 1}}}`, `{"by_error_code": {"key": 3, "payload": 1}, "plan": {"topics": {"headers": 2, "results": 12345678901234567890, "holds": 1}}}`},
		"nothing": {`null`, `null`},
	} {
		as := func(scopes ...access.Scope) string {
			t.Helper()
			got, err := withhold(access.WithActor(context.Background(), access.Actor{Name: "a", Scopes: scopes}), json.RawMessage(c.in))
			if err != nil {
				t.Fatal(err)
			}
			return string(got)
		}
		var got, want any
		if err := json.Unmarshal([]byte(as(access.Read, access.Redrive, access.Edit, access.Purge, access.Resolve)), &got); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal([]byte(c.want), &want); err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
		if got := as(access.Read, access.ReadPayload); got != c.in {
			t.Errorf("%s: who may sees %s", name, got)
		}
	}
	if _, err := withhold(context.Background(), json.RawMessage(`{`)); err == nil {
		t.Error("what is no JSON is let through")
	}
}

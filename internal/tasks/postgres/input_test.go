package postgres_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/postrider/postrider/internal/tasks/ledger"
	"github.com/postrider/postrider/internal/tasks/ledgertest"
)

// TestInputSchema: values that fit, and for a value that does not fit, its path and what was expected.
func TestInputSchema(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for _, c := range []struct{ schema, value, want string }{ // want is empty where the value fits
		{`{"type": "object"}`, `{}`, ``},
		{`{"type": "object"}`, `[]`, `$ is [], it must be of type object`},
		{`{"type": ["string", "null"]}`, `7`, `$ is 7, it must be of type string or null`},
		{`{"type": ["string", "null"]}`, `null`, ``},
		{`{"type": "integer"}`, `7.0`, ``},
		{`{"type": "integer"}`, `7.5`, `$ is 7.5, it must be of type integer`},
		{`{"type": "number"}`, `7`, ``},
		{`{"type": "boolean"}`, `"true"`, `$ is "true", it must be of type boolean`},
		{`{"enum": [1, "a", {"b": [2]}]}`, `{"b": [2]}`, ``},
		{`{"enum": [1, "a"]}`, `"b"`, `$ is "b", it must be one of [1, "a"]`},
		{`{"const": 1}`, `1.0`, ``},
		{`{"const": null}`, `0`, `$ is 0, it must be null`},
		{`{"minimum": 3, "maximum": 4}`, `3`, ``},
		{`{"minimum": 3}`, `2.99`, `$ is 2.99, it must be at least 3`},
		{`{"maximum": 4}`, `5`, `$ is 5, it must be at most 4`},
		{`{"exclusiveMinimum": 3}`, `3`, `$ is 3, it must be more than 3`},
		{`{"exclusiveMaximum": 4}`, `4`, `$ is 4, it must be less than 4`},
		{`{"minimum": 3}`, `"x"`, ``},
		{`{"minLength": 2}`, `"ü"`, `$ is "ü", it must have at least 2 characters`},
		{`{"maxLength": 2}`, `"üüü"`, `$ has 3 characters, it must have at most 2`},
		{`{"maxLength": 2}`, `"üü"`, ``},
		{`{"pattern": "^[A-Z]{3}$"}`, `"EUR"`, ``},
		{`{"pattern": "^[A-Z]{3}$"}`, `"euro"`, `$ is "euro", it must match the pattern ^[A-Z]{3}$`},
		{`{"pattern": "("}`, `"x"`, `the input_schema itself cannot be used`},
		{`{"minItems": 1}`, `[]`, `$ has 0 items, it must have at least 1`},
		{`{"maxItems": 1}`, `[1, 2]`, `$ has 2 items, it must have at most 1`},
		{`{"items": {"type": "string"}}`, `["a", 1]`, `$[1] is 1, it must be of type string`},
		{`{"items": false}`, `[1]`, `$[0] must not be there`},
		{`{"required": ["a", "b c"]}`, `{"a": null}`, `$["b c"] is missing`},
		{`{"properties": {"a": {"properties": {"b": {"items": {"minimum": 1}}}}}}`, `{"a": {"b": [1, 0]}}`, `$.a.b[1] is 0, it must be at least 1`},
		{`{"properties": {"a": {}}, "additionalProperties": false}`, `{"a": 1, "z": 2}`, `$.z is not known; known are a`},
		{`{"additionalProperties": {"type": "integer"}}`, `{"a": 1, "z": "2"}`, `$.z is "2", it must be of type integer`},
		{`{"additionalProperties": true}`, `{"a": 1}`, ``},
		{`{"properties": {"a": false}}`, `{"a": 1}`, `$.a must not be there`},
		{`{"allOf": [{"minimum": 1}, {"maximum": 2}]}`, `3`, `$ is 3, it must be at most 2`},
		{`{"anyOf": [{"type": "string"}, {"minimum": 5}]}`, `7`, ``},
		{`{"anyOf": [{"type": "string"}, {"minimum": 5}]}`, `3`, `$ fits none of what is possible: $ is 3, it must be of type string; or $ is 3, it must be at least 5`},
		{`{"oneOf": [{"minimum": 1}, {"minimum": 5}]}`, `3`, ``},
		{`{"oneOf": [{"minimum": 1}, {"minimum": 5}]}`, `7`, `fits 2 of the schemas in oneOf`},
		{`{"oneOf": [{"minimum": 1}, {"minimum": 5}]}`, `0`, `fits none of what is possible`},
		{`{"not": {"const": 1}}`, `1`, `$ is 1, it must not fit {"const": 1}`},
		{`{"not": {"const": 1}}`, `2`, ``},
		{`{"title": "x", "description": "y", "default": 3, "examples": [1], "$comment": "z"}`, `{}`, ``},
		{`true`, `1`, ``},
		{`null`, `1`, ``},
	} {
		err := f.pool.QueryRow(t.Context(), `select postrider.task_check_input($1::jsonb, $2::jsonb)::text`, c.schema, c.value).Scan(new(string))
		switch {
		case c.want == "" && err != nil:
			t.Errorf("%s does not fit %s: %v", c.value, c.schema, err)
		case c.want != "" && err == nil:
			t.Errorf("%s fits %s, want %q", c.value, c.schema, c.want)
		case c.want != "":
			if !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s in %s: %q does not say %q", c.value, c.schema, err, c.want)
			}
		}
	}
}

// TestCreateChecksTheContext: the error speaks of the caller's context, not of the database.
func TestCreateChecksTheContext(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.apply(`{"input_schema": {"type": "object", "required": ["order_id"], "properties": {"order_id": {"type": "integer", "minimum": 1}}}}`)
	_, err := f.Create(t.Context(), ledger.NewTask{Namespace: "default", Name: "task"})
	refused(t, err, ledger.ErrInvalid, "create a task of default/task", "input_schema: $.order_id is missing")
	_, err = f.Create(t.Context(), ledger.NewTask{Namespace: "default", Name: "task", Context: json.RawMessage(`{"order_id": 0}`)})
	refused(t, err, ledger.ErrInvalid, "$.order_id is 0, it must be at least 1")
	if task := ledgertest.Create(t, f.pool, ledgertest.New{Context: `{"order_id": 1}`}); f.state(task) != "pending" {
		t.Errorf("a context that fits is refused")
	}
}

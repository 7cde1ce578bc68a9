package dlq

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/postrider/postrider/message"
)

func redactor(t *testing.T, paths, headers []string) *Redactor {
	t.Helper()
	r, err := NewRedactor(RedactionRules{Paths: paths, Headers: headers})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestRedactJSON(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ path, in, want string }{
		{"$.card.number", `{"card":{"number":"4111","type":"visa"}}`, `{"card":{"number":"[redacted]","type":"visa"}}`},
		{"card.number", `{"card":{"number":4111}}`, `{"card":{"number":"[redacted]"}}`},
		{"$.items[*].pan", `{"items":[{"pan":1,"n":2},{"n":3},4]}`, `{"items":[{"pan":"[redacted]","n":2},{"n":3},4]}`},
		{"$.items[1]", `{"items":[1,2,3]}`, `{"items":[1,"[redacted]",3]}`},
		{"$[0]", `[1,2]`, `["[redacted]",2]`},
		{"$..password", `{"a":[{"password":"x","b":{"password":{"password":1}}}],"password":null}`, `{"a":[{"password":"[redacted]","b":{"password":"[redacted]"}}],"password":"[redacted]"}`},
		{`$["a.b"]`, `{"a.b":1,"a":{"b":2}}`, `{"a.b":"[redacted]","a":{"b":2}}`},
		{`$..["a.b"].c`, `{"x":{"a.b":{"c":1}}}`, `{"x":{"a.b":{"c":"[redacted]"}}}`},
		{"$.*", `{"a":1,"b":[2]}`, `{"a":"[redacted]","b":"[redacted]"}`},
		{"$.a", `{"b":12345678901234567890.10}`, `{"b":12345678901234567890.10}`},
		{"$.b", `{"a":12345678901234567890.10,"b":1}`, `{"a":12345678901234567890.10,"b":"[redacted]"}`},
		{"$.a", `"text"`, `"text"`},
		{"$.a", `not json`, `"[redacted]"`},
	} {
		got := redactor(t, []string{test.path}, nil).JSON(json.RawMessage(test.in))
		var a, b any
		if json.Unmarshal(got, &a) != nil || json.Unmarshal([]byte(test.want), &b) != nil {
			if string(got) != test.want {
				t.Errorf("%s of %s: %s", test.path, test.in, got)
			}
		} else if !reflect.DeepEqual(a, b) {
			t.Errorf("%s of %s: %s, want %s", test.path, test.in, got, test.want)
		}
		if strings.Contains(test.in, "890.10") && !strings.Contains(string(got), "12345678901234567890.10") {
			t.Errorf("the number became %s", got)
		}
	}
}

func TestRedactionRulesThatAreRefused(t *testing.T) {
	t.Parallel()
	for _, path := range []string{"", "$", "$.", "$..", "$.a..", "$.a[", "$.a[x]", "$.a[-1]", `$["a]`, `$[""]`, "$a]b"} {
		if r, err := NewRedactor(RedactionRules{Paths: []string{path}}); err == nil && path != "$a]b" {
			t.Errorf("%q: %+v", path, r)
		}
	}
	for _, header := range []string{"", "[", `\`} {
		if _, err := NewRedactor(RedactionRules{Headers: []string{header}}); err == nil {
			t.Errorf("header %q", header)
		}
	}
	if r, err := NewRedactor(RedactionRules{}); r != nil || err != nil {
		t.Errorf("no rules: %v, %v", r, err)
	}
}

func TestRedactSnapshots(t *testing.T) {
	t.Parallel()
	r := redactor(t, []string{"$..secret"}, []string{"Authorization", "x-*"})
	l := Letter{ID: "x", PayloadKind: Inline, Payload: []byte(`{"secret":"s3cr3t","n":1}`), Headers: []message.Header{
		{Name: "authorization", Value: []byte("s3cr3t")}, {Name: "X-Api/Key", Value: []byte("s3cr3t")}, {Name: "trace", Value: []byte("1")}}}
	for _, test := range []struct {
		name    string
		payload string
		shown   string
	}{
		{"JSON", `{"secret":"s3cr3t","n":1}`, `"payload":{"n":1,"secret":"[redacted]"}`},
		{"text", `secret=s3cr3t`, `redaction could not be applied`},
		{"binary", "\xff\x00s3cr3t", `redaction could not be applied`},
		{"too long", `{"secret":"s3cr3t","n":"` + strings.Repeat("x", MaxSnapshotBytes) + `"}`, `redaction could not be applied`},
		{"too deep", strings.Repeat("[", 200) + `"s3cr3t"` + strings.Repeat("]", 200), `redaction could not be applied`},
	} {
		l.Payload = []byte(test.payload)
		got := string(r.Snapshot(l))
		if strings.Contains(got, "s3cr3t") || !strings.Contains(got, test.shown) || !json.Valid([]byte(got)) {
			t.Errorf("%s: %s", test.name, got)
		}
		if !strings.Contains(got, `["trace","1"]`) {
			t.Errorf("%s: a header is gone: %s", test.name, got)
		}
	}
	if string(l.Headers[0].Value) != "s3cr3t" {
		t.Error("the letter was changed")
	}
	l.Payload, l.PayloadKind = nil, Tombstone
	if got := string(r.Snapshot(l)); !strings.Contains(got, `"payload":null`) {
		t.Errorf("a tombstone: %s", got)
	}
	task := Letter{TaskSnapshot: json.RawMessage(`{"context":{"card":{"pan":1}},"steps":[{"results":{"secret":2}}]}`)}
	got := string(redactor(t, []string{"$.card.pan", "$..secret"}, nil).Snapshot(task))
	if got != `{"context":{"card":{"pan":"[redacted]"}},"steps":[{"results":{"secret":"[redacted]"}}]}` {
		t.Errorf("a task: %s", got)
	}
	if string(Snapshot(task)) != string(task.TaskSnapshot) {
		t.Error("without rules something is hidden")
	}
}

// TestRedactInvalidHeaders: a header that a rule names is hidden also where all headers of an event are one text.
func TestRedactInvalidHeaders(t *testing.T) {
	t.Parallel()
	r := redactor(t, nil, []string{"authorization", "x-*"})
	for text, hidden := range map[string]bool{
		`{"priority": 5, "tenant": "s3cr3t"}`:        false,
		`{"priority": 5, "Authorization": "s3cr3t"}`: true,
		`[["priority", 5], ["X-Key", "s3cr3t"]]`:     true,
		`[["priority", 5], ["tenant", "s3cr3t"]]`:    false,
		`[["priority", 5], ["X-Key", "s3cr`:          true, // the end is missing
		`["s3cr3t"]`:                                 true,
		`[[5, "s3cr3t"]]`:                            true,
	} {
		l := Letter{ID: "x", Headers: []message.Header{{Name: message.HeaderInvalidHeaders, Value: []byte(text)}}}
		if got := string(r.Snapshot(l)); strings.Contains(got, "s3cr") == hidden {
			t.Errorf("%s: %s", text, got)
		}
		if got := string(r.Again(SubjectEvent, Snapshot(l))); strings.Contains(got, "s3cr") == hidden {
			t.Errorf("again, %s: %s", text, got)
		}
	}
	if l := (Letter{Headers: []message.Header{{Name: message.HeaderInvalidHeaders, Value: []byte("x")}}}); string(redactor(t, []string{"$.a"}, nil).Headers(l.Headers)[0].Value) != "x" {
		t.Error("without rules for headers they are hidden")
	}
}

// What cannot be read is hidden unless no rule can mean anything in it.
func TestRedactHeadersThatAreNoJSON(t *testing.T) {
	t.Parallel()
	for text, c := range map[string]struct {
		rules  []string
		hidden bool
	}{
		`{"tenant": "acme", "x": "`:              {[]string{"authorization", "cookie"}, false},
		`{"Authorization": "s3cr3t", "x": "`:     {[]string{"authorization", "cookie"}, true},
		`{"\u0061uthorization": "s3cr3t", "x": `: {[]string{"authorization", "cookie"}, true},
		`{"tenant": "s3cr3t", "x": "`:            {[]string{"authorization", "t*t"}, true},
	} {
		l := Letter{Headers: []message.Header{{Name: message.HeaderInvalidHeaders, Value: []byte(text)}}}
		if got := string(redactor(t, nil, c.rules).Headers(l.Headers)[0].Value); (got == Redacted) != c.hidden {
			t.Errorf("%s is shown as %s under %v", text, got, c.rules)
		}
	}
}

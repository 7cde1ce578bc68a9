package dlq

import (
	"encoding/json"
	"reflect"
	"testing"

	"github.com/postrider/postrider/message"
)

// A stored snapshot shows what a new one with the rules of today would.
func TestRedactAgain(t *testing.T) {
	t.Parallel()
	header := []message.Header{{Name: "Authorization", Value: []byte("s3ntinel")}, {Name: "x", Value: []byte("y")}}
	for name, c := range map[string]struct {
		letter         Letter
		paths, headers []string
		same           bool
	}{
		"no rules":           {letter: Letter{Payload: []byte(`{"card":"1"}`), Headers: header}, same: true},
		"a path":             {letter: Letter{Payload: []byte(`{"card":"s3ntinel","a":[1.50]}`), Headers: header}, paths: []string{"$.card"}},
		"a path that misses": {letter: Letter{Payload: []byte(`{"cart": "1"}`)}, paths: []string{"$.card"}, same: true},
		"not of the payload": {letter: Letter{Payload: []byte(`{}`), ErrorMessage: "m", OriginTopic: "t"}, paths: []string{"$..message", "$.topic"}, same: true},
		"text":               {letter: Letter{Payload: []byte("card s3ntinel")}, paths: []string{"$.card"}},
		"bytes":              {letter: Letter{Payload: []byte{0xff, 1}}, paths: []string{"$.card"}},
		"a tombstone":        {letter: Letter{}, paths: []string{"$.card"}, same: true},
		"a header":           {letter: Letter{Payload: []byte(`{}`), Headers: header}, headers: []string{"auth*"}},
		"without a name":     {letter: Letter{Payload: []byte(`{}`), Headers: append([]message.Header{{Value: []byte("n")}, {Name: message.HeaderHops, Value: []byte("-5")}}, header...)}, headers: []string{"auth*"}},
		"of no rule":         {letter: Letter{Payload: []byte(`{}`), Headers: []message.Header{{Value: []byte("n")}, {Name: "a", Value: []byte{0xff}}, {Name: "b"}}}, headers: []string{"cookie"}, same: true},
		"another header":     {letter: Letter{Payload: []byte(`{}`), Headers: header}, headers: []string{"cookie"}, same: true},
	} {
		r := redactor(t, c.paths, c.headers)
		stored := Snapshot(c.letter)
		got := r.Again(SubjectEvent, stored)
		if (string(got) == string(stored)) != c.same {
			t.Errorf("%s: %s became %s", name, stored, got)
		}
		var shown, want map[string]any
		if err := json.Unmarshal(got, &shown); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if err := json.Unmarshal(r.Snapshot(c.letter), &want); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		delete(shown, "payload_truncated") // it says where the whole is, which is not known here
		delete(want, "payload_truncated")
		if !reflect.DeepEqual(shown, want) {
			t.Errorf("%s: %v, want %v", name, shown, want)
		}
		if again := r.Again(SubjectEvent, got); string(again) != string(got) {
			t.Errorf("%s: twice is %s, once %s", name, again, got)
		}
	}
	task := json.RawMessage(`{"task_uuid": "u", "context": {"card": "s3ntinel"}}`)
	if got := redactor(t, []string{"$.card"}, nil).Again(SubjectTask, task); string(got) != `{"context":{"card":"[redacted]"},"task_uuid":"u"}` {
		t.Errorf("a task: %s", got)
	}
	for _, broken := range []string{`[1]`, `null`, `{`} {
		if got := redactor(t, []string{"$.card"}, nil).Again(SubjectEvent, json.RawMessage(broken)); string(got) != `"[redacted]"` {
			t.Errorf("%s: %s", broken, got)
		}
	}
	if got := redactor(t, []string{"$.card"}, nil).Again(SubjectEvent, nil); got != nil {
		t.Errorf("none: %s", got)
	}
}

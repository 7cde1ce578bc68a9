package main

import (
	"encoding/json"
	"io"
	"strings"
	"testing"
)

func TestMistakesAreNamed(t *testing.T) {
	t.Parallel()
	good := map[string]string{"PEER_DATABASE": "postgres://localhost:1/none", "PEER_BROKER": "localhost:1", "PEER_TOPIC": "t",
		"PEER_FIRST": "0", "PEER_EVENTS": "1", "PEER_KEYS": "1", "PEER_PAYLOAD": "300"}
	for _, c := range []struct {
		args       []string
		name, text string
		want       string
	}{
		{nil, "", "", "usage"},
		{[]string{"work", "river", "fast"}, "", "", "usage"},
		{[]string{"river", "tuned"}, "", "", "usage"},
		{[]string{"work", "debezium", "tuned"}, "", "", `"debezium"`},
		{[]string{"load", "river", "tuned"}, "PEER_EVENTS", "none", "PEER_EVENTS"},
		{[]string{"load", "river", "tuned"}, "PEER_FIRST", "-1", "PEER_FIRST"},
		{[]string{"work", "river", "tuned"}, "PEER_KEYS", "0", "PEER_KEYS"},
		{[]string{"work", "river", "tuned"}, "PEER_PAYLOAD", "20", "PEER_PAYLOAD"},
		{[]string{"work", "river", "tuned"}, "PEER_DATABASE", "nowhere:1", "PEER_DATABASE"},
	} {
		env := func(name string) string {
			if name == c.name {
				return c.text
			}
			return good[name]
		}
		if err := run(t.Context(), c.args, env, strings.NewReader(""), io.Discard); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v with %s=%q: %v, want it to name %s", c.args, c.name, c.text, err, c.want)
		}
	}
}

func TestBody(t *testing.T) {
	t.Parallel()
	p := &task{payload: 300, keys: 7}
	got := p.body(12)
	if len(got) != 300 || !json.Valid(got) || !strings.HasPrefix(string(got), `{"seq":"0000000000000012","pad":"`) {
		t.Errorf("%d bytes: %.40q", len(got), got)
	}
	p.payload = minPayload
	if got := string(p.body(7)); got != `{"seq":"0000000000000007","pad":""}` {
		t.Errorf("the smallest: %q", got)
	}
	if got := p.key(15); got != "key-1" {
		t.Errorf("key %q", got)
	}
}

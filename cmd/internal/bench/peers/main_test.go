package main

import (
	"io"
	"strings"
	"testing"
)

func TestMistakesAreNamed(t *testing.T) {
	t.Parallel()
	good := map[string]string{"PEER_DATABASE": "postgres://localhost:1/none", "PEER_BROKER": "localhost:1", "PEER_TOPIC": "t",
		"PEER_EVENTS": "1", "PEER_KEYS": "1", "PEER_PAYLOAD": "1"}
	for _, c := range []struct {
		args       []string
		name, text string
		want       string
	}{
		{nil, "", "", "usage"},
		{[]string{"river", "fast"}, "", "", "usage"},
		{[]string{"debezium", "tuned"}, "", "", `"debezium"`},
		{[]string{"river", "tuned"}, "PEER_EVENTS", "none", "PEER_EVENTS"},
		{[]string{"river", "tuned"}, "PEER_KEYS", "0", "PEER_KEYS"},
		{[]string{"river", "tuned"}, "PEER_DATABASE", "nowhere:1", "PEER_DATABASE"},
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
	if got := string(p.body(12)); len(got) != 300 || !strings.HasPrefix(got, "0000000000000012xxx") {
		t.Errorf("%d bytes: %.30q", len(got), got)
	}
	if got := p.key(15); got != "key-1" {
		t.Errorf("key %q", got)
	}
}

package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// settingsFile writes a configuration file for a test.
func settingsFile(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "postrider.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

const ruledFile = `outbox:
  dispatches: 2
topics:
  - match: orders.*
    max_attempts: 20
  - match: "*.eu"
    dlq_topic: dead.eu
`

func TestConfigShow(t *testing.T) {
	t.Parallel()
	path := settingsFile(t, ruledFile)
	environ := []string{"DATABASE_URL=postgres://relay:s3ntinel@db:1234/app", "OUTBOX_RETRY_BASE_MS=5"}
	show := func(args ...string) string {
		t.Helper()
		r := postrider(t, environ, append([]string{"config", "show", "--config", path, "--outbox-batch-size", "9"}, args...)...)
		if r.code != ExitOK || r.stderr != "" || strings.Contains(r.stdout, "s3ntinel") {
			t.Fatalf("%v: exit code %d, %s%s", args, r.code, r.stdout, r.stderr)
		}
		return r.stdout
	}
	contains(t, fieldsOf(show()),
		"database.url postgres://relay:xxxxx@db:1234/app environment variable DATABASE_URL\n",
		"kafka.brokers - not set\n", "outbox.dispatches 2 "+path+":2\n", "outbox.batch_size 9 flag --outbox-batch-size\n",
		"outbox.retry_base_ms 5 environment variable OUTBOX_RETRY_BASE_MS\n", "outbox.max_attempts 5 default\n",
		"orders.* ("+path+":4)\n", "max_attempts 20 "+path+":5\n")
	contains(t, fieldsOf(show("--topic", "orders.eu")),
		"max_attempts 20 "+path+":5, topics: orders.*\n", "dlq_topic dead.eu "+path+":7, topics: *.eu\n",
		"retry_base_ms 5 environment variable OUTBOX_RETRY_BASE_MS, outbox.retry_base_ms\n", "max_message_bytes 1048588 default, kafka.max_message_bytes\n",
		"orders.* ("+path+":4)\n*.eu ("+path+":6)\n")
	contains(t, show("--topic", "plain"), "No rule of the section topics matches it.")

	whole := decode[configView](t, show("-o", "json"))
	values := map[string]settingView{}
	for _, s := range whole.Settings {
		values[s.Key] = s
	}
	if s := values["outbox.dispatches"]; s.Value != 2.0 || s.Origin != path+":2" {
		t.Errorf("%+v", s)
	}
	if s := values["outbox.log"]; s.Value != false || s.Origin != "default" {
		t.Errorf("%+v", s)
	}
	if len(whole.Topics) != 2 || whole.Topics[1].Match != "*.eu" || whole.Topics[1].Settings[0].Value != "dead.eu" {
		t.Errorf("%+v", whole.Topics)
	}
	one := decode[topicConfigView](t, show("-o", "json", "--topic", "orders.us"))
	if one.Topic != "orders.us" || len(one.Rules) != 1 || one.Settings[0].Key != "max_attempts" || one.Settings[0].Value != 20.0 {
		t.Errorf("%+v", one)
	}
	for _, topic := range []string{"", "a b"} {
		if r := postrider(t, nil, "config", "show", "--topic", topic); r.code != ExitUsage || !strings.Contains(r.stderr, "--topic") {
			t.Errorf("topic %q: exit code %d, %s", topic, r.code, r.stderr)
		}
	}
}

// fieldsOf is a table with one space between its words.
func fieldsOf(table string) string {
	var b strings.Builder
	for line := range strings.Lines(table) {
		b.WriteString(strings.Join(strings.Fields(line), " ") + "\n")
	}
	return b.String()
}

func TestConfigValidate(t *testing.T) {
	t.Parallel()
	required := []string{"DATABASE_URL=postgres://u:s3ntinel@h/d", "KAFKA_BROKERS=h:1"}
	good := settingsFile(t, ruledFile)
	r := postrider(t, required, "config", "validate", "--config", good)
	if r.code != ExitOK || r.stderr != "" || strings.Contains(r.stdout, "Warning") {
		t.Errorf("exit code %d: %s%s", r.code, r.stdout, r.stderr)
	}
	contains(t, r.stdout, "The settings are right.", "up to 30 database connections")

	suspicious := settingsFile(t, "topics:\n  - match: postrider.dlq\n    max_attempts: 1\n")
	r = postrider(t, nil, "config", "validate", "--config", suspicious)
	if r.code != ExitOK {
		t.Errorf("exit code %d: %s", r.code, r.stderr)
	}
	contains(t, r.stdout, "Warning: "+suspicious+":2: ", "Warning: database.url is not set here", "Warning: kafka.brokers")

	bad := settingsFile(t, "outbox:\n  dispatches: 0\n  batch: 1\ntopics:\n  - match: a\n    max_message_bytes: 1000\n")
	args := []string{"config", "validate", "--config", bad, "--dlq-topic", "a b"}
	mistakes := []string{bad + ":2", bad + ":3", bad + ":6", "from 4096", "flag --dlq-topic", "OUTBOX_LOGS", "pool_max_conns"}
	environ := []string{"OUTBOX_LOGS=1", "DATABASE_URL=postgres://u:s3ntinel@h/d?pool_max_conns=5"}
	r = postrider(t, environ, args...)
	if r.code != ExitUsage || r.stdout != "" {
		t.Errorf("exit code %d: %s", r.code, r.stdout)
	}
	contains(t, r.stderr, mistakes...)
	r = postrider(t, environ, append(args, "-o", "json")...)
	v := decode[validateView](t, r.stdout)
	if r.code != ExitUsage || v.OK || len(v.Mistakes) != 6 {
		t.Errorf("exit code %d, %d mistakes: %+v", r.code, len(v.Mistakes), v)
	}
	contains(t, strings.Join(v.Mistakes, "\n"), mistakes...)
	if strings.Contains(r.stdout+r.stderr, "s3ntinel") {
		t.Errorf("the password is shown:\n%s%s", r.stdout, r.stderr)
	}
}

// An unreachable database is one line, each way of trying it said once.
func TestUnreachableIsOneLine(t *testing.T) {
	t.Parallel()
	for _, command := range [][]string{{"outbox", "status"}, {"migrate", "status"}, {"serve", "--kafka-brokers", "127.0.0.1:1"}} {
		r := postrider(t, []string{"DATABASE_URL=postgres://u:s3ntinel@127.0.0.1:1/d"}, command...)
		if r.code != ExitFailure || strings.Count(r.stderr, "\n") != 1 || strings.Contains(r.stderr, `\t`) || strings.Count(r.stderr, "connection refused") != 1 {
			t.Errorf("%v: exit code %d, %q", command, r.code, r.stderr)
		}
	}
}

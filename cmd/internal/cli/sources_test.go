package cli

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/postrider/postrider/cmd/internal/api"
	"github.com/postrider/postrider/internal/testenv/kafkatest"
	"github.com/postrider/postrider/internal/testenv/pgtest"
)

// TestSources: the command, and the doctor, name what is wrong with each source, with the rights of the relay's role, and
// show no password.
func TestSources(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	pgtest.Exec(t, db.Conn(t), `insert into postrider.outbox_event (topic, payload) values ('orders', 'waits')`)
	file := settingsFile(t, fmt.Sprintf(`sources:
  - {name: orders, url: %q, topics: {allow: ["*"]}}
  - {name: away, url: "postgres://u:s3ntinel@127.0.0.1:1/d?connect_timeout=2", topics: {allow: ["*"]}}
`, asRole(t, db, "postrider_relay")))
	r := postrider(t, nil, "sources", "--config", file)
	contains(t, r.stdout, "SOURCE", "orders", "not led", "away", "check that PostgreSQL runs there", "1 source of 2 cannot be carried")
	if r.code != ExitFailure || strings.Contains(r.stdout+r.stderr, "s3ntinel") {
		t.Errorf("exit code %d: %s%s", r.code, r.stdout, r.stderr)
	}
	r = postrider(t, nil, "sources", "--config", file, "-o", "json")
	looks := decode[api.Sources](t, r.stdout).Items
	if len(looks) != 2 || looks[0].Reason == nil || *looks[0].Reason != "away" || !looks[1].OK || looks[1].Pending != 1 || r.code != ExitFailure {
		t.Errorf("exit code %d, %+v", r.code, looks)
	}
	r = postrider(t, nil, "doctor", "--config", file)
	contains(t, r.stdout, "KAFKA", "✗ brokers: kafka.brokers is not set", "SOURCES", "✗ away: away:", "! orders: no relay leads it, 1 events wait", "2 failed")
	if strings.Contains(r.stdout, "DATABASE") || strings.Contains(r.stdout, "SCHEMA") {
		t.Errorf("without a desk the doctor speaks of its database: %s", r.stdout)
	}
	r = postrider(t, nil, "config", "validate", "--config", file)
	contains(t, r.stdout, "The settings are right. One that carries 2 sources opens up to 8 to their databases.")
	// Without the desk's database the sources are looked at all the same.
	r = postrider(t, nil, "sources", "--config", file, "--database-url", "postgres://u:s3ntinel@127.0.0.1:1/desk?connect_timeout=2")
	contains(t, r.stdout, "orders", "not led", "1 source of 2 cannot be carried")
	contains(t, r.stderr, "what the desk knows of the sources is not shown", "127.0.0.1:1/desk")
	if r.code != ExitFailure || strings.Contains(r.stdout+r.stderr, "s3ntinel") {
		t.Errorf("without the desk: exit code %d: %s%s", r.code, r.stdout, r.stderr)
	}
	if r = postrider(t, nil, "sources"); r.code != ExitUsage {
		t.Errorf("without sources: exit code %d, %s", r.code, r.stderr)
	}
	if r = postrider(t, nil, "config", "show", "--config", file); r.code != ExitOK || strings.Contains(r.stdout, "s3ntinel") {
		t.Errorf("config show: exit code %d, %s", r.code, r.stderr)
	} else {
		contains(t, r.stdout, "orders", "postgres://u:xxxxx@127.0.0.1:1/d")
	}
	if r = postrider(t, []string{"KAFKA_BROKERS=127.0.0.1:1"}, "serve", "--config", file); r.code != ExitFailure {
		t.Errorf("serve with a desk's roles and no desk: exit code %d", r.code)
	}
	contains(t, r.stderr, "database.url is not set", "--roles relay,http")
}

// A signal has the sources read again at once. A broken file changes nothing and says why.
func TestServeReadsSourcesAgain(t *testing.T) {
	broker := kafkatest.Kfake(t)
	db := pgtest.New(t)
	line := fmt.Sprintf("  - {name: orders, url: %q, topics: {allow: [\"*\"]}}\n", db.URL)
	file := settingsFile(t, "http: {api: false}\nsources:\n"+line)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var stdout bytes.Buffer
	logs, stderr := io.Pipe()
	ended := make(chan int, 1)
	go func() {
		code := Run(ctx, []string{"serve", "--roles", "relay,http", "--http", "127.0.0.1:0", "--config", file, "--kafka-brokers", strings.Join(broker.Addrs, ",")}, nil, &stdout, stderr)
		stderr.Close()
		ended <- code
	}()
	rewrite := func(text string) {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Error(err)
		}
		if err := syscall.Kill(os.Getpid(), syscall.SIGHUP); err != nil {
			t.Error(err)
		}
	}
	steps := []struct {
		sees string
		do   func()
	}{
		{`"msg":"leading"`, func() { rewrite("http: {api: false}\nsources:\n" + line + "  - {name: billing}\n") }},
		{"has no url", func() {
			rewrite("http: {api: false}\nlog: {level: error}\nsources:\n" + strings.Replace(line, "}}", "}, limits: {connections: 5}}", 1))
		}},
		{"log.level", func() {}},
		{`"changed":["orders"]`, cancel},
	}
	lines := bufio.NewScanner(logs)
	for lines.Scan() {
		if len(steps) > 0 && strings.Contains(lines.Text(), steps[0].sees) {
			steps[0].do()
			steps = steps[1:]
		}
	}
	if code := <-ended; code != ExitOK || len(steps) > 0 {
		t.Errorf("exit code %d, %d steps are left", code, len(steps))
	}
}

// TestMigrateSources: every source is migrated in turn, the canary first; the first that fails is the last that is touched.
func TestMigrateSources(t *testing.T) {
	t.Parallel()
	migrated := func(db *pgtest.DB) bool {
		return pgtest.Value[bool](t, db.Conn(t), `select to_regclass('postrider.outbox_event') is not null`)
	}
	first, second, third := pgtest.NewEmpty(t), pgtest.NewEmpty(t), pgtest.NewEmpty(t)
	source := func(name, url string) string {
		return fmt.Sprintf("  - {name: %s, url: %q, topics: {allow: [\"*\"]}}\n", name, url)
	}
	const away = "postgres://u:s3ntinel@127.0.0.1:1/d?connect_timeout=2"
	broken := settingsFile(t, "sources:\n"+source("billing", first.URL)+source("orders", second.URL)+source("zebra", away))
	r := postrider(t, nil, "migrate", "up", "--sources", "--config", broken, "--canary", "orders")
	contains(t, r.stdout, "orders   applied ", "billing  applied ", "zebra    failed")
	contains(t, r.stderr, "source zebra: ", "0 of 3 sources were not touched")
	if r.code != ExitFailure || strings.Contains(r.stdout+r.stderr, "s3ntinel") || !migrated(first) || !migrated(second) {
		t.Errorf("exit code %d: %s%s", r.code, r.stdout, r.stderr)
	}
	if pgtest.Value[bool](t, second.Conn(t), `select to_regclass('postrider.dlq_entry') is not null`) {
		t.Error("a source got more than the outbox")
	}
	r = postrider(t, nil, "migrate", "up", "--sources", "--config", settingsFile(t, "sources:\n"+source("away", away)+source("users", third.URL)), "-o", "json")
	done := decode[api.List[sourceMigrated]](t, r.stdout).Items
	if len(done) != 1 || done[0].Source != "away" || done[0].Error == nil || migrated(third) || r.code != ExitFailure {
		t.Errorf("exit code %d, %+v", r.code, done)
	}
	contains(t, r.stderr, "1 of 2 sources were not touched")

	// A canary that is migrated and that no relay can carry stops the rest: the database has another source's name.
	pgtest.Exec(t, first.Conn(t), `update postrider.outbox_source set name = 'another'`)
	r = postrider(t, nil, "migrate", "up", "--sources", "--canary", "billing", "--config", settingsFile(t, "sources:\n"+source("users", third.URL)+source("billing", first.URL)))
	contains(t, r.stderr, "source billing: it is migrated and cannot be carried", "another")
	if r.code != ExitFailure || migrated(third) {
		t.Errorf("exit code %d: %s%s", r.code, r.stdout, r.stderr)
	}
	for _, wrong := range [][]string{{"--sources"}, {"--canary", "orders"}, {"--sources", "--config", broken, "--canary", "nobody"}} {
		if r := postrider(t, nil, append([]string{"migrate", "up"}, wrong...)...); r.code != ExitUsage {
			t.Errorf("%v: exit code %d, %s", wrong, r.code, r.stderr)
		}
	}
}

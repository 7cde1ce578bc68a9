package cli

import (
	"strings"
	"testing"

	"github.com/postrider/postrider/cmd/internal/doctor"
	"github.com/postrider/postrider/internal/testenv/kafkatest"
	"github.com/postrider/postrider/internal/testenv/pgtest"
)

// TestDoctor: each line has its mark first, hints say what to do, and the exit code is for scripts.
func TestDoctor(t *testing.T) {
	t.Parallel()
	db, empty, broker := pgtest.New(t), pgtest.NewEmpty(t), kafkatest.Kfake(t)
	letters, life := broker.Topic(t, 1, nil), broker.Topic(t, 1, nil)
	run := func(url string, args ...string) result {
		t.Helper()
		return postrider(t, []string{"DATABASE_URL=" + url, "KAFKA_BROKERS=" + strings.Join(broker.Addrs, ","), "TASKS_LIFECYCLE_TOPIC=" + life},
			append([]string{"doctor"}, args...)...)
	}
	r := run(db.URL, "--dlq-topic", letters)
	if r.code != ExitOK || r.stderr != "" {
		t.Errorf("a healthy one: exit code %d, %s%s", r.code, r.stdout, r.stderr)
	}
	contains(t, r.stdout, "DATABASE\n✓ connection: ", "✓ existence: all of them are there", "! collector: ", "    → start postrider serve", " 0 failed")

	r = run(db.URL, "--dlq-topic", "nowhere", "-o", "json")
	report := decode[doctor.Report](t, r.stdout)
	if r.code != ExitFailure || r.stderr != "" || report.OK || report.Failed != 1 {
		t.Errorf("without dead-letter topic: exit code %d, %q, %+v", r.code, r.stderr, report)
	}
	r = run(db.URL, "--dlq-topic", "nowhere", "-o", "yaml")
	contains(t, r.stdout, "ok: false", `verdict: "failed"`)

	if r = run(empty.URL, "--dlq-topic", letters, "--pre"); r.code != ExitOK || strings.Contains(r.stdout, "SCHEMA") {
		t.Errorf("before the schema: exit code %d, %s%s", r.code, r.stdout, r.stderr)
	}
	if r = run(empty.URL, "--dlq-topic", letters); r.code != ExitFailure {
		t.Errorf("without the schema: exit code %d, %s", r.code, r.stdout)
	}
	contains(t, r.stdout, "✗ version: ", "→ postrider migrate up", "- leader, backlog, holds, ")
	r = run("postgres://u:s3ntinel@127.0.0.1:1/d", "--dlq-topic", letters)
	if r.code != ExitFailure || strings.Contains(r.stdout+r.stderr, "s3ntinel") {
		t.Errorf("without a database: exit code %d, %s%s", r.code, r.stdout, r.stderr)
	}
	contains(t, r.stdout, "✗ connection: ", "check that PostgreSQL runs there")
	if r = run(db.URL, "--role", "king"); r.code != ExitUsage {
		t.Errorf("an unknown role: exit code %d, %s", r.code, r.stderr)
	}
	// Without brokers the database is examined; what cannot be looked at for one reason is one line.
	r = postrider(t, []string{"DATABASE_URL=" + db.URL}, "doctor")
	if r.code != ExitFailure || r.stderr != "" {
		t.Errorf("without brokers: exit code %d, %s", r.code, r.stderr)
	}
	contains(t, r.stdout, "✓ connection: ", "✗ brokers: kafka.brokers is not set", "    → set kafka.brokers", "- idempotent producer, message size, request size: no broker answers", " 1 failed")
}

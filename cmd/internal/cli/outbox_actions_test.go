package cli

import (
	"encoding/json"
	"net/url"
	"strings"
	"testing"

	"github.com/postrider/postrider/internal/migrations"
	"github.com/postrider/postrider/internal/relay"
	"github.com/postrider/postrider/internal/testenv/kafkatest"
	"github.com/postrider/postrider/internal/testenv/pgtest"
)

func TestOutboxActions(t *testing.T) {
	t.Parallel()
	db, broker := pgtest.New(t), kafkatest.Kfake(t)
	conn := db.Conn(t)
	topic, dlq := broker.Topic(t, 1, nil), broker.Topic(t, 1, nil)
	exec := func(sql string, args ...any) {
		t.Helper()
		if _, err := conn.Exec(t.Context(), sql, args...); err != nil {
			t.Fatal(err)
		}
	}
	act := func(args ...string) string {
		t.Helper()
		return succeed(t, db, append([]string{"outbox"}, append(args, "--dlq-topic", dlq, "--log-level", "error", "--kafka-brokers", strings.Join(broker.Addrs, ","))...)...)
	}
	exec(`insert into postrider.outbox_event (topic, key, payload) select $1, 'k', 'v' from generate_series(1, 10)`, topic)
	exec(`insert into postrider.outbox_event (topic, key, payload, headers) values ($1, 'bad', 'v', '{"a": 1}')`, topic)
	exec(`insert into postrider.outbox_event (topic, payload, available_at) values ($1, 'v', now() + interval '1 hour')`, topic)

	encoded := act("process", "--limit", "3", "-o", "json")
	first := decode[relay.ActionResult](t, encoded)
	if first.Action != "processPending" || first.Processed != 3 || first.BatchSize != 5000 || first.DurationMS <= 0 {
		t.Errorf("process: %+v", first)
	}
	for _, name := range []string{"action", "batch_size", "processed", "succeeded", "failed", "dead_lettered", "exhausted", "scheduled", "parked", "returned", "duration_ms"} {
		contains(t, encoded, `"`+name+`":`)
	}
	contains(t, act("process"), "succeeded", "arrived at the dead-letter topic")
	if n := len(broker.ReadAll(t, topic, 10)); n != 10 {
		t.Errorf("the topic has %d records, want 10", n)
	}
	if n := len(broker.ReadAll(t, dlq, 1)); n != 1 {
		t.Errorf("the dead-letter topic has %d records, want 1", n)
	}
	if r := decode[relay.ActionResult](t, act("retry", "-o", "json")); r.Action != "processRetries" || r.Processed != 0 || r.Returned != 0 {
		t.Errorf("retry with nothing due: %+v", r)
	}
	exec(`update postrider.outbox_exception set next_attempt_at = now() where state = 'scheduled'`)
	if r := decode[relay.ActionResult](t, act("retry", "-o", "json")); r.Returned != 1 || r.Succeeded != 1 {
		t.Errorf("retry: %+v", r)
	}
	contains(t, act("retry"), "returned")

	// Dead-lettered without an investigation: it stays.
	exec(`update postrider.outbox_receipt set at = at - interval '91 days'`)
	exec(`update postrider.outbox_exception set sent_at = sent_at - interval '91 days'`)
	clean := func(args ...string) relay.CleanupResult {
		t.Helper()
		encoded := succeed(t, db, append([]string{"outbox", "cleanup", "-o", "json", "--log-level", "error"}, args...)...)
		var names map[string]any
		if err := json.Unmarshal([]byte(encoded), &names); err != nil || names["action"] != "cleanup" || names["duration_ms"] == nil || names["dead_lettered"] == nil {
			t.Errorf("cleanup: %v, %v", names, err)
		}
		return decode[relay.CleanupResult](t, encoded)
	}
	if r := clean("--outbox-retention-days", "92", "--dry-run"); !r.DryRun || r.Published != 0 {
		t.Errorf("cleanup with a longer retention: %+v", r)
	}
	if r := clean("--dry-run"); !r.DryRun || r.Published != 11 || r.DeadLettered != 0 {
		t.Errorf("dry run: %+v", r)
	}
	contains(t, succeed(t, db, "outbox", "cleanup", "--dry-run"), "WOULD BE REMOVED", "11")
	contains(t, succeed(t, db, "outbox", "cleanup"), "REMOVED", "published events", "11")
	if r := clean("--outbox-retention-days", "0"); r.DryRun || r.Published != 0 {
		t.Errorf("cleanup again: %+v", r)
	}
	var told string
	if err := conn.QueryRow(t.Context(), `select string_agg((details->>'stage') || coalesce(' ' || (details->'result'->>'published'), ''), ', ' order by access_audit_id)
		from postrider.access_audit where action = 'outbox.cleanup' and actor like 'cli:%'`).Scan(&told); err != nil || told != "begun, ended 11, begun, ended 0" {
		t.Errorf("the audit log says %q, %v", told, err)
	}
	var left string
	if err := conn.QueryRow(t.Context(), `select string_agg(state::text, ' ') from postrider.v_outbox_event`).Scan(&left); err != nil || left != "dead_lettered" {
		t.Errorf("left are %s, %v", left, err)
	}
}

// The action log is one line of JSON an action, beside the result.
func TestOutboxActionLog(t *testing.T) {
	t.Parallel()
	db, broker := pgtest.New(t), kafkatest.Kfake(t)
	r := postrider(t, []string{"DATABASE_URL=" + db.URL, "A2A_OUTBOX_LOG=1", "KAFKA_BROKERS=" + strings.Join(broker.Addrs, ",")}, "outbox", "process", "-o", "json")
	var line map[string]any
	if err := json.Unmarshal([]byte(r.stderr), &line); r.code != ExitOK || err != nil || line["action"] != "processPending" || line["processed"] != 0.0 || line["duration_ms"] == nil {
		t.Errorf("exit code %d, the log is %s, %v", r.code, r.stderr, err)
	}
	decode[relay.ActionResult](t, r.stdout)
	r = postrider(t, []string{"DATABASE_URL=" + db.URL, "OUTBOX_LOG=true"}, "outbox", "cleanup", "--dry-run", "-o", "json")
	if err := json.Unmarshal([]byte(r.stderr), &line); r.code != ExitOK || err != nil || line["action"] != "cleanup" || line["dry_run"] != true {
		t.Errorf("exit code %d, the log is %s, %v", r.code, r.stderr, err)
	}
}

func TestOutboxActionsFail(t *testing.T) {
	t.Parallel()
	db, empty := pgtest.New(t), pgtest.NewEmpty(t)
	const unused = "127.0.0.1:1"
	for name, c := range map[string]struct {
		url    string
		args   []string
		code   int
		stderr string
	}{
		"no brokers":      {db.URL, []string{"outbox", "process"}, ExitUsage, "kafka.brokers is not set"},
		"brokers away":    {db.URL, []string{"outbox", "process", "--kafka-brokers", unused}, ExitFailure, "no broker answers"},
		"retry, away":     {db.URL, []string{"outbox", "retry", "--kafka-brokers", unused}, ExitFailure, "no broker answers"},
		"limit":           {db.URL, []string{"outbox", "retry", "--limit", "-1"}, ExitUsage, "--limit is -1"},
		"output":          {db.URL, []string{"outbox", "cleanup", "-o", "xml"}, ExitUsage, `-o is "xml"`},
		"no retention":    {db.URL, []string{"outbox", "cleanup", "--outbox-dead-letter-retention-days", "0"}, ExitUsage, "outbox.dead_letter_retention_days"},
		"no schema":       {empty.URL, []string{"outbox", "cleanup"}, ExitFailure, "not ready"},
		"process, schema": {empty.URL, []string{"outbox", "process", "--kafka-brokers", unused}, ExitFailure, "not ready"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := postrider(t, []string{"DATABASE_URL=" + c.url}, c.args...)
			if r.code != c.code || !strings.Contains(r.stderr, c.stderr) {
				t.Errorf("exit code %d, want %d; %q is not in %s", r.code, c.code, c.stderr, r.stderr)
			}
			if r.stdout != "" {
				t.Errorf("nothing was done, and it prints %s", r.stdout)
			}
		})
	}
}

// The rights of the role postrider_relay are enough for a cleanup; the rights of an operator are not, and the error says
// so.
func TestCleanupRights(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	conn := db.Conn(t)
	if err := migrations.ApplyRoles(t.Context(), conn); err != nil {
		t.Fatal(err)
	}
	for role, code := range map[string]int{"postrider_relay": ExitOK, "postrider_operator": ExitFailure} {
		u, err := url.Parse(db.URL)
		if err != nil {
			t.Fatal(err)
		}
		q := u.Query()
		q.Set("role", role)
		u.RawQuery = q.Encode()
		r := postrider(t, []string{"DATABASE_URL=" + u.String()}, "outbox", "cleanup")
		if r.code != code || code != ExitOK && !strings.Contains(r.stderr, "grant postrider_relay") {
			t.Errorf("%s: exit code %d, %s", role, r.code, r.stderr)
		}
	}
}

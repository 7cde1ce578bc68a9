package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/postrider/postrider/internal/testenv/buildtest"
	"github.com/postrider/postrider/internal/testenv/kafkatest"
	"github.com/postrider/postrider/internal/testenv/pgtest"
)

// shipment is a template that a user might write.
const shipment = `
name: shipment
namespace_name: walk
version: 1.0.0
events:
  topic: %s
steps:
  - {name: pick}
  - {name: ship, dependencies: [pick], max_retries: 0}
`

// work is what a service might do in its own transactions: two tasks side by side. One of them fails, is retried
// as a whole and then cancelled.
const work = `
select postrider.create_task('walk', 'shipment', '{"order": 1}') as one \gset
select postrider.create_task('walk', 'shipment', '{"order": 2}') as two \gset
begin;
select postrider.create_task('walk', 'shipment', '{"order": "rolled back"}');
rollback;
select workflow_step_uuid as pick1 from postrider.get_ready_steps(:'one') \gset
select workflow_step_uuid as pick2 from postrider.get_ready_steps(:'two') \gset
select postrider.start_step(:'pick1', 'psql');
select postrider.start_step(:'pick2', 'psql');
select postrider.complete_step(:'pick2');
select postrider.complete_step(:'pick1', '{"shelf": 7}');
select workflow_step_uuid as ship1 from postrider.get_ready_steps(:'one') \gset
select workflow_step_uuid as ship2 from postrider.get_ready_steps(:'two') \gset
begin;
select postrider.start_step(:'ship1', 'psql');
select postrider.complete_step(:'ship1');
commit;
select postrider.start_step(:'ship2', 'psql');
select postrider.fail_step(:'ship2', 'the van broke down');
select postrider.retry_task(:'two', 'psql');
select postrider.cancel_task(:'two', 'psql', 'enough');
\echo :one :two
`

// lifecycleEvent is what a consumer of lifecycle events reads.
type lifecycleEvent struct {
	Type       string `json:"-"`
	TaskUUID   string `json:"task_uuid"`
	FromState  string `json:"from_state"`
	ToState    string `json:"to_state"`
	SortKey    int    `json:"sort_key"`
	StepName   string `json:"step_name"`
	FromStatus string `json:"from_status"`
	ToStatus   string `json:"to_status"`
}

// A consumer that knows nothing but Kafka and JSON sees each task's events once and in the order in which it
// changed, and none of what was rolled back; the task that failed becomes an investigation.
func TestLifecycleEvents(t *testing.T) {
	t.Parallel()
	kafkatest.Each(t, func(t *testing.T, b *kafkatest.Broker) {
		db := pgtest.New(t)
		topic := b.Topic(t, 3, nil)
		program, template := buildtest.Program(t, "cmd/postrider"), filepath.Join(t.TempDir(), "shipment.yaml")
		if err := os.WriteFile(template, fmt.Appendf(nil, shipment, topic), 0o600); err != nil {
			t.Fatal(err)
		}
		command(t, program, "template", "apply", template, "--database-url", db.URL)
		dlq := b.Topic(t, 1, nil)
		// The settings of serve, as far as the ledger needs them before it runs.
		command(t, psqlPath(t), db.URL, "-qc", fmt.Sprintf("update postrider.tasker_settings set dlq_topic = '%s'", dlq))
		psql := exec.CommandContext(t.Context(), psqlPath(t), db.URL, "-qAt", "-v", "ON_ERROR_STOP=1")
		psql.Stdin = strings.NewReader(work)
		out, err := psql.CombinedOutput()
		if err != nil {
			t.Fatalf("psql: %v\n%s", err, out)
		}
		lines := strings.Split(strings.TrimSpace(string(out)), "\n")
		one, two, _ := strings.Cut(lines[len(lines)-1], " ")

		serve := exec.Command(program, "serve", "--http", "127.0.0.1:0")
		var log bytes.Buffer
		serve.Stderr = &log
		serve.Env = append(os.Environ(), "DATABASE_URL="+db.URL, "KAFKA_BROKERS="+strings.Join(b.Addrs, ","), "DLQ_TOPIC="+dlq, "DLQ_GROUP="+dlq)
		if err := serve.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = serve.Process.Kill() })
		written := strings.TrimSpace(command(t, psqlPath(t), db.URL, "-qAtc", fmt.Sprintf("select count(*) from postrider.outbox_event where topic = '%s'", topic)))
		events := consume(t, b, topic, written)
		if len(events) != 2 {
			t.Errorf("events of %d tasks, want 2: what was rolled back must not be there", len(events))
		}
		if got := states(t, events[one]); !strings.HasPrefix(got, "pending ") || !strings.HasSuffix(got, " complete") {
			t.Errorf("the first task was %s", got)
		}
		if got := states(t, events[two]); !strings.HasPrefix(got, "pending ") || !strings.HasSuffix(got, " error pending cancelled") {
			t.Errorf("the second task was %s", got)
		}
		if got := steps(t, events[one]); got != "pick:in_progress pick:complete ship:in_progress ship:complete" {
			t.Errorf("the steps of the first task were %s", got)
		}
		if got := steps(t, events[two]); got != "pick:in_progress pick:complete ship:in_progress ship:error ship:pending ship:cancelled" {
			t.Errorf("the steps of the second task were %s", got)
		}
		retried := slices.IndexFunc(events[two], func(e lifecycleEvent) bool { return e.Type == "postrider.task.retry_queued.v1" })
		if retried < 1 || events[two][retried-1].ToState != "pending" {
			t.Errorf("the retry of the second task is event %d", retried)
		}
		entry := investigation(t, program, db.URL)
		if entry["subject_id"] != two || entry["dlq_reason"] != "max_retries_exceeded" {
			t.Errorf("the investigation is %v", entry)
		}
		if err := serve.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		if err := serve.Wait(); err != nil {
			t.Errorf("serve did not stop cleanly: %v\n%s", err, &log)
		}
	})
}

// states joins the states that a task's events tell of, and checks that each begins where the last ended.
func states(t *testing.T, events []lifecycleEvent) string {
	t.Helper()
	var seen []string
	for i, e := range events {
		switch e.Type {
		case "postrider.task.created.v1":
			if i != 0 {
				t.Errorf("a task is created by its event %d", i)
			}
		case "postrider.task.transitioned.v1":
			if len(seen) == 0 || e.FromState != seen[len(seen)-1] || e.SortKey != len(seen)+1 {
				t.Errorf("transition %d from %s follows %q", e.SortKey, e.FromState, seen)
			}
		default:
			continue
		}
		seen = append(seen, e.ToState)
	}
	return strings.Join(seen, " ")
}

// steps joins what the events tell of a task's steps, and checks that each begins where the last ended.
func steps(t *testing.T, events []lifecycleEvent) string {
	t.Helper()
	var seen []string
	last := map[string]string{"pick": "pending", "ship": "pending"}
	for _, e := range events {
		if e.Type != "postrider.task.step_transitioned.v1" {
			continue
		}
		if e.FromStatus != last[e.StepName] {
			t.Errorf("step %s goes from %s, it was %s", e.StepName, e.FromStatus, last[e.StepName])
		}
		last[e.StepName] = e.ToStatus
		seen = append(seen, e.StepName+":"+e.ToStatus)
	}
	return strings.Join(seen, " ")
}

// consume reads a topic from its beginning until as many records are there, and returns each task's events in the
// order of its partition.
func consume(t *testing.T, b *kafkatest.Broker, topic, written string) map[string][]lifecycleEvent {
	t.Helper()
	var count int
	if _, err := fmt.Sscan(written, &count); err != nil || count == 0 {
		t.Fatalf("%q events were written", written)
	}
	events, seen := map[string][]lifecycleEvent{}, map[string]bool{}
	for _, r := range readTopic(t, b, topic, count) {
		var e lifecycleEvent
		if err := json.Unmarshal([]byte(r.value), &e); err != nil {
			t.Fatalf("%v: %s", err, r.value)
		}
		e.Type = r.headers["ce_type"]
		if e.TaskUUID != r.key || r.headers["ce_subject"] != r.key || r.headers["ce_id"] != r.headers["postrider-event-id"] {
			t.Errorf("a record of key %s has the headers %v and the value %s", r.key, r.headers, r.value)
		}
		if seen[r.headers["ce_id"]] {
			t.Errorf("event %s came twice", r.headers["ce_id"])
		}
		seen[r.headers["ce_id"]] = true
		events[r.key] = append(events[r.key], e)
	}
	return events
}

type shown struct {
	key, value string
	headers    map[string]string
}

// readTopic reads with kcat.
func readTopic(t *testing.T, b *kafkatest.Broker, topic string, count int) []shown {
	t.Helper()
	var all []shown
	kcat, found := kcatPath(t)
	if !found {
		for _, r := range b.ReadAll(t, topic, count) {
			s := shown{key: string(r.Key), value: string(r.Value), headers: map[string]string{}}
			for _, h := range r.Headers {
				s.headers[h.Key] = string(h.Value)
			}
			all = append(all, s)
		}
		return all
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	const part, end = "\x02", "\x01"
	for {
		out, err := exec.CommandContext(ctx, kcat, "-q", "-b", strings.Join(b.Addrs, ","), "-t", topic, "-C", "-o", "beginning", "-e", "-f", "%k"+part+"%h"+part+"%s"+end).Output()
		if err != nil {
			t.Fatalf("kcat: %v", err)
		}
		records := strings.Split(strings.TrimSuffix(string(out), end), end)
		if len(out) == 0 || len(records) < count {
			continue
		}
		for _, record := range records {
			parts := strings.SplitN(record, part, 3)
			s := shown{key: parts[0], value: parts[2], headers: map[string]string{}}
			for _, h := range strings.Split(parts[1], ",") {
				name, value, _ := strings.Cut(h, "=")
				s.headers[name] = value
			}
			all = append(all, s)
		}
		return all
	}
}

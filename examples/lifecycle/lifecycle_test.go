package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/postrider/postrider/examples/stage"
	"github.com/postrider/postrider/internal/tasks/ledgertest"
	"github.com/postrider/postrider/internal/testenv/buildtest"
	"github.com/postrider/postrider/internal/testenv/pgtest"
)

func TestMain(m *testing.M) { stage.Main(m) }

// parcel is the template of the test's tasks. A stale one is looked at and stays.
const parcel = `
name: parcel
namespace_name: example
version: 1.0.0
events: {topic: %s}
lifecycle: {staleness_action: manual_review}
steps:
  - {name: pack}
  - {name: ship, dependencies: [pack], max_retries: 0}
`

// known and true states, each as one text. The archive has the states of tasks that ended long ago.
const (
	knownStates = `select coalesce(string_agg(concat_ws(' ', task_uuid, state, archived_at is not null), e'\n' order by task_uuid), '') from task_state`
	trueStates  = `select coalesce(string_agg(concat_ws(' ', task_uuid, state, archived), e'\n' order by task_uuid), '') from (
		select task_uuid, state, false as archived from postrider.tasker_tasks
		union all select task_uuid, state, true from postrider.tasker_tasks_archive) t`
)

// worker does what workers of tasks do, in plain SQL.
type worker struct {
	t    *testing.T
	pool *pgxpool.Pool
}

func (w worker) ask(query string, args ...any) string {
	w.t.Helper()
	var answer string
	if err := w.pool.QueryRow(w.t.Context(), query, args...).Scan(&answer); err != nil {
		w.t.Fatalf("%s: %v", query, err)
	}
	return answer
}

func (w worker) create() string {
	w.t.Helper()
	return w.ask(`select postrider.create_task('example', 'parcel', '{}')::text`)
}

// step starts the next step of a task and ends it as said.
func (w worker) step(task, end string) {
	w.t.Helper()
	step := w.ask(`select workflow_step_uuid::text from postrider.get_ready_steps($1)`, task)
	w.ask(`select postrider.start_step($1, 'example')::text`, step)
	if end != "" {
		w.ask(`select postrider.`+end+`::text`, step)
	}
}

const done, failed = `complete_step($1)`, `fail_step($1, 'the van broke down')`

func TestLifecycle(t *testing.T) {
	t.Parallel()
	s := stage.New(t)
	topic := s.Broker.Topic(t, 3, nil)
	template := filepath.Join(t.TempDir(), "parcel.yaml")
	if err := os.WriteFile(template, fmt.Appendf(nil, parcel, topic), 0o600); err != nil {
		t.Fatal(err)
	}
	s.Postrider("template", "apply", template)
	s.Serve()

	own := pgtest.NewEmpty(t)
	pool := own.Pool(t)
	program := buildtest.Program(t, "examples/lifecycle")
	environment := []string{"DATABASE_URL=" + own.URL, "KAFKA_BROKERS=" + s.Brokers(), "TOPICS=" + topic, "GROUP=" + topic}
	example := s.Start(program, environment)

	w := worker{t, s.Pool}
	inStep := func() { // both know the same
		t.Helper()
		stage.Eventually(t, "the example's states", pool, w.ask(trueStates), knownStates)
	}
	tasks := make([]string, 6)
	for n := range tasks {
		tasks[n] = w.create()
	}
	w.step(tasks[0], done)
	w.step(tasks[1], done)
	w.step(tasks[2], "")
	stage.Eventually(t, "the example's table", pool, "true", `select (to_regclass('task_state') is not null)::text`)
	inStep()

	// While it is dead the tasks go on.
	example.Kill()
	w.step(tasks[0], done)
	w.step(tasks[1], failed)
	w.ask(`select postrider.retry_task($1, 'example')::text`, tasks[1])
	w.ask(`select postrider.cancel_task($1, 'example', 'enough')::text`, tasks[3])
	example = s.Start(program, environment)
	inStep()

	// One is stale and stays, one goes to the archive.
	id := func(n int) uuid.UUID { return uuid.MustParse(tasks[n]) }
	ledgertest.Age(t, s.Pool, id(2), 2*time.Hour)
	ledgertest.Age(t, s.Pool, id(0), 40*24*time.Hour)
	s.Postrider("task", "detect-stale", "--dry-run=false")
	s.Postrider("archive", "run", "--dry-run=false")
	stage.Eventually(t, "stale and archived tasks", pool, "1 1",
		`select concat_ws(' ', count(stale_since) filter (where task_uuid = $1), count(archived_at) filter (where task_uuid = $2)) from task_state`, tasks[2], tasks[0])
	inStep()
	if got := strings.Count(w.ask(trueStates), " t"); got != 1 { // the example must not agree with an empty archive
		t.Errorf("%d tasks are in the archive", got)
	}

	// Copies of everything come again, the oldest last, and records that are no lifecycle events. Nothing changes.
	records := s.Broker.ReadAll(t, topic, 1)
	client := s.Broker.Client(t)
	for n := len(records) - 1; n >= 0; n-- {
		copied := &kgo.Record{Topic: topic, Key: records[n].Key, Value: records[n].Value, Headers: records[n].Headers}
		if err := client.ProduceSync(t.Context(), copied).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	header := func(name, value string) kgo.RecordHeader { return kgo.RecordHeader{Key: name, Value: []byte(value)} }
	for _, value := range []string{"no JSON", `{"task_uuid": "x", "to_state": "y", "sort_key": 1}`, `{"task_uuid": "` + tasks[4] + `", "to_state": "\u0000", "sort_key": 99}`} {
		key := "x"
		if strings.Contains(value, tasks[4]) {
			key = tasks[4]
		}
		if err := client.ProduceSync(t.Context(), &kgo.Record{Topic: topic, Key: []byte(key), Value: []byte(value),
			Headers: []kgo.RecordHeader{header("ce_type", typeTransitioned), header("ce_subject", key)}}).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	s.CaughtUp(topic, topic)
	inStep()
	stage.Eventually(t, "the stale task is still known as such", pool, "1", `select count(stale_since)::text from task_state`)
	example.Stop()
	if got := strings.Count(example.Log(), "not a lifecycle event"); got != 3 {
		t.Errorf("%d records were passed over, want 3:\n%s", got, example.Log())
	}
}

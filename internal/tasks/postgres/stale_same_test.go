package postgres_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/postrider/postrider/internal/tasks/ledger"
	"github.com/postrider/postrider/internal/tasks/ledgertest"
)

var (
	anyUUID = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)
	anyTime = regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)`)
)

// without takes what differs between any two tasks out of a JSON text: uuids and times.
func without(t *testing.T, text string) string {
	t.Helper()
	text = anyTime.ReplaceAllString(anyUUID.ReplaceAllString(text, "UUID"), "TIME")
	var value any
	if err := json.Unmarshal([]byte(text), &value); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	raw, err := json.MarshalIndent(value, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// everything is all that the database has of a task, and all events that were written about it since the outbox id, without what differs between any two tasks.
func (f *fixture) everything(id uuid.UUID, since string) string {
	f.t.Helper()
	text := f.answer(`
		select jsonb_build_object(
			'task', (select to_jsonb(t) from postrider.tasker_tasks t where t.task_uuid = $1),
			'transitions', (select jsonb_agg(to_jsonb(r) order by r.sort_key) from postrider.tasker_task_transitions r where r.task_uuid = $1),
			'steps', (select jsonb_agg(to_jsonb(s) order by s.position) from postrider.tasker_workflow_steps s where s.task_uuid = $1),
			'events', (select jsonb_agg(to_jsonb(e) - 'id' - 'shard' - 'payload' || jsonb_build_object('payload', convert_from(e.payload, 'UTF8')::jsonb) order by e.id)
				from postrider.outbox_event e where e.key = convert_to($1::text, 'UTF8') and e.id > $2::bigint))::text`, id, since)
	// The key is the task's uuid, as bytes.
	text = strings.ReplaceAll(text, fmt.Sprintf(`\\x%x`, []byte(id.String())), "KEY")
	return without(f.t, text)
}

// TestBatchIsTheSameAsOneByOne: what the detector writes for a whole batch is what transition_task_state_atomic
// and task_dead_letter write for one task: rows, history, events, headers, letters, and the cut of a letter that is too
// large; also where failed tasks have come to an end.
func TestBatchIsTheSameAsOneByOne(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		context, configuration string
		settings, machine      string
	}{
		"plain":                   {`{"order": 42}`, `{"steps": [{"name": "one", "inputs": {"a": 1}}, {"name": "two", "dependencies": ["one"]}]}`, "", ""},
		"no steps":                {`{}`, `{}`, "", ""},
		"topic of its own":        {`{}`, `{"events": {"topic": "orders.lifecycle"}}`, "", ""},
		"identified only":         {`{"order": 42}`, `{"steps": [{"name": "one"}]}`, `include_full_task_snapshot = false`, ""},
		"large context":           {`{"blob": "` + strings.Repeat("x", 1_000_000) + `"}`, `{"steps": [{"name": "one"}]}`, "", ""},
		"large context, no steps": {`{"blob": "` + strings.Repeat("x", 1_000_000) + `"}`, `{}`, "", ""},
		"large inputs":            {`{}`, `{"steps": [{"name": "one", "inputs": {"blob": "` + strings.Repeat("y", 950_000) + `"}}]}`, "", ""},
		"other topics":            {`{}`, `{}`, `dlq_topic = 'dead', lifecycle_topic = 'life'`, ""},
		"unusual text":            {`{"ä": "\" \\ \n ☃"}`, `{"steps": [{"name": "ä \" b"}]}`, "", ""},
		"large name of a step":    {`{}`, `{"steps": [{"name": "` + strings.Repeat("s", 250) + `"}]}`, "", ""},
		"failing is the end":      {`{"order": 42}`, `{"steps": [{"name": "one"}]}`, "", "final"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			if c.settings != "" {
				f.exec(`update postrider.tasker_settings set ` + c.settings)
			}
			ledgertest.AddMachine(t, f.pool, ledgertest.Machine{Name: "final", Initial: "pending", Failed: "error",
				States:      map[string]string{"pending": "initial", "steps_in_process": "active", "error": "terminal"},
				Transitions: map[string][]string{"pending": {"steps_in_process", "error"}, "steps_in_process": {"error"}}})
			ledgertest.Apply(t, f.pool, ledgertest.Template{Configuration: c.configuration, Machine: c.machine})
			create := func() uuid.UUID {
				id := ledgertest.Create(t, f.pool, ledgertest.New{Context: c.context})
				ledgertest.Put(t, f.pool, id, "steps_in_process")
				return id
			}
			one, other := create(), create()
			ledgertest.Age(t, f.pool, other, time.Hour)
			since := f.answer(`select max(id)::text from postrider.outbox_event`)
			d := ledger.DefaultDetection()
			d.EmitEvents = false
			if s := f.detect(d)[other]; s.ActionTaken != ledger.StaleMovedToDLQ {
				t.Fatalf("%+v", s)
			}

			var metadata json.RawMessage
			var sortKey int
			f.must(f.pool.QueryRow(t.Context(), `select metadata, sort_key from postrider.tasker_task_transitions where task_uuid = $1 and most_recent`, other).Scan(&metadata, &sortKey))
			moved, err := f.Transition(t.Context(), one, "steps_in_process", "error", metadata)
			f.must(err)
			if !moved {
				t.Fatal("the task was not moved")
			}
			f.exec(`select postrider.task_dead_letter($1, 'staleness_timeout', 'steps_in_process', $2, 'STALE_STATE', ($3::jsonb)->>'error_reason', $3::jsonb)`, one, sortKey-1, string(metadata))

			got, want := f.everything(other, since), f.everything(one, since)
			if got != want {
				t.Errorf("of the batch:\n%s\none by one:\n%s", difference(got, want), difference(want, got))
			}
			if !strings.Contains(got, "dead_lettered.v1") || !strings.Contains(got, "transitioned.v1") {
				t.Errorf("there is no event in %s", got)
			}
			if ended := strings.Contains(got, `"completed_at": "TIME"`); ended != (c.machine == "final") {
				t.Errorf("completed: %v", ended)
			}
			if big := strings.HasPrefix(name, "large context") || name == "large inputs"; big != strings.Contains(got, `"truncated": true`) {
				t.Errorf("truncated: %v", !big)
			}
		})
	}
}

// difference are the lines of a that are not in b.
func difference(a, b string) string {
	var out bytes.Buffer
	known := map[string]bool{}
	for line := range strings.Lines(b) {
		known[line] = true
	}
	for line := range strings.Lines(a) {
		if !known[line] {
			out.WriteString(line[:min(len(line), 300)])
		}
	}
	return out.String()
}

// The event about a stale task says why the task is stale. The setting EventChannel is the last word of its type.
func TestStaleEvent(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.settings(ledger.Settings{LifecycleTopic: "life", DLQTopic: "dead", EventChannel: "late", IncludeFullTaskSnapshot: true})
	f.template("x", `{"staleness_action": "manual_review", "max_steps_in_process_minutes": 7}`)
	id := f.stuck("x", "steps_in_process", time.Hour)
	f.detect(ledger.DefaultDetection())
	events := ledgertest.OfType(ledgertest.Events(t, f.pool, id), "postrider.task.late.v1")
	if len(events) != 1 || events[0].Topic != "life" {
		t.Fatalf("the events are %+v", events)
	}
	want := without(t, `{"task_uuid": "`+id.String()+`", "namespace_name": "default", "task_name": "x", "version": "1.0.0", "occurred_at": "2026-01-01T00:00:00Z",
		"from_state": "steps_in_process", "to_state": "steps_in_process", "sort_key": 2, "actor": "staleness_detector", "reason": "staleness_timeout",
		"metadata": {"actor": "staleness_detector", "reason": "staleness_timeout", "error_reason": "It was in steps_in_process for 60 minutes; the limit is 7 (template).",
			"error": {"category": "staleness", "reason": "staleness_timeout", "retry_count": 0},
			"time_in_state_minutes": 60, "staleness_threshold_minutes": 7, "threshold_kind": "state", "threshold_source": "template"}}`)
	if got := without(t, string(events[0].Payload)); got != want {
		t.Errorf("the payload is\n%s\nwant\n%s", got, want)
	}
	if l := ledgertest.Letters(t, f.pool, id); len(l) != 1 || l[0].Topic != "dead" {
		t.Errorf("the letters are %+v", l)
	}
}

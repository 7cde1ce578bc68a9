package postgres_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/postrider/postrider/internal/tasks/ledger"
	"github.com/postrider/postrider/internal/tasks/ledgertest"
)

func TestSnapshot(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.apply(`{"steps": [{"name": "b"}, {"name": "a", "dependencies": ["b"]}]}`)
	task := ledgertest.Create(t, f.pool, ledgertest.New{Context: `{"order": 1}`})
	f.do(task, "b")
	raw, err := f.Snapshot(t.Context(), task)
	f.must(err)
	var s struct {
		Task     map[string]any
		Template map[string]any
		Steps    []map[string]any
		History  []map[string]any `json:"transitions"`
	}
	f.must(json.Unmarshal(raw, &s))
	if s.Task["task_uuid"] != task.String() || s.Task["state"] != "enqueuing_steps" || text(t, s.Task["context"]) != `{"order":1}` ||
		s.Template["namespace_name"] != "default" || s.Template["task_name"] != "task" || s.Template["version"] != "1.0.0" || s.Template["machine"] != "workflow" ||
		len(s.Steps) != 2 || s.Steps[0]["step_name"] != "b" || s.Steps[0]["status"] != "complete" || text(t, s.Steps[0]["results"]) != `{"done":true}` ||
		len(s.History) != 6 || s.History[5]["to_state"] != "enqueuing_steps" {
		t.Errorf("the snapshot is %s", raw)
	}
	brief := f.answer(`select postrider.task_snapshot($1, false)::text`, task)
	if strings.Contains(brief, "steps\":") || strings.Contains(brief, "context") || !strings.Contains(brief, task.String()) {
		t.Errorf("without the rest it is %s", brief)
	}
	_, err = f.Snapshot(t.Context(), uuid.New())
	refused(t, err, ledger.ErrNotFound, "no task")
}

// TestLetterOnce: the same stay and reason make one letter, however often it is asked for.
func TestLetterOnce(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.apply(`{}`)
	task := f.task()
	send := func(reason string, sortKey int) bool {
		return f.answer(`select (postrider.task_dead_letter($1, $2::text::postrider.dlq_reason, 'pending', $3, 'CODE', 'why', '{"a": 1}') is not null)::text`, task, reason, sortKey) == "true"
	}
	for _, c := range []struct {
		reason  string
		sortKey int
		sent    bool
	}{{"staleness_timeout", 1, true}, {"staleness_timeout", 1, false}, {"manual_dlq", 1, true}, {"staleness_timeout", 2, true}, {"manual_dlq", 1, false}} {
		if got := send(c.reason, c.sortKey); got != c.sent {
			t.Errorf("%+v: sent %v", c, got)
		}
	}
	letters := ledgertest.Letters(t, f.pool, task)
	if len(letters) != 3 || letters[0].Topic != "postrider.dlq" || letters[0].Kind != "task" {
		t.Fatalf("the letters are %+v", letters)
	}
	var body map[string]any
	f.must(json.Unmarshal(letters[0].Payload, &body))
	delete(body, "dead_lettered_at")
	delete(body, "snapshot")
	want := map[string]any{
		"letter_id": "task:" + task.String() + ":1:staleness_timeout", "task_uuid": task.String(), "namespace_name": "default", "task_name": "task",
		"version": "1.0.0", "dlq_reason": "staleness_timeout", "original_state": "pending", "error_code": "CODE", "error_message": "why", "metadata": map[string]any{"a": 1.0},
	}
	if got, wanted := text(t, body), text(t, want); got != wanted {
		t.Errorf("the letter is %s, want %s", got, wanted)
	}
	if got := f.answer(`select count(*)::text from postrider.outbox_event where task_uuid is not null`); got != "0" {
		t.Errorf("%s letters are linked to their task", got)
	}

	f.exec(`delete from postrider.outbox_idempotency_key`)
	f.exec(`update postrider.tasker_settings set include_full_task_snapshot = false, dlq_topic = 'tasks.dlq'`)
	if send("manual_dlq", 1) {
		t.Error("the same letter is written again when its idempotency key is gone and the topic is another")
	}
	if !send("worker_unavailable", 1) {
		t.Fatal("not sent")
	}
	brief := ledgertest.Letters(t, f.pool, task)[3]
	if brief.Topic != "tasks.dlq" || strings.Contains(string(brief.Payload), `"transitions"`) || !strings.Contains(string(brief.Payload), `"snapshot": {"task"`) {
		t.Errorf("the brief letter is %s: %s", brief.Topic, brief.Payload)
	}
}

// TestLetterFits: if a part of the task is too large for a letter, it is left out, and the letter says so.
func TestLetterFits(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.apply(`{}`)
	// Random, so that nothing about it depends on compression.
	large := `(select string_agg(md5(i::text || random()), '') from generate_series(1, 40000) i)`
	steps := `(select jsonb_agg(jsonb_build_object('name', 'step ' || i)) from generate_series(1, 3000) i)`
	for _, c := range []struct {
		what, create string
		lost, kept   []string
	}{
		{"a large context", `postrider.create_task('default', 'task', jsonb_build_object('blob', ` + large + `))`,
			[]string{`"blob"`}, []string{`"transitions": [{`, `"steps": []`, `"truncated": true`, `"context": 12800`}},
		{"large inputs", `postrider.create_task('default', 'task', p_steps => jsonb_build_array(jsonb_build_object('name', 'a', 'inputs', ` + large + `)))`,
			[]string{`"inputs": "`}, []string{`"step_name": "a"`, `"truncated": true`, `"inputs": 12800`, `"context": 2`}},
		{"thousands of steps", `postrider.create_task('default', 'task', p_steps => ` + steps + `)`,
			[]string{`"step_name"`}, []string{`"steps": 3000`, `"truncated": true`, `"task_uuid"`}},
	} {
		var task uuid.UUID
		if err := f.pool.QueryRow(t.Context(), `select `+c.create).Scan(&task); err != nil {
			t.Fatal(err)
		}
		f.exec(`select postrider.task_dead_letter($1, 'manual_dlq', 'pending', 1, null, null)`, task)
		payload := string(ledgertest.Letters(t, f.pool, task)[0].Payload)
		if len(payload) > 900000 {
			t.Errorf("%s: the letter has %d bytes", c.what, len(payload))
		}
		for _, word := range c.lost {
			if strings.Contains(payload, word) {
				t.Errorf("%s: the letter still has %s", c.what, word)
			}
		}
		for _, word := range c.kept {
			if !strings.Contains(payload, word) {
				t.Errorf("%s: the letter lacks %s: %.2000s", c.what, word, payload)
			}
		}
	}
}

// TestHardCutSaysWhatTheLetterHad: the letter's own metadata is the last to go, and its size is said; a snapshot that
// only says which task it is has no empty lists that it never had.
func TestHardCutSaysWhatTheLetterHad(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.apply(`{"steps": [{"name": "a"}]}`)
	letter := func(task uuid.UUID, metadata string) (body struct {
		Metadata json.RawMessage
		Snapshot map[string]json.RawMessage
	}) {
		t.Helper()
		f.exec(`select postrider.task_dead_letter($1, 'manual_dlq', 'pending', 1, null, null, $2::jsonb)`, task, metadata)
		letters := ledgertest.Letters(t, f.pool, task)
		f.must(json.Unmarshal(letters[len(letters)-1].Payload, &body))
		if n := len(letters[len(letters)-1].Payload); n > 900000 {
			t.Errorf("the letter has %d bytes", n)
		}
		return body
	}
	size := func(of json.RawMessage, part string) (n int) {
		t.Helper()
		var sizes map[string]int
		f.must(json.Unmarshal(of, &sizes))
		return sizes[part]
	}
	large := `{"log": "` + strings.Repeat("x", 950_000) + `"}`
	whole := letter(f.task(), large)
	if _, steps := whole.Snapshot["steps"]; string(whole.Metadata) != "null" || steps || size(whole.Snapshot["sizes"], "metadata") < 950_000 || size(whole.Snapshot["sizes"], "steps") != 1 {
		t.Errorf("metadata %s, sizes %s", whole.Metadata, whole.Snapshot["sizes"])
	}
	f.exec(`update postrider.tasker_settings set include_full_task_snapshot = false`)
	task := f.task()
	f.exec(`update postrider.tasker_tasks set error_reason = repeat('e', 895000) where task_uuid = $1`, task)
	brief := letter(task, `{"log": "`+strings.Repeat("x", 10_000)+`"}`)
	if _, steps := brief.Snapshot["steps"]; steps || string(brief.Metadata) != "null" || string(brief.Snapshot["truncated"]) != "true" {
		t.Errorf("the brief letter is %s, %.300s", brief.Metadata, brief.Snapshot)
	}
}

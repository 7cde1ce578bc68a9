package postgres_test

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/uuid"

	"github.com/postrider/postrider/internal/tasks/ledger"
	"github.com/postrider/postrider/internal/tasks/ledgertest"
	"github.com/postrider/postrider/internal/tasks/task"
)

func TestCreate(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.apply(`{"steps": [
		{"name": "reserve", "handler": "Stock", "inputs": {"warehouse": 3}},
		{"name": "charge", "handler": {"name": "Cards"}, "dependencies": ["reserve"], "max_retries": 7, "retry_base_seconds": 0.5, "retry_max_seconds": 9},
		{"name": "ship", "handler": {"callable": "Ship"}, "depends_on_step": "charge", "retry_base_seconds": 100}]}`)
	id := uuid.New()
	task, err := f.Create(t.Context(), ledger.NewTask{
		Namespace: "default", Name: "task", Context: json.RawMessage(`{"order": 1}`), Priority: 5, UUID: id, IdempotencyKey: "order-1", Actor: "shop",
	})
	if err != nil || task != id {
		t.Fatalf("created %s, %v", task, err)
	}
	got, err := f.Task(t.Context(), task)
	f.must(err)
	if got.Namespace != "default" || got.Name != "task" || got.Version != "1.0.0" || got.State != "pending" || got.Kind != "initial" || !got.Live ||
		got.SortKey != 1 || got.Priority != 5 || string(got.Context) != `{"order": 1}` || *got.IdempotencyKey != "order-1" || got.CompletedAt != nil {
		t.Errorf("the task is %+v", got)
	}
	steps, err := f.Steps(t.Context(), task)
	if err != nil || len(steps) != 3 {
		t.Fatalf("the steps are %+v, %v", steps, err)
	}
	for i, want := range []ledger.Step{
		{Name: "reserve", Handler: ptr("Stock"), MaxRetries: 3, RetryBaseSeconds: 1, RetryMaxSeconds: 60, Inputs: json.RawMessage(`{"warehouse": 3}`)},
		{Name: "charge", Handler: ptr("Cards"), Dependencies: []string{"reserve"}, MaxRetries: 7, RetryBaseSeconds: 0.5, RetryMaxSeconds: 9},
		{Name: "ship", Handler: ptr("Ship"), Dependencies: []string{"charge"}, MaxRetries: 3, RetryBaseSeconds: 100, RetryMaxSeconds: 100},
	} {
		s := steps[i]
		if s.Name != want.Name || *s.Handler != *want.Handler || !slices.Equal(s.Dependencies, want.Dependencies) || s.MaxRetries != want.MaxRetries ||
			s.RetryBaseSeconds != want.RetryBaseSeconds || s.RetryMaxSeconds != want.RetryMaxSeconds || string(s.Inputs) != string(want.Inputs) ||
			s.Position != i || s.Status != ledger.StepPending || s.RetryCount != 0 || s.TaskUUID != task || s.Results != nil || s.LastError != nil {
			t.Errorf("step %d is %+v", i, s)
		}
	}
	history, err := wholeHistory(t.Context(), f.StepTransitions, task)
	if err != nil || len(history) != 3 || history[0].FromStatus != nil || history[0].ToStatus != "pending" {
		t.Errorf("the history of the steps is %+v, %v", history, err)
	}
	events := ledgertest.Events(t, f.pool, task)
	if len(events) != 1 || !strings.Contains(string(events[0].Payload), `"actor": "shop"`) || !strings.Contains(string(events[0].Payload), `"step_name": "charge"`) {
		t.Errorf("the events are %q: %s", f.told(task), events[0].Payload)
	}
}

func ptr[T any](v T) *T { return &v }

// TestCreateOnce: the same key is the same task, also at the same time and across versions of the template;
// another template has keys of its own.
func TestCreateOnce(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.apply(`{}`)
	once := ledger.NewTask{Namespace: "default", Name: "task", IdempotencyKey: "order-1"}
	ids := make([]uuid.UUID, 8)
	var wg sync.WaitGroup
	for i := range ids {
		wg.Go(func() {
			var err error
			if ids[i], err = f.Create(t.Context(), once); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	ledgertest.Apply(t, f.pool, ledgertest.Template{Version: "1.1.0"})
	later, err := f.Create(t.Context(), once)
	f.must(err)
	for _, id := range append(ids, later) {
		if id != ids[0] {
			t.Fatalf("the tasks are %v and %s", ids, later)
		}
	}
	if got := f.told(ids[0]); !slices.Equal(got, []string{"created >pending"}) {
		t.Errorf("the outbox has %q", got)
	}
	ledgertest.Apply(t, f.pool, ledgertest.Template{Name: "other"})
	if other, err := f.Create(t.Context(), ledger.NewTask{Namespace: "default", Name: "other", IdempotencyKey: "order-1"}); err != nil || other == later {
		t.Errorf("the other template's task is %s, %v", other, err)
	}
	_, err = f.Create(t.Context(), ledger.NewTask{Namespace: "default", Name: "task", IdempotencyKey: strings.Repeat("k", 513)})
	refused(t, err, ledger.ErrInvalid, "idempotency_key is 513 bytes")
	_, err = f.Create(t.Context(), ledger.NewTask{Namespace: "default", Name: "task", UUID: later})
	refused(t, err, ledger.ErrExists, later.String(), "idempotency key")
}

// TestCreateOfTheNewestVersion: by number, not by spelling.
func TestCreateOfTheNewestVersion(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for _, version := range []string{"1.9.0", "1.10.0", "1.2.30", "draft"} {
		ledgertest.Apply(t, f.pool, ledgertest.Template{Version: version})
	}
	ledgertest.Apply(t, f.pool, ledgertest.Template{Namespace: "elsewhere", Version: "9.0.0"})
	for given, want := range map[string]string{"": "1.10.0", "1.2.30": "1.2.30", "draft": "draft"} {
		task := ledgertest.Create(t, f.pool, ledgertest.New{Version: given})
		if got, err := f.Task(t.Context(), task); err != nil || got.Version != want || got.Namespace != "default" {
			t.Errorf("version %q is %+v, %v", given, got, err)
		}
	}
	_, err := f.Create(t.Context(), ledger.NewTask{Namespace: "default", Name: "task", Version: "2.0.0"})
	refused(t, err, ledger.ErrNotFound, "no template default/task@2.0.0", "1.10.0, 1.2.30, 1.9.0, draft")
	_, err = f.Create(t.Context(), ledger.NewTask{Namespace: "nowhere", Name: "task"})
	refused(t, err, ledger.ErrNotFound, "no template nowhere/task", "template apply")
}

func TestCreateRefusesSteps(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.apply(`{}`)
	for steps, mention := range map[string]string{
		`{}`:                                      "steps: must be a list, not a mapping",
		`[7]`:                                     "steps[0]: must be a mapping, lines of the form name: value, not the number 7",
		`[{"handler": "x"}]`:                      "steps[0].name: is missing; add it",
		`[{"name": ""}]`:                          "steps[0].name: must be a text of 1 to 256 bytes, it has 0",
		`[{"name": "a"}, {"name": "a"}]`:          "steps[1].name: a step a is there already, in steps[0]; give each its own name",
		`[{"name": "a", "dependencies": ["b"]}]`:  "steps[0].dependencies[0]: unknown step b; there are a",
		`[{"name": "a", "dependencies": [1]}]`:    "steps[0].dependencies[0]: must be a text, not the number 1; put it in quotes",
		`[{"name": "a", "dependencies": "a"}]`:    "steps[0].dependencies: must be a list, not the text \"a\"",
		`[{"name": "a", "depends_on_step": "b"}]`: "steps[0].depends_on_step[0]: unknown step b",
		`[{"name": "a", "max_retries": -1}]`:      "steps[0].max_retries: must be a whole number from 0 to 1000, not the number -1",
		`[` + strings.Repeat(`{"name": "a"}, `, 5000) + `{"name": "b"}]`: "steps: has 5001 steps; a task has at most 5000; make several",
	} {
		_, err := f.Create(t.Context(), ledger.NewTask{Namespace: "default", Name: "task", Steps: json.RawMessage(steps)})
		refused(t, err, ledger.ErrInvalid, mention)
	}
	if got := f.answer(`select count(*)::text from postrider.tasker_tasks`); got != "0" {
		t.Errorf("refused tasks left %s rows", got)
	}
}

// TestStepsAreRefusedInTheWordsOfTemplates: steps that a template may not have, a task may not have either, and both are
// refused in the same words. Only the parser of templates also says how a name may have been meant, and the line.
func TestStepsAreRefusedInTheWordsOfTemplates(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.apply(`{}`)
	long := strings.Repeat("x", 257)
	for _, steps := range []string{
		`{}`, `"many"`, `5`, `true`, `[7]`, `["a"]`, `[null]`, `[[]]`, `[{}]`, `[{"name": null}]`, `[{"name": 5}]`, `[{"name": false}]`, `[{"name": []}]`, `[{"name": ""}]`,
		`[{"name": "` + long + `"}]`, `[{"name": "a"}, {"name": "b"}, {"name": "a"}]`, `[{"name": "a", "max_retry": 3}]`, `[{"name": "a", "dependancies": []}]`,
		`[{"name": "a", "description": 7}]`, `[{"name": "a", "handler": ""}]`, `[{"name": "a", "handler": "` + long + `"}]`, `[{"name": "a", "handler": ["h"]}]`,
		`[{"name": "a", "handler": 1}]`, `[{"name": "a", "metadata": "m"}]`, `[{"name": "a"}, {"name": "b", "dependencies": "a"}]`,
		`[{"name": "a"}, {"name": "b", "dependencies": {"a": 1}}]`, `[{"name": "a"}, {"name": "b", "dependencies": ["zz"]}]`, `[{"name": "a", "dependencies": [1]}]`,
		`[{"name": "a"}, {"name": "b", "dependencies": ["a"], "depends_on_step": "a"}]`, `[{"name": "a", "depends_on_step": 4}]`, `[{"name": "a", "depends_on_step": "zz"}]`,
		`[{"name": "a", "max_retries": -1}]`, `[{"name": "a", "max_retries": 1001}]`, `[{"name": "a", "max_retries": 1.5}]`, `[{"name": "a", "max_retries": "3"}]`,
		`[{"name": "a", "max_retries": 123456789012345678901234567890}]`, `[{"name": "a", "retry_base_seconds": 0}]`, `[{"name": "a", "retry_base_seconds": "1"}]`,
		`[{"name": "a", "retry_max_seconds": 99999999999999}]`, `[{"name": "a", "retry_base_seconds": 10, "retry_max_seconds": 5}]`,
	} {
		_, err := task.Parse("t", []byte(`{"name": "n", "namespace_name": "ns", "version": "1.0.0", "steps": `+steps+`}`))
		problem, ok := errors.AsType[*task.InvalidError](err)
		if !ok {
			t.Errorf("a template may have the steps %s: %v", steps, err)
			continue
		}
		text, _, _ := strings.Cut(problem.Problems[0].Text, "; t") // the nearest, there are
		text, _, _ = strings.Cut(text, ", in line ")
		_, err = f.Create(t.Context(), ledger.NewTask{Namespace: "default", Name: "task", Steps: json.RawMessage(steps)})
		refused(t, err, ledger.ErrInvalid, problem.Problems[0].Path+": "+text)
	}
	// Of a name that is listed twice the second place is not told.
	_, err := f.Create(t.Context(), ledger.NewTask{Namespace: "default", Name: "task", Steps: json.RawMessage(`[{"name": "a"}, {"name": "b", "dependencies": ["a", "a"]}]`)})
	refused(t, err, ledger.ErrInvalid, "steps[1].dependencies: a is listed twice; keep one")
	// A key without a value is an unset one.
	made := ledgertest.Create(t, f.pool, ledgertest.New{Steps: `[{"name": "a", "handler": null, "dependencies": null, "max_retries": null, "inputs": [1], "metadata": {"m": 1}, "description": "d"}]`})
	if got, err := f.Steps(t.Context(), made); err != nil || got[0].MaxRetries != 3 || got[0].Handler != nil || string(got[0].Inputs) != "[1]" {
		t.Errorf("the steps are %+v, %v", got, err)
	}
}

// TestWhatIsTooLarge: a few bytes of JSON can be a hundred thousand when they are written out.
func TestWhatIsTooLarge(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.apply(`{"steps": [{"name": "a"}]}`)
	numbers := func(n int) json.RawMessage {
		return json.RawMessage(`{"a": [` + strings.TrimSuffix(strings.Repeat("1e131000,", n), ",") + "]}")
	}
	_, err := f.Create(t.Context(), ledger.NewTask{Namespace: "default", Name: "task", Context: numbers(17)})
	refused(t, err, ledger.ErrInvalid, "bytes as text, it must be 2097152 at most")
	if _, err := f.Create(t.Context(), ledger.NewTask{Namespace: "default", Name: "task", Context: numbers(15)}); err != nil {
		t.Error(err)
	}
}

// TestWhatIsNestedTooDeeply: JSON with too many levels is refused wherever a service gives JSON, because a dead letter of
// a task with it could not be read.
func TestWhatIsNestedTooDeeply(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.apply(`{"steps": [{"name": "a"}, {"name": "b"}]}`)
	nested := func(levels int) string {
		return `{"a": ` + strings.Repeat("[", levels) + strings.Repeat("]", levels) + "}"
	}
	task := ledgertest.Create(t, f.pool, ledgertest.New{Context: nested(500)})
	a, b := f.step(task, "a").UUID, f.step(task, "b").UUID
	f.must(f.StartStep(t.Context(), a, ""))
	deep := json.RawMessage(nested(501))
	refused(t, f.CompleteStep(t.Context(), a, deep), ledger.ErrInvalid, "the result of a step is nested more than 500 levels deep")
	_, err := f.Act(t.Context(), task, b, ledger.StepAction{Action: ledger.ActionCompleteManually, Results: deep})
	refused(t, err, ledger.ErrInvalid, "the result of a step is nested")
	_, err = f.Create(t.Context(), ledger.NewTask{Namespace: "default", Name: "task", Context: deep})
	refused(t, err, ledger.ErrInvalid, "the context is nested more than 500 levels deep; make it flatter")
	_, err = f.Create(t.Context(), ledger.NewTask{Namespace: "default", Name: "task", Steps: json.RawMessage(`[{"name": "a", "inputs": ` + string(deep) + "}]")})
	refused(t, err, ledger.ErrInvalid, "one of the steps is nested")
	_, err = f.Transition(t.Context(), task, "pending", "error", deep)
	refused(t, err, ledger.ErrInvalid, "metadata of a transition is nested")
	f.must(f.CompleteStep(t.Context(), a, json.RawMessage(nested(500))))
	if got, err := f.Task(t.Context(), task); err != nil || !strings.Contains(string(got.Context), "[[[") {
		t.Errorf("what may be nested so deeply is read as %.100s, %v", got.Context, err)
	}
}

// TestCreateWithACycle is workflow 3 as far as the ledger goes: if steps depend on each other in a cycle, the task is in
// error with a dead letter, and stays so when its steps are cancelled.
func TestCreateWithACycle(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.apply(`{"start_event": {"topic": "begin"}}`)
	cycle := `[{"name": "ship", "dependencies": ["pay"]}, {"name": "pay", "dependencies": ["validate"]}, {"name": "validate", "dependencies": ["ship"]},
		{"name": "mail", "dependencies": ["ship"]}, {"name": "log"}]`
	task := ledgertest.Create(t, f.pool, ledgertest.New{Steps: cycle})
	f.in(task, "error")
	if got, want := f.told(task), []string{"created >pending", "transitioned pending>initializing", "transitioned initializing>waiting_for_dependencies",
		"transitioned waiting_for_dependencies>error", "dead_lettered"}; !slices.Equal(got, want) {
		t.Errorf("the outbox has %q, want %q", got, want)
	}
	letter := ledgertest.Letters(t, f.pool, task)[0]
	var body struct {
		ID       string `json:"letter_id"`
		Reason   string `json:"dlq_reason"`
		Original string `json:"original_state"`
		Code     string `json:"error_code"`
		Message  string `json:"error_message"`
		Metadata struct{ Steps []string }
	}
	f.must(json.Unmarshal(letter.Payload, &body))
	if body.ID != "task:"+task.String()+":3:dependency_cycle_detected" || body.Reason != "dependency_cycle_detected" || body.Original != "waiting_for_dependencies" ||
		body.Code != "DEPENDENCY_CYCLE_DETECTED" || !slices.Equal(body.Metadata.Steps, []string{"pay", "ship", "validate"}) ||
		!strings.Contains(body.Message, "pay, ship, validate depend on each other in a cycle") || letter.Topic != "postrider.dlq" {
		t.Errorf("the letter is %s", letter.Payload)
	}
	if got := ledgertest.Read(t, f.pool, task); !strings.Contains(got.ErrorReason, "cycle") || !strings.Contains(string(got.Metadata), "DEPENDENCY_CYCLE_DETECTED") {
		t.Errorf("the task is %+v", got)
	}
	// The steps that depend on a cancelled step are cancelled with it, and the task stays where it failed: what could go on is not
	// begun again by a cancel.
	f.act(task, "ship", ledger.ActionCancel)
	f.in(task, "error")
	if got := f.statuses(task); got != "ship:cancelled pay:cancelled validate:cancelled mail:cancelled log:pending" {
		t.Errorf("the steps are %s", got)
	}
	f.act(task, "log", ledger.ActionCancel)
	f.in(task, "error")

	f.exec(`update postrider.tasker_settings set reason_dependency_cycle_detected = false`)
	quiet := ledgertest.Create(t, f.pool, ledgertest.New{Steps: `[{"name": "a", "dependencies": ["a"]}]`})
	f.in(quiet, "error")
	if letters := ledgertest.Letters(t, f.pool, quiet); len(letters) != 0 {
		t.Errorf("switched off, there are the letters %v", letters)
	}
}

// TestCycleOfAMachineWithoutAFailedState: the letter goes, the task stays.
func TestCycleOfAMachineWithoutAFailedState(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	ledgertest.AddMachine(t, f.pool, ledgertest.Protocol())
	ledgertest.Apply(t, f.pool, ledgertest.Template{Machine: "protocol"})
	task := ledgertest.Create(t, f.pool, ledgertest.New{Steps: `[{"name": "a", "dependencies": ["b"]}, {"name": "b", "dependencies": ["a"]}]`})
	f.in(task, "uploaded")
	if letters := ledgertest.Letters(t, f.pool, task); len(letters) != 1 {
		t.Errorf("there are the letters %v", letters)
	}
}

// TestStartEvent: the template's start event carries the context and is linked to its task.
func TestStartEvent(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.apply(`{"start_event": {"topic": "protocols", "type": "protocol.uploaded.v1"}, "max_retries": 3}`)
	task := ledgertest.Create(t, f.pool, ledgertest.New{Context: `{"file": "a.pdf"}`})
	if got, want := f.told(task), []string{"created >pending", "protocol.uploaded"}; !slices.Equal(got, want) {
		t.Fatalf("the outbox has %q, want %q", got, want)
	}
	e := ledgertest.Events(t, f.pool, task)[1]
	if e.Topic != "protocols" || !strings.Contains(string(e.Payload), `"context": {"file": "a.pdf"}`) || !strings.Contains(string(e.Payload), task.String()) {
		t.Errorf("the start event is %+v: %s", e, e.Payload)
	}
	if got := f.answer(`select task_uuid::text || ' ' || max_attempts from postrider.outbox_event where id = $1`, e.ID); got != task.String()+" 3" {
		t.Errorf("the start event is linked to %s", got)
	}
}

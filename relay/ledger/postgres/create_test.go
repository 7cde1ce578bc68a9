package postgres_test

import (
	"encoding/json"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/uuid"

	"github.com/postrider/postrider/relay/ledger"
	"github.com/postrider/postrider/relay/ledger/ledgertest"
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
	history, err := f.StepTransitions(t.Context(), task)
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
		`{}`:                                     "steps are a JSON object",
		`[7]`:                                    "step 7 has no name",
		`[{"handler": "x"}]`:                     "has no name",
		`[{"name": ""}]`:                         "has no name",
		`[{"name": "a"}, {"name": "a"}]`:         "two steps a",
		`[{"name": "a", "dependencies": ["b"]}]`: "step a depends on b, which is no step",
		`[{"name": "a", "dependencies": [1]}]`:   "not names",
		`[{"name": "a", "depends_on_step": "b"}]`:                        "step a depends on b",
		`[{"name": "a", "max_retries": -1}]`:                             "step a: max_retries is -1, it must be a number from 0",
		`[{"name": "a", "max_retries": "3"}]`:                            "max_retries is \"3\"",
		`[{"name": "a", "retry_base_seconds": 0}]`:                       "retry_base_seconds is 0",
		`[{"name": "` + strings.Repeat("x", 257) + `"}]`:                 "257 bytes",
		`[{"name": "a", "retry_max_seconds": 99999999999999}]`:           "retry_max_seconds",
		`[` + strings.Repeat(`{"name": "a"}, `, 5000) + `{"name": "b"}]`: "there are 5001 steps, a task has at most 5000; Make several",
		`[{"name": "a"}, {"name": "b", "dependencies": ["a", "aa"]}]`:    "step b depends on aa, which is no step",
	} {
		_, err := f.Create(t.Context(), ledger.NewTask{Namespace: "default", Name: "task", Steps: json.RawMessage(steps)})
		refused(t, err, ledger.ErrInvalid, mention)
	}
	if got := f.answer(`select count(*)::text from postrider.tasker_tasks`); got != "0" {
		t.Errorf("refused tasks left %s rows", got)
	}
}

// TestWhatIsNestedTooDeeply is refused wherever a service gives JSON: a letter of such a task could not be read.
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

// TestCreateWithACycle is workflow 3 as far as the ledger goes: such a task is an error with a dead letter, and
// stays one when its steps are cancelled.
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
	for name := range ledgertest.Steps(t, f.pool, task) {
		if _, err := f.Act(t.Context(), task, f.step(task, name).UUID, ledger.StepAction{Action: ledger.ActionCancel, Notes: "template had a circular dependency"}); err != nil {
			t.Fatal(err)
		}
		f.in(task, "error")
	}

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

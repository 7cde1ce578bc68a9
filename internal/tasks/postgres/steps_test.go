package postgres_test

import (
	"encoding/json"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/postrider/postrider/internal/tasks/ledger"
	"github.com/postrider/postrider/internal/tasks/ledgertest"
)

// TestStepsLeadTheTask: from the first step to the end, and each change is told once and in order.
func TestStepsLeadTheTask(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.apply(`{"steps": [{"name": "a"}, {"name": "b", "dependencies": ["a"], "max_retries": 1}]}`)
	task := f.task()
	if state, err := f.Evaluate(t.Context(), task); err != nil || state != "enqueuing_steps" {
		t.Fatalf("evaluated to %s, %v", state, err)
	}
	f.must(f.EnqueueStep(t.Context(), f.step(task, "a").UUID))
	f.do(task, "a")
	f.in(task, "enqueuing_steps")
	if status := f.fails(task, "b", "gateway timeout"); status != ledger.StepWaitingForRetry {
		t.Fatalf("the first failure makes it %s", status)
	}
	f.in(task, "waiting_for_retry")
	f.do(task, "b")
	f.in(task, "complete")
	want := []string{
		"created >pending", "transitioned pending>initializing", "transitioned initializing>enqueuing_steps",
		"step_transitioned a pending>enqueued", "transitioned enqueuing_steps>steps_in_process",
		"step_transitioned a enqueued>in_progress",
		"step_transitioned a in_progress>complete", "transitioned steps_in_process>evaluating_results", "transitioned evaluating_results>enqueuing_steps",
		"step_transitioned b pending>in_progress", "transitioned enqueuing_steps>steps_in_process",
		"step_transitioned b in_progress>waiting_for_retry", "transitioned steps_in_process>evaluating_results", "transitioned evaluating_results>waiting_for_retry",
		"step_transitioned b waiting_for_retry>in_progress", "transitioned waiting_for_retry>steps_in_process",
		"step_transitioned b in_progress>complete", "transitioned steps_in_process>evaluating_results", "transitioned evaluating_results>complete",
	}
	if got := f.told(task); !slices.Equal(got, want) {
		t.Errorf("the outbox has\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	steps, err := f.Steps(t.Context(), task)
	f.must(err)
	if b := steps[1]; b.RetryCount != 1 || *b.LastError != "gateway timeout" || string(b.Results) != `{"done": true}` || b.NextRetryAt != nil {
		t.Errorf("the step is %+v", b)
	}
	if got := ledgertest.Read(t, f.pool, task); got.Live || got.CompletedAt == nil {
		t.Errorf("the task is %+v", got)
	}
	// A worker that did not hear the answer asks again.
	f.must(f.CompleteStep(t.Context(), steps[1].UUID, nil))
	if got := f.told(task); len(got) != len(want) {
		t.Errorf("completing twice is told as %q", got[len(want):])
	}
}

func TestStepRefusals(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.apply(`{"steps": [{"name": "a", "max_retries": 1}, {"name": "b", "dependencies": ["a"]}]}`)
	task := f.task()
	a, b := f.step(task, "a").UUID, f.step(task, "b").UUID
	ctx := t.Context()

	refused(t, f.StartStep(ctx, b, ""), ledger.ErrRefused, "cannot start step b", "waits for a")
	refused(t, f.EnqueueStep(ctx, b), ledger.ErrRefused, "cannot enqueue step b", "waits for a")
	refused(t, f.CompleteStep(ctx, a, nil), ledger.ErrRefused, "cannot complete step a", "it is pending, which must be enqueued or in_progress")
	_, err := f.FailStep(ctx, a, ledger.Failure{Error: "x"})
	refused(t, err, ledger.ErrRefused, "cannot fail step a", "it is pending")
	unknown := uuid.New()
	refused(t, f.StartStep(ctx, unknown, ""), ledger.ErrNotFound, unknown.String())
	refused(t, f.CompleteStep(ctx, unknown, nil), ledger.ErrNotFound, unknown.String())

	f.must(f.StartStep(ctx, a, ""))
	refused(t, f.StartStep(ctx, a, ""), ledger.ErrRefused, "it is in_progress", "another worker has it")
	_, err = f.FailStep(ctx, a, ledger.Failure{Error: "x", RetryAfter: -time.Second})
	refused(t, err, ledger.ErrInvalid, "retry_after is -00:00:01")
	if _, err = f.FailStep(ctx, a, ledger.Failure{RetryAfter: time.Hour}); err != nil {
		t.Fatal(err)
	}
	if s := f.step(task, "a"); s.LastError != "no error was given" {
		t.Errorf("the step is %+v", s)
	}
	refused(t, f.StartStep(ctx, a, ""), ledger.ErrRefused, "its retry is not before 20")
	named := f.step(f.task(), "a").UUID
	f.must(f.StartStep(ctx, named, "worker-7"))
	refused(t, f.StartStep(ctx, named, "worker-8"), ledger.ErrRefused, "it is in_progress", "worker worker-7 has it")
	refused(t, f.EnqueueStep(ctx, a), ledger.ErrRefused, "its retry is not before 20")

	_, err = f.Act(ctx, task, a, ledger.StepAction{Action: "explode"})
	refused(t, err, ledger.ErrInvalid, "no step action explode; there are retry, reset_retry_count, cancel, complete_manually")
	_, err = f.Act(ctx, f.task(), a, ledger.StepAction{Action: ledger.ActionRetry})
	refused(t, err, ledger.ErrNotFound, "has no step "+a.String())
	_, err = f.Act(ctx, unknown, a, ledger.StepAction{Action: ledger.ActionRetry})
	refused(t, err, ledger.ErrNotFound, "no task "+unknown.String())

	if cancelled, err := f.Cancel(ctx, task, "kim", "no longer wanted"); err != nil || !cancelled {
		t.Fatalf("cancelled %v, %v", cancelled, err)
	}
	f.in(task, "cancelled")
	if again, err := f.Cancel(ctx, task, "kim", ""); err != nil || again {
		t.Errorf("cancelled again %v, %v", again, err)
	}
	for name, s := range ledgertest.Steps(t, f.pool, task) {
		if s.Status != "cancelled" {
			t.Errorf("step %s is %s", name, s.Status)
		}
	}
	_, err = f.Act(ctx, task, a, ledger.StepAction{Action: ledger.ActionRetry})
	refused(t, err, ledger.ErrRefused, "task "+task.String()+" is cancelled, which is an end")
	refused(t, f.StartStep(ctx, a, ""), ledger.ErrRefused, "is cancelled, which is an end")
	_, err = f.Cancel(ctx, unknown, "", "")
	refused(t, err, ledger.ErrNotFound, unknown.String())
	refused(t, f.Heartbeat(ctx, "nowhere", "w"), ledger.ErrNotFound, "no namespace 'nowhere'")
	refused(t, f.Heartbeat(ctx, "default", ""), ledger.ErrInvalid, "0 bytes")
}

// TestCancelOfAMachineThatCannot: the error names the state or the transition that the machine lacks.
func TestCancelOfAMachineThatCannot(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	ledgertest.AddMachine(t, f.pool, ledgertest.Protocol())
	ledgertest.Apply(t, f.pool, ledgertest.Template{Machine: "protocol"})
	_, err := f.Cancel(t.Context(), f.task(), "", "")
	refused(t, err, ledger.ErrRefused, "machine protocol has no state for cancelled tasks")
	own := ledgertest.Machine{Name: "own", Initial: "new", Cancelled: "dropped", States: map[string]string{"new": "initial", "dropped": "terminal"}}
	ledgertest.AddMachine(t, f.pool, own)
	ledgertest.Apply(t, f.pool, ledgertest.Template{Name: "own", Machine: "own"})
	_, err = f.Cancel(t.Context(), ledgertest.Create(t, f.pool, ledgertest.New{Name: "own"}), "", "")
	refused(t, err, ledger.ErrInvalid, "from new to dropped", "allows nothing from new")
}

// TestRetriesBackOff: base * 2^(n-1), capped, plus up to a fifth; or what the worker says.
func TestRetriesBackOff(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.apply(`{"steps": [{"name": "a", "max_retries": 1000, "retry_base_seconds": 2, "retry_max_seconds": 10}]}`)
	task := f.task()
	a := f.step(task, "a").UUID
	pause := func() float64 {
		t.Helper()
		var seconds float64
		if err := f.pool.QueryRow(t.Context(), `select extract(epoch from next_retry_at - state_entered_at)::float8
			from postrider.tasker_workflow_steps where workflow_step_uuid = $1`, a).Scan(&seconds); err != nil {
			t.Fatal(err)
		}
		return seconds
	}
	fail := func(failure ledger.Failure) {
		t.Helper()
		f.exec(`update postrider.tasker_workflow_steps set next_retry_at = null`)
		f.must(f.StartStep(t.Context(), a, ""))
		if status, err := f.FailStep(t.Context(), a, failure); err != nil || status != ledger.StepWaitingForRetry {
			t.Fatalf("the step is %s, %v", status, err)
		}
	}
	for _, base := range []float64{2, 4, 8, 10, 10} {
		fail(ledger.Failure{Error: "x"})
		// The status is entered a moment after the pause was reckoned.
		if got := pause(); got < base-0.5 || got > base*1.2 {
			t.Errorf("the pause is %v s, want %v to %v", got, base, base*1.2)
		}
	}
	fail(ledger.Failure{Error: "x", RetryAfter: 77 * time.Second})
	if got := pause(); got < 76.5 || got > 77 {
		t.Errorf("the pause is %v s, want the 77 that were asked for", got)
	}
	f.exec(`update postrider.tasker_workflow_steps set retry_count = 100000, max_retries = 1000000`)
	fail(ledger.Failure{Error: "x"})
	if got := pause(); got > 12 {
		t.Errorf("after 100000 retries the pause is %v s", got)
	}
}

// TestSpentRetriesDeadLetterTheTask once per stay, and an operator's retry leads on.
func TestSpentRetriesDeadLetterTheTask(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.apply(`{"steps": [{"name": "charge", "max_retries": 1}, {"name": "mail", "dependencies": ["charge"]}]}`)
	task := f.task()
	f.fails(task, "charge", "declined")
	if status := f.fails(task, "charge", "declined again"); status != ledger.StepError {
		t.Fatalf("the second failure makes it %s", status)
	}
	f.in(task, "error")
	letters := ledgertest.Letters(t, f.pool, task)
	if len(letters) != 1 || letters[0].Reason != "max_retries_exceeded" || !strings.Contains(string(letters[0].Payload), "step charge failed and its retry is spent: declined again") ||
		!strings.Contains(string(letters[0].Payload), `"original_state": "steps_in_process"`) ||
		!strings.Contains(string(letters[0].Payload), `"error": {"step": "charge", "reason": "MAX_RETRIES_EXCEEDED", "category": "fatal", "retry_count": 1}`) {
		t.Fatalf("the letters are %+v", letters)
	}
	if _, err := f.Evaluate(t.Context(), task); err != nil {
		t.Fatal(err)
	}
	refused(t, f.StartStep(t.Context(), f.step(task, "charge").UUID, ""), ledger.ErrRefused, "is error and waits for a person", "step retry")
	f.in(task, "error")

	charge := f.step(task, "charge").UUID
	if status, err := f.Act(t.Context(), task, charge, ledger.StepAction{Action: ledger.ActionRetry, Actor: "kim", Notes: "card replaced"}); err != nil || status != ledger.StepEnqueued {
		t.Fatalf("retried to %s, %v", status, err)
	}
	f.in(task, "steps_in_process")
	if got := ledgertest.Read(t, f.pool, task); got.ErrorReason != "" || !got.Live {
		t.Errorf("under way again the task is %+v", got)
	}
	f.fails(task, "charge", "declined for good")
	f.in(task, "error")
	if letters := ledgertest.Letters(t, f.pool, task); len(letters) != 2 {
		t.Fatalf("a second stay has the letters %+v", letters)
	}
	if _, err := f.Act(t.Context(), task, charge, ledger.StepAction{Action: ledger.ActionCompleteManually, Actor: "kim", Notes: "paid in cash", Results: json.RawMessage(`{"receipt": 9}`)}); err != nil {
		t.Fatal(err)
	}
	f.in(task, "enqueuing_steps")
	f.do(task, "mail")
	f.in(task, "complete")
	steps, err := f.Steps(t.Context(), task)
	f.must(err)
	if s := steps[0]; s.Status != ledger.StepResolvedManually || string(s.Results) != `{"receipt": 9}` {
		t.Errorf("the step is %+v", s)
	}
	history, err := wholeHistory(t.Context(), f.StepTransitions, task)
	f.must(err)
	told := 0
	for _, h := range history {
		if strings.Contains(string(h.Metadata), `"actor": "kim"`) && strings.Contains(string(h.Metadata), `"notes"`) {
			told++
		}
	}
	if told != 2 {
		t.Errorf("the history tells of %d actions by kim: %+v", told, history)
	}

	f.exec(`update postrider.tasker_settings set reason_max_retries_exceeded = false`)
	quiet := f.task()
	f.fails(quiet, "charge", "x")
	f.fails(quiet, "charge", "x")
	f.in(quiet, "error")
	if letters := ledgertest.Letters(t, f.pool, quiet); len(letters) != 0 {
		t.Errorf("switched off, there are the letters %+v", letters)
	}
}

// TestFailureForGoodBlocks: a step that says retrying cannot help leaves the task to people, once nothing else can go on,
// and is dead-lettered at once.
func TestFailureForGoodBlocks(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.apply(`{"steps": [{"name": "a"}, {"name": "b"}]}`)
	task := f.task()
	a := f.step(task, "a").UUID
	f.must(f.StartStep(t.Context(), a, ""))
	if status, err := f.FailStep(t.Context(), a, ledger.Failure{Error: "no such account", Final: true}); err != nil || status != ledger.StepError {
		t.Fatalf("the step is %s, %v", status, err)
	}
	f.in(task, "enqueuing_steps") // b can still go
	f.do(task, "b")
	f.in(task, "blocked_by_failures")
	if _, err := f.Evaluate(t.Context(), task); err != nil {
		t.Fatal(err)
	}
	letters := ledgertest.Letters(t, f.pool, task)
	if len(letters) != 1 || letters[0].Reason != "max_retries_exceeded" || !strings.Contains(string(letters[0].Payload), `"error_code": "FAILED_FOR_GOOD"`) ||
		!strings.Contains(string(letters[0].Payload), "step a failed for good: no such account") {
		t.Errorf("the letters are %+v", letters)
	}
	if _, err := f.Act(t.Context(), task, a, ledger.StepAction{Action: ledger.ActionResetRetryCount}); err != nil {
		t.Fatal(err)
	}
	f.in(task, "enqueuing_steps")
	f.do(task, "a")
	f.in(task, "complete")
}

// TestOnlyProgressLeadsOutOfAnError: by hand, too, a task leaves it for what goes on by itself and nothing else.
func TestOnlyProgressLeadsOutOfAnError(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.apply(`{"cancelled_steps": "wait", "steps": [{"name": "gone"}, {"name": "after", "dependencies": ["gone"]}, {"name": "failed"}, {"name": "other", "max_retries": 0}]}`)
	act := func(task uuid.UUID, name string, action ledger.Action) {
		t.Helper()
		if _, err := f.Act(t.Context(), task, f.step(task, name).UUID, ledger.StepAction{Action: action}); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"failed", "other"} {
		task := f.task()
		act(task, "gone", ledger.ActionCancel)
		for _, step := range []string{"failed", "other"} {
			f.must(f.StartStep(t.Context(), f.step(task, step).UUID, ""))
			if _, err := f.FailStep(t.Context(), f.step(task, step).UUID, ledger.Failure{Error: "x", Final: true}); err != nil {
				t.Fatal(err)
			}
		}
		f.in(task, "error")
		act(task, name, ledger.ActionCompleteManually) // the other one is still an error
		f.in(task, "error")
		for _, step := range []string{"failed", "other"} {
			if f.step(task, step).Status == "error" {
				act(task, step, ledger.ActionCompleteManually) // and now one waits for what was cancelled
			}
		}
		f.in(task, "error")
		act(task, "gone", ledger.ActionRetry)
		f.in(task, "steps_in_process")
	}
}

// TestLateWorker: a task that was moved aside goes on when its worker comes back with the results.
func TestLateWorker(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.apply(`{"steps": [{"name": "a"}, {"name": "b", "dependencies": ["a"]}]}`)
	for _, ends := range []bool{true, false} {
		task := f.task()
		a := f.step(task, "a").UUID
		f.must(f.StartStep(t.Context(), a, "slow"))
		ledgertest.Put(t, f.pool, task, "error")
		if !ends {
			if _, err := f.FailStep(t.Context(), a, ledger.Failure{Error: "too late"}); err != nil {
				t.Fatal(err)
			}
			f.in(task, "error")
			continue
		}
		f.must(f.CompleteStep(t.Context(), a, nil))
		f.in(task, "enqueuing_steps")
	}
}

// TestOneWorkerGetsAStep of all that want it.
func TestOneWorkerGetsAStep(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.apply(`{"steps": [{"name": "a"}]}`)
	task := f.task()
	a := f.step(task, "a").UUID
	var won atomic.Int32
	var wg sync.WaitGroup
	for range 10 {
		wg.Go(func() {
			err := f.StartStep(t.Context(), a, "w")
			if err == nil {
				won.Add(1)
			} else {
				refused(t, err, ledger.ErrRefused, "in_progress")
			}
		})
	}
	wg.Wait()
	if won.Load() != 1 {
		t.Errorf("%d workers have the step", won.Load())
	}
	if got := len(ledgertest.OfType(ledgertest.Events(t, f.pool, task), "postrider.task.step_transitioned.v1")); got != 1 {
		t.Errorf("%d starts were told", got)
	}
}

// TestStepsOfOneTaskWaitForEachOther: of the last two steps that end together, the second sees the first, so
// that the task is not left behind.
func TestStepsOfOneTaskWaitForEachOther(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.apply(`{"steps": [{"name": "a"}, {"name": "b"}, {"name": "c"}, {"name": "d"}]}`)
	for range 10 {
		task := f.task()
		var wg sync.WaitGroup
		for _, s := range ledgertest.Steps(t, f.pool, task) {
			wg.Go(func() {
				if err := f.StartStep(t.Context(), s.UUID, ""); err != nil {
					t.Error(err)
				}
				if err := f.CompleteStep(t.Context(), s.UUID, nil); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		f.in(task, "complete")
	}
}

func TestHeartbeat(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.apply(`{"steps": [{"name": "a"}]}`)
	f.must(f.Heartbeat(t.Context(), "default", "w1"))
	f.exec(`update postrider.tasker_workers set last_heartbeat_at = last_heartbeat_at - interval '1 hour'`)
	f.must(f.StartStep(t.Context(), f.step(f.task(), "a").UUID, "w2"))
	const seen = `select string_agg(worker || ' ' || (last_heartbeat_at > clock_timestamp() - interval '1 minute'), ', ' order by worker) from postrider.tasker_workers`
	if got := f.answer(seen); got != "w1 false, w2 true" {
		t.Errorf("the workers are %s", got)
	}
	f.must(f.StartStep(t.Context(), f.step(f.task(), "a").UUID, "w1"))
	if got := f.answer(seen); got != "w1 true, w2 true" {
		t.Errorf("the workers are %s", got)
	}
	// A new worker removes the workers of its own namespace that sent no heartbeat for 30 days.
	_, err := f.ApplyNamespace(t.Context(), "elsewhere", nil, "")
	f.must(err)
	f.must(f.Heartbeat(t.Context(), "elsewhere", "w0"))
	f.exec(`update postrider.tasker_workers set last_heartbeat_at = last_heartbeat_at - interval '31 days' where worker <> 'w2'`)
	f.must(f.Heartbeat(t.Context(), "default", "w2"))
	if got := f.answer(seen); got != "w0 false, w1 false, w2 true" {
		t.Errorf("after a word of a known worker they are %s", got)
	}
	f.must(f.Heartbeat(t.Context(), "default", "w3"))
	if got := f.answer(seen); got != "w0 false, w2 true, w3 true" {
		t.Errorf("after a new one they are %s", got)
	}
}

package postgres_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"pgregory.net/rapid"

	"github.com/postrider/postrider/internal/tasks/ledger"
	"github.com/postrider/postrider/internal/tasks/ledgertest"
)

// act does something with a step by hand.
func (f *fixture) act(task uuid.UUID, name string, action ledger.Action) ledger.StepStatus {
	f.t.Helper()
	status, err := f.Act(f.t.Context(), task, f.step(task, name).UUID, ledger.StepAction{Action: action, Actor: "kim"})
	f.must(err)
	return status
}

// statuses are the steps of a task, a word a step.
func (f *fixture) statuses(task uuid.UUID) string {
	f.t.Helper()
	return f.answer(`select string_agg(format('%s:%s', step_name, status), ' ' order by position) from postrider.tasker_workflow_steps where task_uuid = $1`, task)
}

// TestACancelledStepLeadsItsTaskOn: where every step is done or cancelled the task ends, in whatever order that came, and
// the template says what becomes of what depends on a cancelled step.
func TestACancelledStepLeadsItsTaskOn(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.applyRules()
	const two, chain = `[{"name": "a"}, {"name": "b"}]`, `[{"name": "a"}, {"name": "b", "dependencies": ["a"]}, {"name": "c", "dependencies": ["b"]}]`
	for name, c := range map[string]struct{ rule, steps, do, state, statuses string }{
		"done, then cancelled":       {"cancel", two, "do b, cancel a", "complete", "a:cancelled b:complete"},
		"cancelled, then done":       {"cancel", two, "cancel a, do b", "complete", "a:cancelled b:complete"},
		"all cancelled":              {"cancel", two, "cancel a, cancel b", "cancelled", "a:cancelled b:cancelled"},
		"the only one":               {"cancel", `[{"name": "a"}]`, "cancel a", "cancelled", "a:cancelled"},
		"all cancelled, skip":        {"skip", two, "cancel a, cancel b", "cancelled", "a:cancelled b:cancelled"},
		"one in hand":                {"cancel", two, "start b, cancel a", "steps_in_process", "a:cancelled b:in_progress"},
		"with its dependants":        {"cancel", chain, "cancel a", "cancelled", "a:cancelled b:cancelled c:cancelled"},
		"each of a chain by itself":  {"cancel", chain, "cancel a, cancel b, cancel c", "cancelled", "a:cancelled b:cancelled c:cancelled"},
		"in the middle":              {"cancel", chain, "do a, cancel b", "complete", "a:complete b:cancelled c:cancelled"},
		"skipped":                    {"skip", chain, "cancel a, do b, do c", "complete", "a:cancelled b:complete c:complete"},
		"skipped, what is next":      {"skip", chain, "cancel a", "enqueuing_steps", "a:cancelled b:pending c:pending"},
		"waits":                      {"wait", chain, "cancel a", "waiting_for_dependencies", "a:cancelled b:pending c:pending"},
		"waits, and goes on by hand": {"wait", chain, "cancel a, retry b, do b, do c", "complete", "a:cancelled b:complete c:complete"},
		"taken back":                 {"cancel", `[{"name": "x"}, {"name": "a"}, {"name": "b", "dependencies": ["a"]}]`, "cancel a, retry a, do a, do b, do x", "complete", "x:complete a:complete b:complete"},
		"failed, then cancelled":     {"cancel", two, "do b, fail a, cancel a", "complete", "a:cancelled b:complete"},
		"failed, and nothing done":   {"cancel", `[{"name": "a"}]`, "fail a, cancel a", "error", "a:cancelled"},
	} {
		task := ledgertest.Create(t, f.pool, ledgertest.New{Name: c.rule, Steps: strings.ReplaceAll(c.steps, `"name": "a"`, `"name": "a", "max_retries": 0`)})
		for does := range strings.SplitSeq(c.do, ", ") {
			what, step, _ := strings.Cut(does, " ")
			switch what {
			case "do":
				f.do(task, step)
			case "start":
				f.must(f.StartStep(t.Context(), f.step(task, step).UUID, "w"))
			case "fail":
				f.fails(task, step, "no")
			default:
				f.act(task, step, ledger.Action(what))
			}
		}
		if got, is := f.state(task), f.statuses(task); got != c.state || is != c.statuses {
			t.Errorf("%s: %s: the task is in %s with %s, want %s with %s", name, c.do, got, is, c.state, c.statuses)
		}
	}
}

// TestNoOrderOfActionsLeavesATaskThatNothingCanMove: after anything that workers, people and the detector did in any order
// with any graph of steps, workers and people bring the task to an end. A task that workers cannot move waits for a
// person in a state that says so.
func TestNoOrderOfActionsLeavesATaskThatNothingCanMove(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.applyRules()
	ctx := t.Context()
	rapid.Check(t, func(rt *rapid.T) {
		m, task := f.drawn(rt)
		known := ledgertest.Steps(t, f.pool, task)
		var did []string
		for range rapid.IntRange(0, 20).Draw(rt, "things") {
			what, i := rapid.SampledFrom(append([]string{"gets stuck"}, things...)).Draw(rt, "what"), rapid.IntRange(0, len(m.steps)-1).Draw(rt, "step")
			did = append(did, what+" "+m.steps[i].name)
			var err error
			if what == "gets stuck" {
				if state := f.state(task); !strings.Contains("complete cancelled error", state) {
					_, err = f.Transition(ctx, task, state, "error", nil)
				}
			} else {
				err = f.try(what, task, known[m.steps[i].name].UUID)
			}
			if err != nil && !errors.Is(err, ledger.ErrRefused) {
				rt.Fatal(err)
			}
		}
		for round := 0; ; round++ {
			f.workersDo(rt, task)
			state := f.state(task)
			if state == "complete" || state == "cancelled" {
				return
			}
			waits := state == "error" || state == "blocked_by_failures" || state == "waiting_for_dependencies" && m.rule == "wait"
			if !waits || round > 10 {
				rt.Fatalf("%s: after %s and all that workers can do the task is in %s with %s (%s)", m.rule, strings.Join(did, ", "), state, f.statuses(task), ledgertest.History(t, f.pool, task))
			}
			open := f.answer(`select coalesce(min(step_name), '') from postrider.tasker_workflow_steps where task_uuid = $1
				and status not in ('complete', 'resolved_manually', 'cancelled')`, task)
			if open == "" { // cancelled to the last step after it had failed: it is a person's to cancel as well
				if _, err := f.Cancel(ctx, task, "kim", "enough"); err != nil {
					rt.Fatalf("%s: after %s a task with nothing left to do cannot be cancelled: %v", m.rule, strings.Join(did, ", "), err)
				}
				continue
			}
			action := rapid.SampledFrom([]ledger.Action{ledger.ActionRetry, ledger.ActionCompleteManually, ledger.ActionCancel}).Draw(rt, "action")
			did = append(did, fmt.Sprintf("%s %s in %s", action, open, state))
			if _, err := f.Act(ctx, task, known[open].UUID, ledger.StepAction{Action: action}); err != nil {
				rt.Fatalf("%s: after %s: %v", m.rule, strings.Join(did, ", "), err)
			}
		}
	})
}

// workersDo does all of a task that workers can: they end what they have in hand, and do what is handed out.
func (f *fixture) workersDo(rt *rapid.T, task uuid.UUID) {
	ctx := f.t.Context()
	for range 50 {
		if state := f.state(task); !ledgertest.Read(f.t, f.pool, task).Live {
			if state != "error" {
				return
			}
			break // a dead worker ends nothing
		}
		ledgertest.RetryNow(f.t, f.pool, task)
		var inHand []uuid.UUID
		f.must(f.pool.QueryRow(ctx, `select coalesce(array_agg(workflow_step_uuid), '{}') from postrider.tasker_workflow_steps
			where task_uuid = $1 and (status = 'in_progress' or status = 'enqueued' and next_retry_at is null)`, task).Scan(&inHand))
		for _, step := range inHand {
			f.must(f.CompleteStep(ctx, step, nil))
		}
		ready, err := f.NextReady(ctx, ledger.ReadyQuery{})
		f.must(err)
		if len(inHand) == 0 && len(ready) == 0 {
			return
		}
		for _, r := range ready {
			if _, err := f.Evaluate(ctx, r.TaskUUID); err != nil {
				rt.Fatal(err)
			}
			steps, err := f.ReadySteps(ctx, r.TaskUUID)
			f.must(err)
			for _, s := range steps {
				f.must(f.StartStep(ctx, s.UUID, "w"))
				f.must(f.CompleteStep(ctx, s.UUID, json.RawMessage(`1`)))
			}
		}
	}
}

// TestADeadWorkersStepIsRepaired as docs/runbook.md says under "A task went stale because its worker died".
func TestADeadWorkersStepIsRepaired(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.apply(`{"steps": [{"name": "pick"}, {"name": "ship"}]}`)
	task := f.task()
	ctx := t.Context()
	pick := f.step(task, "pick").UUID
	f.must(f.StartStep(ctx, f.step(task, "ship").UUID, "worker-2"))
	dead, err := f.Ledger.StartStep(ctx, pick, "worker-1")
	f.must(err)
	// Its task is live: a worker may be at it.
	_, err = f.Act(ctx, task, pick, ledger.StepAction{Action: ledger.ActionRetry})
	refused(t, err, ledger.ErrRefused, "cannot retry step pick", "a worker has it", "Once the task has failed")
	ledgertest.Age(t, f.pool, task, 31*time.Minute)
	if s := f.detect(ledger.StoredDetection())[task]; s.ActionTaken != ledger.StaleMovedToDLQ {
		t.Fatalf("the task is not stale: %+v", s)
	}
	f.in(task, "error")

	if status := f.act(task, "pick", ledger.ActionRetry); status != ledger.StepEnqueued {
		t.Fatalf("the step is %s", status)
	}
	f.in(task, "steps_in_process")
	if s := f.step(task, "ship"); s.Status != "in_progress" {
		t.Errorf("the step of a worker that lives is %s", s.Status)
	}
	// Another worker gets it.
	ready, err := f.NextReady(ctx, ledger.ReadyQuery{})
	f.must(err)
	steps, err := f.ReadySteps(ctx, task)
	f.must(err)
	if len(ready) != 1 || ready[0].ReadySteps != 1 || len(steps) != 1 || steps[0].UUID != pick {
		t.Fatalf("ready are %+v with the steps %+v", ready, steps)
	}
	f.must(f.EnqueueStep(ctx, pick))
	if steps, err := f.ReadySteps(ctx, task); err != nil || len(steps) != 0 {
		t.Errorf("handed out once, the steps %+v are ready, %v", steps, err)
	}
	number, err := f.Ledger.StartStep(ctx, pick, "worker-3")
	f.must(err)
	if number <= dead {
		t.Errorf("the fencing number went from %d to %d", dead, number)
	}
	// The late word of the first one changes nothing.
	refused(t, f.Ledger.CompleteStep(ctx, pick, json.RawMessage(`{"by": 1}`), dead), ledger.ErrRefused, "fencing number 1 is of an earlier start", "Drop the result")
	_, err = f.FailStep(ctx, pick, ledger.Failure{Error: "connection lost", FencingNumber: dead})
	refused(t, err, ledger.ErrRefused, "cannot fail step pick", "fencing number")
	f.must(f.Ledger.CompleteStep(ctx, pick, json.RawMessage(`{"by": 3}`), number))
	f.must(f.Ledger.CompleteStep(ctx, pick, nil, number)) // it did not hear the answer
	refused(t, f.Ledger.CompleteStep(ctx, pick, nil, dead), ledger.ErrRefused, "fencing number")
	f.must(f.CompleteStep(ctx, f.step(task, "ship").UUID, nil))
	f.in(task, "complete")
	all, err := f.Steps(ctx, task)
	f.must(err)
	if string(all[0].Results) != `{"by": 3}` || all[0].FencingNumber != number {
		t.Errorf("the step is %+v", all[0])
	}
}

// TestResettingADeadWorkersStep makes it pending, so that it is handed out: it does not stay with the dead worker.
func TestResettingADeadWorkersStep(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.apply(`{"steps": [{"name": "a"}]}`)
	task := f.task()
	dead, err := f.Ledger.StartStep(t.Context(), f.step(task, "a").UUID, "worker-1")
	f.must(err)
	ledgertest.Put(t, f.pool, task, "error")
	if status := f.act(task, "a", ledger.ActionResetRetryCount); status != ledger.StepPending {
		t.Errorf("the step is %s", status)
	}
	f.in(task, "enqueuing_steps")
	if ready, err := f.NextReady(t.Context(), ledger.ReadyQuery{}); err != nil || len(ready) != 1 {
		t.Errorf("ready are %+v, %v", ready, err)
	}
	refused(t, f.Ledger.CompleteStep(t.Context(), f.step(task, "a").UUID, nil, dead), ledger.ErrRefused, "fencing number")
	f.do(task, "a")
	f.in(task, "complete")
}

// TestAnothersStepIsNotFound: a step that is not of the task is not found, whether the task goes on or has ended.
func TestAnothersStepIsNotFound(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.apply(`{}`)
	other := f.step(ledgertest.Create(t, f.pool, ledgertest.New{Steps: `[{"name": "a"}]`}), "a").UUID
	for _, end := range []bool{false, true} {
		task := ledgertest.Create(t, f.pool, ledgertest.New{Steps: `[{"name": "a"}]`})
		if end {
			f.do(task, "a")
		}
		for _, action := range []ledger.Action{ledger.ActionRetry, ledger.ActionCancel, ledger.ActionCompleteManually} {
			if _, err := f.Act(t.Context(), task, other, ledger.StepAction{Action: action}); !errors.Is(err, ledger.ErrNotFound) {
				t.Errorf("%s, the task has ended: %v: %v", action, end, err)
			}
		}
	}
}

package postgres_test

import (
	"encoding/json"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/uuid"

	"github.com/postrider/postrider/internal/tasks/ledger"
	"github.com/postrider/postrider/internal/tasks/ledgertest"
	"github.com/postrider/postrider/internal/tasks/postgres"
)

func TestTransition(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.apply(`{}`)
	task := f.task()
	before := ledgertest.Read(t, f.pool, task)
	moved, err := f.Transition(t.Context(), task, "pending", "initializing", json.RawMessage(`{"actor": "kim", "reason": "begin", "ticket": 7}`))
	if err != nil || !moved {
		t.Fatalf("moved %v, %v", moved, err)
	}
	after := ledgertest.Read(t, f.pool, task)
	if after.State != "initializing" || !after.Live || after.SortKey != 2 || !after.StateEnteredAt.After(before.StateEnteredAt) || after.CompletedAt != nil {
		t.Errorf("the task is %+v", after)
	}
	history, err := wholeHistory(t.Context(), f.Transitions, task)
	if err != nil || len(history) != 2 {
		t.Fatalf("the history is %+v, %v", history, err)
	}
	if h := history[0]; h.FromState != nil || h.ToState != "pending" || h.SortKey != 1 || h.MostRecent {
		t.Errorf("the first transition is %+v", h)
	}
	if h := history[1]; *h.FromState != "pending" || h.ToState != "initializing" || h.SortKey != 2 || !h.MostRecent || !h.CreatedAt.Equal(after.StateEnteredAt) ||
		!strings.Contains(string(h.Metadata), `"ticket": 7`) {
		t.Errorf("the second transition is %+v", h)
	}

	// Not there any more: nothing happens.
	if moved, err = f.Transition(t.Context(), task, "pending", "initializing", nil); err != nil || moved {
		t.Errorf("a second time moved %v, %v", moved, err)
	}
	if got, want := f.told(task), []string{"created >pending", "transitioned pending>initializing"}; !slices.Equal(got, want) {
		t.Errorf("the outbox has %q, want %q", got, want)
	}
}

// TestTransitionEvent is the whole of a lifecycle event as consumers get it.
func TestTransitionEvent(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	ledgertest.Apply(t, f.pool, ledgertest.Template{Namespace: "billing", Name: "invoice", Version: "2.1.0", Configuration: `{"events": {"topic": "billing.tasks"}}`})
	task := ledgertest.Create(t, f.pool, ledgertest.New{Namespace: "billing", Name: "invoice"})
	if _, err := f.Transition(t.Context(), task, "pending", "initializing", json.RawMessage(`{"actor": "kim", "reason": "begin"}`)); err != nil {
		t.Fatal(err)
	}
	events := ledgertest.Events(t, f.pool, task)
	if len(events) != 2 {
		t.Fatalf("the outbox has %v", f.told(task))
	}
	e := events[1]
	if e.Topic != "billing.tasks" || e.Kind != "task" {
		t.Errorf("the event is %+v", e)
	}
	var payload map[string]any
	if err := json.Unmarshal(e.Payload, &payload); err != nil {
		t.Fatal(err)
	}
	occurred, _ := payload["occurred_at"].(string)
	delete(payload, "occurred_at")
	want := map[string]any{
		"task_uuid": task.String(), "namespace_name": "billing", "task_name": "invoice", "version": "2.1.0", "from_state": "pending",
		"to_state": "initializing", "sort_key": 2.0, "actor": "kim", "reason": "begin", "metadata": map[string]any{"actor": "kim", "reason": "begin"},
	}
	if got, wanted := text(t, payload), text(t, want); got != wanted {
		t.Errorf("the payload is %s, want %s", got, wanted)
	}
	headers := f.answer(`select headers::text from postrider.outbox_event where id = $1`, e.ID)
	var pairs [][2]string
	if err := json.Unmarshal([]byte(headers), &pairs); err != nil {
		t.Fatalf("%s: %v", headers, err)
	}
	if len(pairs) != 7 || pairs[5][0] != "ce_time" || pairs[5][1][:19] != occurred[:19] || !strings.HasSuffix(pairs[5][1], "Z") {
		t.Fatalf("the headers are %s, it occurred at %s", headers, occurred)
	}
	pairs = slices.Delete(pairs, 5, 6)
	wanted := [][2]string{
		{"ce_specversion", "1.0"}, {"ce_id", e.EventID.String()}, {"ce_source", "/postrider/billing/invoice"},
		{"ce_type", "postrider.task.transitioned.v1"}, {"ce_subject", task.String()}, {"content-type", "application/json"},
	}
	if !slices.Equal(pairs, wanted) {
		t.Errorf("the headers are %v, want %v", pairs, wanted)
	}
	if got := f.answer(`select count(*)::text from postrider.outbox_event where task_uuid is not null`); got != "0" {
		t.Errorf("%s lifecycle events are linked to their task", got)
	}
}

// text is a value as JSON, whose keys are in order.
func text(t *testing.T, v any) string {
	t.Helper()
	out, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

func TestTransitionRefuses(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.apply(`{}`)
	task := f.task()
	_, err := f.Transition(t.Context(), task, "pending", "complete", nil)
	refused(t, err, ledger.ErrInvalid, "from pending to complete", "machine workflow allows from pending: cancelled, error, initializing", "is in pending")
	_, err = f.Transition(t.Context(), task, "complete", "pending", nil)
	refused(t, err, ledger.ErrInvalid, "from complete to pending", "allows nothing from complete")
	_, err = f.Transition(t.Context(), task, "pending", "nowhere", nil)
	refused(t, err, ledger.ErrInvalid, "from pending to nowhere", "allows from pending")
	_, err = f.Transition(t.Context(), task, "uploaded", "pending", nil)
	refused(t, err, ledger.ErrInvalid, "machine workflow has no state uploaded", "blocked_by_failures")
	_, err = f.Transition(t.Context(), task, "pending", "initializing", json.RawMessage(`[1]`))
	refused(t, err, ledger.ErrInvalid, "is a JSON array, it must be an object")
	unknown := uuid.New()
	_, err = f.Transition(t.Context(), unknown, "pending", "initializing", nil)
	refused(t, err, ledger.ErrNotFound, unknown.String(), "archived")
	if got := f.told(task); len(got) != 1 {
		t.Errorf("refused transitions left %q", got)
	}
	f.in(task, "pending")
}

// TestTransitionOfOwnMachine: states are data.
func TestTransitionOfOwnMachine(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	ledgertest.AddMachine(t, f.pool, ledgertest.Protocol())
	ledgertest.Apply(t, f.pool, ledgertest.Template{Machine: "protocol"})
	task := f.task()
	for _, hop := range [][2]string{{"uploaded", "extracting"}, {"extracting", "extraction_failed"}, {"extraction_failed", "uploaded"}, {"uploaded", "extracting"},
		{"extracting", "grounding"}, {"grounding", "pending_review"}, {"pending_review", "complete"}} {
		if moved, err := f.Transition(t.Context(), task, hop[0], hop[1], json.RawMessage(`{"reason": "page 3 is blank"}`)); err != nil || !moved {
			t.Fatalf("%v: %v, %v", hop, moved, err)
		}
		got := ledgertest.Read(t, f.pool, task)
		if failed := hop[1] == "extraction_failed"; got.Live == (failed || hop[1] == "complete") || (got.ErrorReason == "page 3 is blank") != failed {
			t.Errorf("after %v the task is %+v", hop, got)
		}
	}
	if got := ledgertest.Read(t, f.pool, task); got.CompletedAt == nil || got.Live {
		t.Errorf("at the end the task is %+v", got)
	}
	_, err := f.Transition(t.Context(), task, "extracting", "complete", nil)
	refused(t, err, ledger.ErrInvalid, "machine protocol allows from extracting: dead_letter, extraction_failed, grounding")
}

// TestTransitionWaitsForTheLock: if two sessions move the same task, the second waits and sees what the first did.
func TestTransitionWaitsForTheLock(t *testing.T) {
	t.Parallel()
	for _, commit := range []bool{true, false} {
		f := newFixture(t)
		f.apply(`{}`)
		task := f.task()
		first, err := f.pool.Begin(t.Context())
		f.must(err)
		defer func() { _ = first.Rollback(t.Context()) }()
		if moved, err := postgres.On(first).Transition(t.Context(), task, "pending", "initializing", nil); err != nil || !moved {
			t.Fatalf("the first moved %v, %v", moved, err)
		}
		type result struct {
			moved bool
			err   error
		}
		second := make(chan result, 1)
		go func() {
			moved, err := f.Transition(t.Context(), task, "pending", "error", json.RawMessage(`{"reason": "too slow"}`))
			second <- result{moved, err}
		}()
		f.awaitLockWait()
		want := []string{"created >pending", "transitioned pending>initializing"}
		if commit {
			f.must(first.Commit(t.Context()))
		} else {
			f.must(first.Rollback(t.Context()))
			want[1] = "transitioned pending>error"
		}
		if got := <-second; got.err != nil || got.moved == commit {
			t.Errorf("after commit %v the second moved %v, %v", commit, got.moved, got.err)
		}
		if got := f.told(task); !slices.Equal(got, want) {
			t.Errorf("after commit %v the outbox has %q, want %q", commit, got, want)
		}
	}
}

// TestTransitionRace: many sessions move a task out of one state in different ways. One wins each round, and events
// and history agree.
func TestTransitionRace(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.apply(`{}`)
	task := f.task()
	ways := map[string][]string{
		"pending": {"initializing"}, "initializing": {"enqueuing_steps", "waiting_for_dependencies"},
		"enqueuing_steps": {"steps_in_process"}, "waiting_for_dependencies": {"enqueuing_steps", "steps_in_process", "evaluating_results"},
		"steps_in_process": {"evaluating_results"}, "evaluating_results": {"waiting_for_retry", "blocked_by_failures", "enqueuing_steps"},
		"waiting_for_retry": {"steps_in_process"}, "blocked_by_failures": {"steps_in_process"},
	}
	const rounds, rivals = 30, 12
	for round := range rounds {
		from := f.state(task)
		var won atomic.Int32
		var wg sync.WaitGroup
		for i := range rivals {
			wg.Go(func() {
				to := ways[from][i%len(ways[from])]
				moved, err := f.Transition(t.Context(), task, from, to, nil)
				if err != nil {
					t.Errorf("round %d: %s to %s: %v", round, from, to, err)
				}
				if moved {
					won.Add(1)
				}
			})
		}
		wg.Wait()
		if won.Load() != 1 {
			t.Fatalf("round %d: %d won", round, won.Load())
		}
	}
	history, err := wholeHistory(t.Context(), f.Transitions, task)
	f.must(err)
	events := ledgertest.Events(t, f.pool, task)
	if len(history) != rounds+1 || len(events) != rounds+1 {
		t.Fatalf("%d transitions and %d events after %d rounds", len(history), len(events), rounds)
	}
	for i, h := range history {
		from := ""
		if h.FromState != nil {
			from = *h.FromState
		}
		if e := events[i]; e.From != from || e.To != h.ToState || e.SortKey != h.SortKey || h.SortKey != i+1 || h.MostRecent != (i == rounds) {
			t.Errorf("transition %d is %+v, its event %+v", i, h, e)
		}
		if i > 0 && from != history[i-1].ToState {
			t.Errorf("transition %d begins in %s, the one before ended in %s", i, from, history[i-1].ToState)
		}
	}
}

// TestRollbackLeavesNothing: what the ledger does is the caller's transaction.
func TestRollbackLeavesNothing(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.apply(`{"steps": [{"name": "a"}]}`)
	tx, err := f.pool.Begin(t.Context())
	f.must(err)
	inside := postgres.On(tx)
	task, err := inside.Create(t.Context(), ledger.NewTask{Namespace: "default", Name: "task", IdempotencyKey: "k"})
	f.must(err)
	steps, err := inside.ReadySteps(t.Context(), task)
	if err != nil || len(steps) != 1 {
		t.Fatalf("%d ready steps, %v", len(steps), err)
	}
	number, err := inside.StartStep(t.Context(), steps[0].UUID, "w")
	f.must(err)
	f.must(inside.CompleteStep(t.Context(), steps[0].UUID, nil, number))
	if got, err := inside.Task(t.Context(), task); err != nil || got.State != "complete" {
		t.Fatalf("inside the transaction the task is %+v, %v", got, err)
	}
	f.must(tx.Rollback(t.Context()))
	for _, table := range []string{"tasker_tasks", "tasker_task_transitions", "tasker_workflow_steps", "tasker_workflow_step_transitions", "tasker_workers", "outbox_event"} {
		if got := f.answer(`select count(*)::text from postrider.` + table); got != "0" {
			t.Errorf("%s rows are left in %s", got, table)
		}
	}
}

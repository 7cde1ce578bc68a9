package postgres_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/tasks/ledger"
	"github.com/postrider/postrider/internal/tasks/ledgertest"
	"github.com/postrider/postrider/internal/tasks/postgres"
)

// From each retryable state a task begins anew, and the event that starts it is written again.
func TestRetry(t *testing.T) {
	t.Parallel()
	r := newRoad(t)
	for _, state := range ledgertest.Protocol().Retryable {
		task := r.in("protocol", "extracting")
		r.tell(r.givenUp(task, "record", "X"))
		if state != "dead_letter" {
			ledgertest.Put(t, r.pool, task, state)
		}
		r.exec(`update postrider.tasker_tasks set metadata = metadata || '{"tenant": "x"}' where task_uuid = $1`, task)
		event, err := r.Retry(t.Context(), task, "ann")
		if err != nil {
			t.Fatal(err)
		}
		got := ledgertest.Read(t, r.pool, task)
		if got.State != "uploaded" || !got.Live || got.ErrorReason != "" || got.RetryCount != 1 || string(got.Metadata) != `{"tenant": "x"}` {
			t.Errorf("from %s: %+v, metadata %s", state, got, got.Metadata)
		}
		starts := ledgertest.OfType(ledgertest.Events(t, r.pool, task), "document.uploaded")
		if len(starts) != 2 || starts[1].EventID != event || starts[1].Topic != "documents" {
			t.Fatalf("from %s: start events %+v, want a second, %s", state, starts, event)
		}
		var payload struct {
			RetryCount int `json:"retry_count"`
			Context    json.RawMessage
		}
		if err := json.Unmarshal(starts[1].Payload, &payload); err != nil || payload.RetryCount != 1 || string(payload.Context) != `{"document": 7}` {
			t.Errorf("from %s: payload %s, %v", state, starts[1].Payload, err)
		}
		if linked := scalar[uuid.UUID](r, `select task_uuid from postrider.outbox_event where event_id = $1`, event); linked != task {
			t.Errorf("from %s: the start event is linked to %s", state, linked)
		}
		transitions := ledgertest.OfType(ledgertest.Events(t, r.pool, task), "postrider.task.transitioned.v1")
		if last := transitions[len(transitions)-1]; last.From != state || last.To != "uploaded" || last.Reason != "retry" {
			t.Errorf("from %s: last transition %+v", state, last)
		}
	}
}

// A template without a start_event has an event that says so, and its steps begin anew where they are not done.
func TestRetryResetsSteps(t *testing.T) {
	t.Parallel()
	r := newRoad(t)
	task := r.in("workflow", "pending")
	steps := ledgertest.Steps(t, r.pool, task)
	r.exec(`select postrider.start_step($1)`, steps["a"].UUID)
	r.exec(`select postrider.complete_step($1, '{"x": 1}')`, steps["a"].UUID)
	for range 3 {
		r.exec(`update postrider.tasker_workflow_steps set next_retry_at = now() - interval '1 s' where workflow_step_uuid = $1 and next_retry_at is not null`, steps["b"].UUID)
		r.exec(`select postrider.start_step($1)`, steps["b"].UUID)
		r.exec(`select postrider.fail_step($1, 'no luck')`, steps["b"].UUID)
	}
	r.wantState(task, "error")
	if s := ledgertest.Steps(t, r.pool, task)["b"]; s.Status != "error" || s.RetryCount != 2 {
		t.Fatalf("step b %+v", s)
	}
	before := len(ledgertest.Events(t, r.pool, task))
	event, err := r.Retry(t.Context(), task, "")
	if err != nil {
		t.Fatal(err)
	}
	r.wantState(task, "pending")
	steps = ledgertest.Steps(t, r.pool, task)
	if steps["a"].Status != "complete" || steps["b"].Status != "pending" || steps["b"].RetryCount != 0 || steps["b"].LastError != "" || steps["c"].Status != "pending" {
		t.Errorf("steps %+v", steps)
	}
	var types []string
	events := ledgertest.Events(t, r.pool, task)
	for _, e := range events[before:] {
		types = append(types, strings.TrimSuffix(strings.TrimPrefix(e.Type, "postrider.task."), ".v1"))
	}
	if got := strings.Join(types, " "); got != "step_transitioned transitioned retry_queued" {
		t.Errorf("events %s", got)
	}
	if last := events[len(events)-1]; last.EventID != event || last.From != "error" || last.To != "pending" || last.Topic != "postrider.lifecycle" {
		t.Errorf("last event %+v, want %s", last, event)
	}
	if got := scalar[string](r, `select metadata->>'action' from postrider.tasker_workflow_step_transitions where workflow_step_uuid = $1 order by created_at desc limit 1`, steps["b"].UUID); got != "retry_task" {
		t.Errorf("history of the step says %q", got)
	}
	// It can be done now.
	r.exec(`select postrider.evaluate_task($1)`, task)
	for _, name := range []string{"b", "c"} {
		r.exec(`select postrider.start_step($1)`, steps[name].UUID)
		r.exec(`select postrider.complete_step($1)`, steps[name].UUID)
	}
	r.wantState(task, "complete")
}

func TestRetryRefuses(t *testing.T) {
	t.Parallel()
	r := newRoad(t)
	for _, state := range []string{"uploaded", "extracting", "grounding", "pending_review", "complete", "archived"} {
		task := r.in("protocol", state)
		before := len(ledgertest.Events(t, r.pool, task))
		_, err := r.Retry(t.Context(), task, "")
		refused(t, err, ledger.ErrInvalid, task.String()+" is "+state, "extraction_failed, grounding_failed, dead_letter")
		r.wantState(task, state)
		if got := len(ledgertest.Events(t, r.pool, task)); got != before {
			t.Errorf("from %s: %d events more", state, got-before)
		}
	}
	_, err := r.Retry(t.Context(), uuid.New(), "")
	refused(t, err, ledger.ErrNotFound, "there is no task")
	ledgertest.AddMachine(t, r.pool, ledgertest.Machine{Name: "bare", Initial: "open", Failed: "shut", States: map[string]string{"open": "initial", "shut": "failed"},
		Transitions: map[string][]string{"open": {"shut"}}})
	ledgertest.Apply(t, r.pool, ledgertest.Template{Name: "bare", Machine: "bare"})
	_, err = r.Retry(t.Context(), r.in("bare", "shut"), "")
	refused(t, err, ledger.ErrInvalid, "retries from no state")
}

// If many sessions retry a task at once, one succeeds; the others are told in which state it is.
func TestConcurrentRetries(t *testing.T) {
	t.Parallel()
	r := newRoad(t)
	task := r.in("protocol", "dead_letter")
	var wg sync.WaitGroup
	errs := make([]error, 6)
	for i := range errs {
		wg.Go(func() { _, errs[i] = r.Retry(t.Context(), task, "") })
	}
	wg.Wait()
	won := 0
	for _, err := range errs {
		if err == nil {
			won++
			continue
		}
		refused(t, err, ledger.ErrInvalid, "is uploaded")
	}
	if got := ledgertest.Read(t, r.pool, task); won != 1 || got.RetryCount != 1 {
		t.Errorf("%d retries of %+v", won, got)
	}
}

func TestRetryRollsBack(t *testing.T) {
	t.Parallel()
	r := newRoad(t)
	task := r.in("protocol", "dead_letter")
	before := len(ledgertest.Events(t, r.pool, task))
	tx, err := r.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := postgres.On(tx).Retry(t.Context(), task, ""); err != nil {
		t.Fatal(err)
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.wantState(task, "dead_letter")
	if got := len(ledgertest.Events(t, r.pool, task)); got != before {
		t.Errorf("%d events more", got-before)
	}
}

func TestDeadLetterByHand(t *testing.T) {
	t.Parallel()
	r := newRoad(t)
	for template, states := range map[string][2]string{"protocol": {"grounding", "dead_letter"}, "workflow": {"waiting_for_dependencies", "error"}} {
		task := r.in(template, states[0])
		stay := ledgertest.Read(t, r.pool, task).SortKey
		letter, err := r.DeadLetter(t.Context(), task, "the customer called", "ann")
		if err != nil {
			t.Fatal(err)
		}
		got := ledgertest.Read(t, r.pool, task)
		if got.State != states[1] || got.ErrorReason != "the customer called" {
			t.Errorf("%s: %+v", template, got)
		}
		letters := ledgertest.Letters(t, r.pool, task)
		if len(letters) != 1 || letters[0].EventID != letter || letters[0].Topic != "postrider.dlq" || letters[0].Reason != "manual_dlq" {
			t.Fatalf("%s: letters %+v", template, letters)
		}
		var body struct {
			LetterID      string `json:"letter_id"`
			OriginalState string `json:"original_state"`
			ErrorMessage  string `json:"error_message"`
			Metadata      struct{ Actor string }
			Snapshot      struct{ Task struct{ State string } }
		}
		if err := json.Unmarshal(letters[0].Payload, &body); err != nil {
			t.Fatal(err)
		}
		want := fmt.Sprintf("task:%s:%d:manual_dlq", task, stay)
		if body.LetterID != want || body.OriginalState != states[0] || body.Snapshot.Task.State != states[0] || body.ErrorMessage != "the customer called" || body.Metadata.Actor != "ann" {
			t.Errorf("%s: letter %s, want id %s", template, letters[0].Payload, want)
		}
	}
}

func TestDeadLetterByHandRefuses(t *testing.T) {
	t.Parallel()
	r := newRoad(t)
	r.template(ledgertest.Machine{Name: "stuck", Initial: "open", Failed: "broken", States: map[string]string{"open": "initial", "broken": "failed"},
		Transitions: map[string][]string{"open": {"broken"}, "broken": {"open"}}})
	for what, test := range map[string]struct {
		task   uuid.UUID
		reason string
		kind   error
		says   string
	}{
		"one that has ended": {r.in("protocol", "complete"), "x", ledger.ErrRefused, "has ended, it is complete"},
		"an unknown one":     {uuid.New(), "x", ledger.ErrNotFound, "there is no task"},
		"no reason":          {r.in("protocol", "uploaded"), " \n", ledger.ErrInvalid, "a reason of 1 to 4096 bytes"},
		"a long reason":      {r.in("protocol", "uploaded"), strings.Repeat("x", 4097), ledger.ErrInvalid, "a reason of 1 to 4096 bytes"},
	} {
		t.Log(what)
		_, err := r.DeadLetter(t.Context(), test.task, test.reason, "")
		refused(t, err, test.kind, test.says)
	}

	// A failed task stays where it is and has one letter by hand; a task under investigation gets none.
	task := r.in("protocol", "extraction_failed")
	if _, err := r.DeadLetter(t.Context(), task, "x", ""); err != nil {
		t.Fatal(err)
	}
	r.wantState(task, "extraction_failed")
	_, err := r.DeadLetter(t.Context(), task, "x", "")
	refused(t, err, ledger.ErrRefused, "was dead-lettered by hand before", "its letter is on its way")
	// Once the letter is recorded and its investigation closed, the refusal has another hint.
	r.recorded(task)
	_, err = r.DeadLetter(t.Context(), task, "x", "")
	refused(t, err, ledger.ErrRefused, "was dead-lettered by hand before", "its investigation was closed", "postrider task retry")
	final := r.in("stuck", "broken")
	if _, err := r.DeadLetter(t.Context(), final, "x", ""); err != nil {
		t.Fatal(err)
	}
	r.recorded(final)
	_, err = r.DeadLetter(t.Context(), final, "x", "")
	refused(t, err, ledger.ErrRefused, "its investigation was closed", "postrider task transition")
	ledgertest.Put(t, r.pool, task, "uploaded")
	entry := scalar[uuid.UUID](r, `insert into postrider.dlq_entry (subject_type, subject_id, original_state, dlq_reason, dlq_timestamp, last_occurred_at, snapshot)
		values ('task', $1, 'x', 'manual_dlq', now(), now(), '{}') returning dlq_entry_uuid`, task.String())
	r.exec(`insert into postrider.dlq_letter (letter_id, dlq_entry_uuid, dialect, dlq_topic, dlq_partition, dlq_offset, key_kind, payload_kind)
		values ('task:' || $1 || ':1:staleness_timeout', $2, 'postrider', 'd', 0, 1, 'inline', 'inline')`, task.String(), entry)
	_, err = r.DeadLetter(t.Context(), task, "x", "")
	refused(t, err, ledger.ErrRefused, "has a pending investigation already, "+entry.String())
	r.wantState(task, "uploaded")
	r.recorded(task)
	r.exec(`update postrider.dlq_entry set resolution_status = 'cancelled', resolution_timestamp = now()`)
	if _, err := r.DeadLetter(t.Context(), task, "x", ""); err != nil {
		t.Error(err)
	}
	r.wantState(task, "dead_letter")
}

// A dead-lettered task that did not change for seven days is archived by reading it, and only then.
func TestReadArchives(t *testing.T) {
	t.Parallel()
	r := newRoad(t)
	// A machine without a state for dead letters has its failed one for them.
	r.template(ledgertest.Machine{Name: "kept", Initial: "open", Failed: "broken", Archived: "shelf",
		States:      map[string]string{"open": "initial", "broken": "failed", "done": "terminal", "shelf": "terminal"},
		Transitions: map[string][]string{"open": {"broken", "done"}, "broken": {"open", "shelf"}}})
	for _, test := range []struct {
		template, state string
		age             time.Duration
		want            string
	}{
		{"protocol", "dead_letter", 7*day - time.Minute, "dead_letter"},
		{"protocol", "dead_letter", 7*day + time.Minute, "archived"},
		{"protocol", "extraction_failed", 8 * day, "extraction_failed"},
		{"protocol", "complete", 8 * day, "complete"},
		{"protocol", "extracting", 8 * day, "extracting"},
		{"workflow", "error", 8 * day, "error"},
		{"kept", "broken", 7*day - time.Minute, "broken"},
		{"kept", "broken", 7*day + time.Minute, "shelf"},
		{"kept", "done", 8 * day, "done"},
	} {
		task := r.in(test.template, test.state)
		ledgertest.Age(t, r.pool, task, test.age)
		raw, err := r.Read(t.Context(), task)
		if err != nil {
			t.Fatal(err)
		}
		var got struct {
			Task     struct{ State string }
			Template struct {
				Name string `json:"task_name"`
			}
			Transitions []json.RawMessage
		}
		if err := json.Unmarshal(raw, &got); err != nil {
			t.Fatal(err)
		}
		if got.Task.State != test.want || got.Template.Name != test.template || len(got.Transitions) == 0 {
			t.Errorf("%s, %s for %v: %s, want %s", test.template, test.state, test.age, raw, test.want)
		}
		r.wantState(task, test.want)
	}
	_, err := r.Read(t.Context(), uuid.New())
	refused(t, err, ledger.ErrNotFound, "there is no task")
}

// A read waits for no lock, and works in a transaction that may not write.
func TestReadWaitsForNobody(t *testing.T) {
	t.Parallel()
	r := newRoad(t)
	task := r.in("protocol", "dead_letter")
	ledgertest.Age(t, r.pool, task, 8*24*time.Hour)
	release := r.hold(lockTask, task)
	defer release()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	if raw, err := r.Read(ctx, task); err != nil || !strings.Contains(string(raw), `"dead_letter"`) {
		t.Errorf("locked: %s, %v", raw, err)
	}
	release()
	tx, err := r.pool.BeginTx(ctx, pgx.TxOptions{AccessMode: pgx.ReadOnly})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := postgres.On(tx).Read(ctx, task); err != nil {
		t.Errorf("read-only: %v", err)
	}
	if err := tx.Rollback(ctx); err != nil {
		t.Fatal(err)
	}
	r.wantState(task, "dead_letter")
	var wg sync.WaitGroup
	for range 6 {
		wg.Go(func() {
			if _, err := r.Read(ctx, task); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	r.wantState(task, "archived")
	if got := ledgertest.History(t, r.pool, task); strings.Count(got, "archived") != 1 {
		t.Errorf("history %s", got)
	}
}

// recorded is what the collector does with a task's letters, without their investigation.
func (r *road) recorded(task uuid.UUID) {
	r.Helper()
	r.exec(`insert into postrider.dlq_letter (letter_id, dialect, dlq_topic, dlq_partition, dlq_offset, key_kind, payload_kind)
		select w.id, 'postrider', 'postrider.dlq', 0, w.n, 'inline', 'inline' from postrider.tasker_tasks k, unnest(k.dead_letters) with ordinality w(id, n)
		where k.task_uuid = $1 on conflict do nothing`, task)
}

// TestDeadLetterByHandTwice: the second is refused while the first is on its way to the collector, which would otherwise
// be one investigation for two letters.
func TestDeadLetterByHandTwice(t *testing.T) {
	t.Parallel()
	r := newRoad(t)
	for template, state := range map[string]string{"protocol": "grounding", "workflow": "waiting_for_dependencies"} {
		task := r.in(template, state)
		if _, err := r.DeadLetter(t.Context(), task, "first", "ann"); err != nil {
			t.Fatal(err)
		}
		before := ledgertest.Read(t, r.pool, task)
		_, err := r.DeadLetter(t.Context(), task, "second", "ann")
		refused(t, err, ledger.ErrRefused, "has a dead letter on its way already")
		if after := ledgertest.Read(t, r.pool, task); after.SortKey != before.SortKey || after.State != before.State || len(ledgertest.Letters(t, r.pool, task)) != 1 {
			t.Errorf("%s: it was %+v, it is %+v", template, before, after)
		}
		// Recorded, and its investigation was closed or purged.
		r.recorded(task)
		if _, err := r.DeadLetter(t.Context(), task, "third", "ann"); err != nil {
			t.Errorf("%s, after the first was recorded: %v", template, err)
		}
	}
}

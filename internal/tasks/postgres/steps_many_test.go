package postgres_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/postrider/postrider/internal/tasks/ledger"
	"github.com/postrider/postrider/internal/tasks/ledgertest"
	"github.com/postrider/postrider/internal/tasks/postgres"
)

// TestManyStepsAreSetAsOneByOne: cancelling or retrying a task writes the same as step_set writes for one step after the
// other: rows, history, events and their order.
func TestManyStepsAreSetAsOneByOne(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		// what steps become, which of them, and how they are changed one by one
		status, which, change, why string
		state                      string
		do                         func(f *fixture, task uuid.UUID) error
	}{
		"cancelled": {
			"cancelled", `w.status not in ('complete', 'resolved_manually', 'cancelled')`, "", `{"action": "cancel", "actor": "kim", "notes": "enough", "reason": "enough"}`, "cancelled",
			func(f *fixture, task uuid.UUID) error {
				_, err := f.Cancel(t.Context(), task, "kim", "enough")
				return err
			}},
		"retried": {
			"pending", `w.status not in ('complete', 'resolved_manually') and (w.status <> 'pending' or w.retry_count > 0 or w.last_error is not null)`,
			"s.retry_count := 0; s.last_error := null;", `{"action": "retry_task", "actor": "kim", "reason": "the task is retried"}`, "pending",
			func(f *fixture, task uuid.UUID) error { _, err := f.Retry(t.Context(), task, "kim"); return err }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			f.apply(`{"events": {"topic": "own"}, "steps": [{"name": "done"}, {"name": "later", "dependencies": ["other"]}, {"name": "again"}, {"name": "failed", "max_retries": 0},
				{"name": "other", "dependencies": ["done"]}, {"name": "running"}, {"name": "gone"}]}`)
			create := func() uuid.UUID {
				task := f.task()
				f.do(task, "done")
				_, err := f.Act(t.Context(), task, f.step(task, "gone").UUID, ledger.StepAction{Action: ledger.ActionCancel})
				f.must(err)
				f.must(f.StartStep(t.Context(), f.step(task, "running").UUID, "w"))
				for _, step := range []string{"again", "failed"} {
					f.must(f.StartStep(t.Context(), f.step(task, step).UUID, "w"))
					_, err := f.FailStep(t.Context(), f.step(task, step).UUID, ledger.Failure{Error: "x", RetryAfter: time.Hour})
					f.must(err)
				}
				ledgertest.Put(t, f.pool, task, "error")
				return task
			}
			one, other := create(), create()
			since := f.answer(`select max(id)::text from postrider.outbox_event`)
			f.must(c.do(f, other))
			f.exec(fmt.Sprintf(`do $do$ declare s postrider.tasker_workflow_steps; begin
				for s in select w.* from postrider.tasker_workflow_steps w where w.task_uuid = '%s' and %s order by w.position loop
					s.next_retry_at := null; %s
					perform postrider.step_set(s, '%s', '%s');
				end loop;
			end $do$`, one, c.which, c.change, c.status, c.why))
			if name == "retried" {
				f.exec(`update postrider.tasker_tasks set retry_count = 1 where task_uuid = $1`, one)
				f.exec(`select postrider.task_move($1, 'pending', '{"actor": "kim", "reason": "retry"}')`, one)
				f.exec(`select postrider.task_event($1, 'retry_queued', '{"from_state": "error", "to_state": "pending", "sort_key": 9, "retry_count": 1, "actor": "kim", "reason": "retry", "metadata": null}'
					|| jsonb_build_object('sort_key', sort_key)) from postrider.tasker_tasks where task_uuid = $1`, one)
			} else {
				f.exec(`select postrider.task_move($1, 'cancelled', $2::jsonb)`, one, c.why)
			}
			f.in(other, c.state)
			if got, want := f.everything(other, since), f.everything(one, since); got != want {
				t.Errorf("at once:\n%s\none by one:\n%s", difference(got, want), difference(want, got))
			}
		})
	}
}

// TestCancelOfManySteps: the rows that a cancel reads grow with the number of steps, and not with its square.
func TestCancelOfManySteps(t *testing.T) {
	t.Parallel()
	const steps = 2000
	f := newFixture(t)
	f.apply(`{}`)
	task, err := f.Create(t.Context(), ledger.NewTask{Namespace: "default", Name: "task",
		Steps: json.RawMessage(f.answer(`select jsonb_agg(jsonb_build_object('name', 's' || i))::text from generate_series(1, $1::int) i`, steps))})
	f.must(err)
	tx, err := f.db.Conn(t).Begin(t.Context())
	f.must(err)
	defer func() { _ = tx.Rollback(t.Context()) }()
	if cancelled, err := postgres.On(tx).Cancel(t.Context(), task, "", ""); err != nil || !cancelled {
		t.Fatalf("cancelled %v, %v", cancelled, err)
	}
	var fetched, changed int
	f.must(tx.QueryRow(t.Context(), `select idx_tup_fetch, n_tup_upd from pg_stat_xact_user_tables where relname = 'tasker_workflow_steps'`).Scan(&fetched, &changed))
	if changed != steps || fetched > 20*steps {
		t.Errorf("cancelling %d steps changes %d and reads %d", steps, changed, fetched)
	}
}

// TestStepsAreListedInTheirOrder: changes of many steps at one moment are listed in the order of the steps, also from
// the archive.
func TestStepsAreListedInTheirOrder(t *testing.T) {
	t.Parallel()
	const steps = 30
	f := newFixture(t)
	f.apply(`{}`)
	task, err := f.Create(t.Context(), ledger.NewTask{Namespace: "default", Name: "task",
		Steps: json.RawMessage(f.answer(`select jsonb_agg(jsonb_build_object('name', 's' || i))::text from generate_series(1, $1::int) i`, steps))})
	f.must(err)
	_, err = f.Cancel(t.Context(), task, "", "")
	f.must(err)
	live, err := wholeHistory(t.Context(), f.StepTransitions, task)
	f.must(err)
	names := map[uuid.UUID]string{}
	for i, h := range live {
		names[h.StepUUID] = h.StepName
		if want := fmt.Sprint("s", i%steps+1); len(live) != 2*steps || h.StepName != want {
			t.Fatalf("%d of %d is of %s, want %s", i, len(live), h.StepName, want)
		}
	}
	ledgertest.Age(t, f.pool, task, 40*day)
	f.exec(`select postrider.archive_completed_tasks(p_dry_run => false, p_archive_cancelled => true)`)
	archived, err := wholeHistory(t.Context(), postgres.NewArchive(f.pool).StepTransitions, task)
	f.must(err)
	for i, h := range archived {
		if want := fmt.Sprint("s", i%steps+1); len(archived) != 2*steps || names[h.StepUUID] != want {
			t.Fatalf("archived, %d of %d is of %s, want %s", i, len(archived), names[h.StepUUID], want)
		}
	}
}

// TestNotesOfACancelledTask: the steps have notes of up to 200 characters whole, however many bytes they take, and the
// beginning of longer notes.
func TestNotesOfACancelledTask(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.apply(`{"steps": [{"name": "a"}]}`)
	for notes, want := range map[string]string{strings.Repeat("é", 200): strings.Repeat("é", 200), strings.Repeat("é", 201): strings.Repeat("é", 200) + " …"} {
		task := f.task()
		_, err := f.Cancel(t.Context(), task, "", notes)
		f.must(err)
		if got := f.answer(`select metadata->>'reason' from postrider.tasker_workflow_step_transitions where task_uuid = $1 and to_status = 'cancelled'`, task); got != want {
			t.Errorf("of %d characters the step has %q", len(notes)/2, got)
		}
		if got := f.answer(`select metadata->>'reason' from postrider.tasker_task_transitions where task_uuid = $1 and most_recent`, task); got != notes {
			t.Errorf("the task has %q", got)
		}
	}
}

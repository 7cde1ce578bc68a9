package postgres_test

import (
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/postrider/postrider/internal/tasks/ledger"
	"github.com/postrider/postrider/internal/tasks/ledgertest"
)

// handedOut reports whether a task is handed out by get_next_ready_tasks as a worker calls it.
func (f *fixture) handedOut(task uuid.UUID) bool {
	f.t.Helper()
	return f.answer(`select exists (select from postrider.get_next_ready_tasks(100) where task_uuid = $1)::text`, task) == "true"
}

// flagged reports whether a task has a flag.
func (f *fixture) flagged(task uuid.UUID) bool {
	f.t.Helper()
	return ledgertest.Read(f.t, f.pool, task).Flagged
}

// TestAFlagEndsWithItsRule: a task that was found to be stale and left in place is looked at again when a threshold, the
// action or a switch changed, and is handed out once no rule says that it is stale.
func TestAFlagEndsWithItsRule(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	off := ledger.DefaultDetection()
	off.AutoTransitionToError, off.AutoMoveToDLQ = false, false
	review := `{"staleness_action": "manual_review"}`
	for name, c := range map[string]struct {
		before, after string // lifecycles
		first, then   ledger.Detection
		want          ledger.StaleAction // empty: it is not stale any more
	}{
		"the switches are turned on":   {`{}`, `{}`, off, ledger.DefaultDetection(), ledger.StaleMovedToDLQ},
		"the action changes":           {review, `{"staleness_action": "dlq"}`, ledger.DefaultDetection(), ledger.DefaultDetection(), ledger.StaleMoved},
		"a threshold is raised":        {review, `{"staleness_action": "manual_review", "max_pending_minutes": 100000, "max_duration_minutes": 100000}`, ledger.DefaultDetection(), ledger.DefaultDetection(), ""},
		"nothing changes":              {review, review, ledger.DefaultDetection(), ledger.DefaultDetection(), "none"},
		"nothing changes, actions off": {`{}`, `{}`, off, off, "none"},
	} {
		f.template("x", c.before)
		task := f.stuck("x", "pending", 25*time.Hour)
		f.detect(c.first)
		if !f.flagged(task) || f.handedOut(task) {
			t.Errorf("%s: before it, flagged %v, handed out %v", name, f.flagged(task), f.handedOut(task))
		}
		f.template("x", c.after)
		dry := c.then
		dry.DryRun = true
		seen, isSeen := f.detect(dry)[task]
		if ready := f.handedOut(task); ready != (c.want == "") {
			t.Errorf("%s: before the next pass it is handed out: %v", name, ready)
		}
		s, found := f.detect(c.then)[task]
		if want := c.want != "" && c.want != "none"; found != want || isSeen != want || found && (s.ActionTaken != c.want || seen.ActionTaken != c.want) {
			t.Errorf("%s: found %v %+v, in a dry run %v %+v; want %q", name, found, s, isSeen, seen, c.want)
		}
		if is := f.flagged(task); is != (c.want == "none") {
			t.Errorf("%s: flagged %v afterwards", name, is)
		}
		f.exec(`delete from postrider.tasker_tasks`)
	}
}

// TestAFlaggedTaskPassesItsOtherThreshold, and is looked at again, once.
func TestAFlaggedTaskPassesItsOtherThreshold(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.template("x", `{"auto_dlq_on_timeout": false, "auto_fail_on_timeout": false, "max_waiting_for_dependencies_minutes": 60, "max_duration_minutes": 600}`)
	early := f.stuck("x", "waiting_for_dependencies", 61*time.Minute)
	f.foundBy(f.detect(ledger.DefaultDetection()), early, 60, "state", "template")
	if again := f.detect(ledger.DefaultDetection()); len(again) != 0 {
		t.Errorf("found again: %+v", again)
	}
	ledgertest.Age(t, f.pool, early, 10*time.Hour)
	f.foundBy(f.detect(ledger.DefaultDetection()), early, 60, "state", "template")
	if again := f.detect(ledger.DefaultDetection()); len(again) != 0 {
		t.Errorf("found a third time: %+v", again)
	}
	// The other way round: first the lifetime, then the state.
	late := f.stuck("x", "pending", 601*time.Minute)
	ledgertest.Put(t, f.pool, late, "waiting_for_dependencies")
	f.foundBy(f.detect(ledger.DefaultDetection()), late, 600, "lifetime", "template")
	ledgertest.Age(t, f.pool, late, time.Hour+time.Minute)
	f.foundBy(f.detect(ledger.DefaultDetection()), late, 60, "state", "template")
}

// TestUnflag: a person lets a task go on, and both of its clocks begin anew. Where it is stale again it is investigated again.
func TestUnflag(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.template("x", `{"staleness_action": "manual_review"}`)
	task := f.stuck("x", "pending", 26*time.Hour)
	if was, err := f.Unflag(t.Context(), task, "kim", ""); err != nil || was {
		t.Errorf("without a flag: %v, %v", was, err)
	}
	f.detect(ledger.DefaultDetection())
	if was, err := f.Unflag(t.Context(), task, "kim", "slow today"); err != nil || !was {
		t.Fatalf("unflagged %v, %v", was, err)
	}
	shown, err := f.Task(t.Context(), task)
	f.must(err)
	if shown.StayFrom == nil || shown.ResumedAt == nil || !shown.StayFrom.Equal(*shown.ResumedAt) || time.Since(*shown.StayFrom) > time.Hour {
		t.Errorf("its clocks are shown to run from %v and %v", shown.StayFrom, shown.ResumedAt)
	}
	if f.flagged(task) || !f.handedOut(task) {
		t.Errorf("afterwards: flagged %v, handed out %v", f.flagged(task), f.handedOut(task))
	}
	if found := f.detect(ledger.DefaultDetection()); len(found) != 0 {
		t.Errorf("stale again: %+v", found)
	}
	if told := ledgertest.OfType(ledgertest.Events(t, f.pool, task), "postrider.task.unflagged.v1"); len(told) != 1 || told[0].Reason != "slow today" {
		t.Errorf("the events are %+v", told)
	}
	ledgertest.Age(t, f.pool, task, 25*time.Hour)
	if found := f.detect(ledger.DefaultDetection()); len(found) != 1 || found[task].ActionTaken != ledger.StaleReview {
		t.Errorf("a day later: %+v; it opens another investigation", found)
	}
	_, err = f.Unflag(t.Context(), uuid.New(), "kim", "")
	refused(t, err, ledger.ErrNotFound, "no task")
}

// TestProgressRestartsTheClock: a wide task whose steps end now and then is not stale, however long it is in
// steps_in_process. Its lifetime is absolute.
func TestProgressRestartsTheClock(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.apply(`{"steps": [{"name": "a"}, {"name": "b"}, {"name": "c"}, {"name": "d"}]}`)
	task := f.task()
	for _, name := range []string{"a", "b", "c", "d"} {
		f.must(f.EnqueueStep(t.Context(), f.step(task, name).UUID))
	}
	for _, name := range []string{"a", "b", "c"} {
		ledgertest.Age(t, f.pool, task, 25*time.Minute)
		f.must(f.StartStep(t.Context(), f.step(task, name).UUID, "w"))
		ledgertest.Age(t, f.pool, task, 25*time.Minute)
		f.must(f.CompleteStep(t.Context(), f.step(task, name).UUID, nil))
		if found := f.detect(ledger.DefaultDetection()); len(found) != 0 {
			t.Fatalf("right after %s it is stale: %+v", name, found)
		}
	}
	if got := ledgertest.History(t, f.pool, task); got != "pending -> initializing -> enqueuing_steps -> steps_in_process" {
		t.Errorf("it was in %s", got)
	}
	ledgertest.Age(t, f.pool, task, 31*time.Minute)
	s := f.detect(ledger.DefaultDetection())[task]
	if s.ThresholdKind != "state" || s.TimeInStateMinutes != 31 {
		t.Errorf("without progress: %+v", s)
	}
	if e := ledgertest.Read(t, f.pool, task).ErrorReason; e != "It was in steps_in_process for 31 minutes without progress; the limit is 30 (default)." {
		t.Errorf("the reason is %q", e)
	}
	old := f.task()
	f.must(f.StartStep(t.Context(), f.step(old, "a").UUID, "w"))
	ledgertest.Age(t, f.pool, old, 25*time.Hour)
	f.must(f.StartStep(t.Context(), f.step(old, "b").UUID, "w"))
	f.foundBy(f.detect(ledger.DefaultDetection()), old, 24*60, "lifetime", "default")
}

// TestProgressEndsAFlag: a task that was left in place and goes on is not flagged. Where it is stale again it is investigated
// again, once.
func TestProgressEndsAFlag(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.apply(`{"lifecycle": {"staleness_action": "manual_review"}, "steps": [{"name": "a"}, {"name": "b"}]}`)
	task := f.task()
	f.must(f.StartStep(t.Context(), f.step(task, "a").UUID, "w"))
	ledgertest.Age(t, f.pool, task, time.Hour)
	f.detect(ledger.DefaultDetection())
	if !f.flagged(task) {
		t.Fatal("it is not flagged")
	}
	f.must(f.StartStep(t.Context(), f.step(task, "b").UUID, "w"))
	if f.flagged(task) {
		t.Error("with a step begun it is still flagged")
	}
	ledgertest.Age(t, f.pool, task, time.Hour)
	if s := f.detect(ledger.DefaultDetection())[task]; s.ActionTaken != ledger.StaleReview {
		t.Errorf("an hour later: %+v; it opens another investigation", s)
	}
	f.exec(`update postrider.tasker_tasks set stale_flagged_at = null`)
	if s := f.detect(ledger.DefaultDetection())[task]; s.ActionTaken != ledger.StaleFlagged || len(ledgertest.Letters(t, f.pool, task)) != 2 {
		t.Errorf("without progress: %+v; the letter was written before", s)
	}
}

// TestARetryBeyondTheThreshold: while the next retry is not due, nothing is late.
func TestARetryBeyondTheThreshold(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.apply(`{"steps": [{"name": "a"}]}`)
	task := f.task()
	a := f.step(task, "a").UUID
	f.must(f.StartStep(t.Context(), a, "w"))
	_, err := f.FailStep(t.Context(), a, ledger.Failure{Error: "come back later", RetryAfter: 90 * time.Minute})
	f.must(err)
	f.in(task, "waiting_for_retry")
	ledgertest.Age(t, f.pool, task, 85*time.Minute)
	if found := f.detect(ledger.DefaultDetection()); len(found) != 0 {
		t.Errorf("before its retry it is stale: %+v", found)
	}
	ledgertest.Age(t, f.pool, task, 10*time.Minute)
	if !f.handedOut(task) {
		t.Error("with its retry due it is not handed out")
	}
	ledgertest.Age(t, f.pool, task, 30*time.Minute)
	f.foundBy(f.detect(ledger.DefaultDetection()), task, 30, "state", "default")
}

// TestThresholdsAreAskedOnce: what serve is set to holds where no threshold is named: the detector, ready tasks, the
// figures, and nearly stale tasks.
func TestThresholdsAreAskedOnce(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.template("x", `{}`)
	waiting := f.stuck("x", "waiting_for_retry", 45*time.Minute)
	f.exec(`update postrider.tasker_tasks set ready_at = '2000-01-01'`)
	f.exec(`update postrider.tasker_workflow_steps set status = 'waiting_for_retry', next_retry_at = now() - interval '45 minutes' where step_name = 'one'`)
	stored := ledger.StoredDetection()
	stored.DryRun = true
	check := func(what string, stale bool) {
		t.Helper()
		if found := f.detect(stored); len(found) == 1 != stale {
			t.Errorf("%s: detection finds %+v", what, found)
		}
		if f.handedOut(waiting) == stale {
			t.Errorf("%s: handed out %v", what, !stale)
		}
		if got := f.answer(`select stale::text from postrider.v_task_staleness_monitoring where current_state = 'waiting_for_retry'`); (got == "1") != stale {
			t.Errorf("%s: the view counts %s", what, got)
		}
		if near, err := f.NearStale(t.Context(), stored, 1); err != nil || (near.State == 1) != stale {
			t.Errorf("%s: past the whole threshold are %+v, %v", what, near, err)
		}
	}
	check("by default", true)
	d := ledger.DefaultDetection()
	d.WaitingForRetryMinutes, d.AutoTransitionToError = 120, false
	f.settings(ledger.Settings{LifecycleTopic: "l", DLQTopic: "d", EventChannel: "e", Detection: d})
	check("with 120 minutes", false)
	d.WaitingForRetryMinutes = 10
	f.settings(ledger.Settings{LifecycleTopic: "l", DLQTopic: "d", EventChannel: "e", Detection: d})
	stored.DryRun = false
	if s := f.detect(stored)[waiting]; s.ActionTaken != ledger.StaleReview || s.StalenessThresholdMinutes != 10 {
		t.Errorf("with transitions off and 10 minutes: %+v", s)
	}
	// What a caller names goes before.
	given := ledger.DefaultDetection()
	given.WaitingForRetryMinutes, given.DryRun = 40, true
	if s := f.detect(given)[waiting]; s.StalenessThresholdMinutes != 40 || s.ActionTaken != ledger.StaleMoved {
		t.Errorf("with 40 minutes and transitions given: %+v", s)
	}
}

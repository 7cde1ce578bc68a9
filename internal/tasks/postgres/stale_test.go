package postgres_test

import (
	"encoding/json"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/postrider/postrider/internal/tasks/ledger"
	"github.com/postrider/postrider/internal/tasks/ledgertest"
)

// stuck is a task of a template that has been in a state for d.
func (f *fixture) stuck(template, state string, d time.Duration) uuid.UUID {
	f.t.Helper()
	id := ledgertest.Create(f.t, f.pool, ledgertest.New{Name: template})
	if state != "pending" {
		ledgertest.Put(f.t, f.pool, id, state)
	}
	ledgertest.Age(f.t, f.pool, id, d)
	return id
}

// template writes the template default/NAME with a lifecycle, as JSON.
func (f *fixture) template(name, lifecycle string) {
	f.t.Helper()
	ledgertest.Apply(f.t, f.pool, ledgertest.Template{Name: name,
		Configuration: `{"lifecycle": ` + lifecycle + `, "steps": [{"name": "one"}, {"name": "two", "dependencies": ["one"]}]}`})
}

// detect makes passes until nothing is found, and returns what was found by task.
func (f *fixture) detect(d ledger.Detection) map[uuid.UUID]ledger.StaleTask {
	f.t.Helper()
	found, _, _ := pass(f.t, f, d)
	return found
}

// foundBy fails the test unless the task was found with this threshold.
func (f *fixture) foundBy(found map[uuid.UUID]ledger.StaleTask, id uuid.UUID, minutes int, kind, source string) {
	f.t.Helper()
	s, is := found[id]
	if !is || s.StalenessThresholdMinutes != minutes || s.ThresholdKind != kind || s.ThresholdSource != source {
		f.t.Errorf("found %v: %+v, want %d minutes, %s, %s", is, s, minutes, kind, source)
	}
}

func TestStalenessDetectionRespectsThresholds(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.template("plain", "{}")
	d := ledger.DefaultDetection()
	d.WaitingForDependenciesMinutes, d.WaitingForRetryMinutes, d.StepsInProcessMinutes, d.TaskMaxLifetimeHours = 20, 10, 15, 4
	fresh := map[string]time.Duration{"waiting_for_dependencies": 19 * time.Minute, "waiting_for_retry": 9 * time.Minute, "steps_in_process": 14 * time.Minute,
		"pending": 3 * time.Hour, "blocked_by_failures": 3 * time.Hour, "complete": 90 * day, "error": 90 * day, "cancelled": 90 * day, "resolved_manually": 90 * day}
	for state, age := range fresh {
		f.stuck("plain", state, age)
	}
	stale := map[uuid.UUID]int{}
	for state, minutes := range map[string]int{"waiting_for_dependencies": 20, "waiting_for_retry": 10, "steps_in_process": 15} {
		stale[f.stuck("plain", state, time.Duration(minutes)*time.Minute+time.Second)] = minutes
	}
	byState := f.stuck("plain", "evaluating_results", 25*time.Hour)
	byAge := f.stuck("plain", "pending", 4*time.Hour+time.Second)
	found := f.detect(d)
	for id, minutes := range stale {
		f.foundBy(found, id, minutes, "state", "default")
		f.in(id, "error")
	}
	f.foundBy(found, byState, 1440, "state", "default")
	f.foundBy(found, byAge, 240, "lifetime", "default")
	if len(found) != len(stale)+2 {
		t.Errorf("%d tasks are stale, want %d: %+v", len(found), len(stale)+2, found)
	}
	for _, s := range found {
		reason := "staleness_timeout"
		if s.CurrentState == "pending" { // it has steps, and no worker ever came
			reason = "worker_unavailable"
		}
		if s.ActionTaken != ledger.StaleMovedToDLQ || !s.MovedToDLQ || !s.TransitionSuccess || s.DLQReason != reason ||
			s.NamespaceName != "default" || s.TaskName != "plain" || s.TaskAgeSeconds < float64(60*s.TimeInStateMinutes) {
			t.Errorf("%+v", s)
		}
	}
	if again := f.detect(d); len(again) != 0 {
		t.Errorf("found again: %+v", again)
	}
}

func TestPerTemplateThresholdsOverrideDefaults(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.template("fast", `{"max_duration_minutes": 30, "max_waiting_for_dependencies_minutes": 10, "max_waiting_for_retry_minutes": 5, "max_steps_in_process_minutes": 20}`)
	f.template("patient", `{"max_waiting_for_dependencies_minutes": 480, "max_duration_minutes": 10080}`)
	f.template("plain", "{}")
	fast := f.stuck("fast", "waiting_for_dependencies", 11*time.Minute)
	old := f.stuck("fast", "pending", 31*time.Minute)
	patient := f.stuck("patient", "waiting_for_dependencies", 7*time.Hour)
	plain := f.stuck("plain", "waiting_for_dependencies", 11*time.Minute)
	late := f.stuck("plain", "waiting_for_dependencies", 61*time.Minute)
	found := f.detect(ledger.DefaultDetection())
	f.foundBy(found, fast, 10, "state", "template")
	f.foundBy(found, old, 30, "lifetime", "template")
	f.foundBy(found, late, 60, "state", "default")
	f.in(patient, "waiting_for_dependencies")
	f.in(plain, "waiting_for_dependencies")
	if len(found) != 3 {
		t.Errorf("found %+v", found)
	}
}

func TestMissingLifecycleConfigUsesSystemDefaults(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for name, configuration := range map[string]string{
		"none": `{}`, "null": `{"lifecycle": null}`, "empty": `{"lifecycle": {}}`,
		// No template can have these values, because they are checked. They must not end the detection of other tasks.
		"wrong": `{"lifecycle": {"max_waiting_for_retry_minutes": "soon", "max_duration_minutes": {}, "staleness_action": 7}}`, "list": `{"lifecycle": []}`, "text": `{"lifecycle": "no"}`,
	} {
		ledgertest.Apply(t, f.pool, ledgertest.Template{Name: name, Configuration: configuration})
		fresh, stale := f.stuck(name, "waiting_for_retry", 29*time.Minute), f.stuck(name, "waiting_for_retry", 31*time.Minute)
		old := f.stuck(name, "pending", day+time.Minute)
		found := f.detect(ledger.DefaultDetection())
		f.foundBy(found, stale, 30, "state", "default")
		f.foundBy(found, old, 1440, "state", "default")
		f.in(fresh, "waiting_for_retry")
		if len(found) != 2 {
			t.Errorf("%s: found %+v", name, found)
		}
		if e := ledgertest.Read(t, f.pool, stale).ErrorReason; e != "It was in waiting_for_retry for 31 minutes; the limit is 30 (default)." {
			t.Errorf("%s: the reason is %q", name, e)
		}
	}
}

func TestPartialLifecycleConfigMergesWithDefaults(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.template("partial", `{"max_waiting_for_dependencies_minutes": 5}`)
	own := f.stuck("partial", "waiting_for_dependencies", 6*time.Minute)
	retry, steps := f.stuck("partial", "waiting_for_retry", 31*time.Minute), f.stuck("partial", "steps_in_process", 31*time.Minute)
	f.stuck("partial", "waiting_for_retry", 29*time.Minute)
	found := f.detect(ledger.DefaultDetection())
	f.foundBy(found, own, 5, "state", "template")
	f.foundBy(found, retry, 30, "state", "default")
	f.foundBy(found, steps, 30, "state", "default")
	if len(found) != 3 {
		t.Errorf("found %+v", found)
	}
}

func TestNamespaceThresholdsGoBetween(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	ledgertest.Apply(t, f.pool, ledgertest.Template{Name: "own", Configuration: `{"lifecycle": {"max_steps_in_process_minutes": 50}}`,
		NamespaceLifecycle: `{"max_steps_in_process_minutes": 40, "max_waiting_for_retry_minutes": 3, "max_duration_minutes": 600, "staleness_action": "error"}`})
	ledgertest.Apply(t, f.pool, ledgertest.Template{Name: "plain"})
	own, below := f.stuck("own", "steps_in_process", 51*time.Minute), f.stuck("own", "steps_in_process", 49*time.Minute)
	plain, retry := f.stuck("plain", "steps_in_process", 41*time.Minute), f.stuck("own", "waiting_for_retry", 4*time.Minute)
	old := f.stuck("plain", "pending", 601*time.Minute)
	found := f.detect(ledger.DefaultDetection())
	f.foundBy(found, own, 50, "state", "template")
	f.foundBy(found, plain, 40, "state", "namespace")
	f.foundBy(found, retry, 3, "state", "namespace")
	f.foundBy(found, old, 600, "lifetime", "namespace")
	f.in(below, "steps_in_process")
	for id, s := range found {
		if s.ActionTaken != ledger.StaleMoved || s.MovedToDLQ || len(ledgertest.Letters(t, f.pool, id)) != 0 {
			t.Errorf("the namespace's action is not kept: %+v", s)
		}
	}
}

// What a template wants is done, and the switches only take away from it.
func TestStalenessActions(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		lifecycle string
		change    func(*ledger.Detection)
		want      ledger.StaleAction
	}{
		"default":               {`{}`, nil, ledger.StaleMovedToDLQ},
		"dlq":                   {`{"staleness_action": "dlq"}`, nil, ledger.StaleMovedToDLQ},
		"error":                 {`{"staleness_action": "error"}`, nil, ledger.StaleMoved},
		"manual review":         {`{"staleness_action": "manual_review"}`, nil, ledger.StaleReview},
		"not failed":            {`{"auto_fail_on_timeout": false}`, nil, ledger.StaleReview},
		"no letter":             {`{"auto_dlq_on_timeout": false}`, nil, ledger.StaleMoved},
		"neither":               {`{"auto_fail_on_timeout": false, "auto_dlq_on_timeout": false}`, nil, ledger.StaleFlagged},
		"error, not failed":     {`{"staleness_action": "error", "auto_fail_on_timeout": false}`, nil, ledger.StaleFlagged},
		"transitions off":       {`{}`, func(d *ledger.Detection) { d.AutoTransitionToError = false }, ledger.StaleReview},
		"letters off":           {`{}`, func(d *ledger.Detection) { d.AutoMoveToDLQ = false }, ledger.StaleMoved},
		"reason off":            {`{}`, func(d *ledger.Detection) { d.ReasonStalenessTimeout = false }, ledger.StaleMoved},
		"other reason off":      {`{}`, func(d *ledger.Detection) { d.ReasonWorkerUnavailable = false }, ledger.StaleMovedToDLQ},
		"review, letters off":   {`{"staleness_action": "manual_review"}`, func(d *ledger.Detection) { d.AutoMoveToDLQ = false }, ledger.StaleFlagged},
		"switches add no move":  {`{"auto_fail_on_timeout": false}`, func(d *ledger.Detection) { d.AutoTransitionToError = true }, ledger.StaleReview},
		"switches add no event": {`{}`, func(d *ledger.Detection) { d.EmitEvents = false }, ledger.StaleMovedToDLQ},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			f.template("x", c.lifecycle)
			d := ledger.DefaultDetection()
			if c.change != nil {
				c.change(&d)
			}
			id := f.stuck("x", "steps_in_process", time.Hour)
			told := len(f.told(id))
			s := f.detect(d)[id]
			moved := c.want == ledger.StaleMovedToDLQ || c.want == ledger.StaleMoved
			letter := c.want == ledger.StaleMovedToDLQ || c.want == ledger.StaleReview
			if s.ActionTaken != c.want || s.TransitionSuccess != moved || s.MovedToDLQ != letter {
				t.Errorf("%+v, want %s", s, c.want)
			}
			row := ledgertest.Read(t, f.pool, id)
			if (row.State == "error") != moved || row.Flagged == moved || row.Live == moved {
				t.Errorf("the task is %+v", row)
			}
			var want []string
			if d.EmitEvents {
				to := "steps_in_process"
				if moved {
					to = "error"
				}
				want = append(want, "task_staleness_detected steps_in_process>"+to)
			}
			if moved {
				want = append(want, "transitioned steps_in_process>error")
			}
			if letter {
				want = append(want, "dead_lettered")
			}
			if got := f.told(id)[told:]; strings.Join(got, "; ") != strings.Join(want, "; ") {
				t.Errorf("told %q, want %q", got, want)
			}
			if again := f.detect(d); len(again) != 0 {
				t.Errorf("found again in the same stay: %+v", again)
			}
		})
	}
}

// A task that stays is found once per stay, and again in its next one.
func TestFlaggedOncePerStay(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.template("review", `{"staleness_action": "manual_review"}`)
	id := f.stuck("review", "waiting_for_dependencies", 2*time.Hour)
	for range 3 {
		f.detect(ledger.DefaultDetection())
	}
	if n := len(ledgertest.Letters(t, f.pool, id)); n != 1 {
		t.Errorf("%d letters of one stay", n)
	}
	ledgertest.Put(t, f.pool, id, "evaluating_results")
	ledgertest.Put(t, f.pool, id, "waiting_for_dependencies")
	if found := f.detect(ledger.DefaultDetection()); len(found) != 0 {
		t.Errorf("found right after it moved: %+v", found)
	}
	ledgertest.Age(t, f.pool, id, 2*time.Hour)
	f.detect(ledger.DefaultDetection())
	letters := ledgertest.Letters(t, f.pool, id)
	if len(letters) != 2 {
		t.Fatalf("%d letters of two stays", len(letters))
	}
	var ids []string
	for _, l := range letters {
		var body struct {
			LetterID string `json:"letter_id"`
		}
		f.must(json.Unmarshal(l.Payload, &body))
		ids = append(ids, body.LetterID)
	}
	if ids[0] == ids[1] || !strings.HasPrefix(ids[0], "task:"+id.String()+":2:staleness_timeout") {
		t.Errorf("the letters are %q", ids)
	}
	// A letter that was sent before is not sent again, whatever became of the flag.
	f.exec(`update postrider.tasker_tasks set stale_flagged_at = null`)
	if s := f.detect(ledger.DefaultDetection())[id]; s.MovedToDLQ || len(ledgertest.Letters(t, f.pool, id)) != 2 {
		t.Errorf("a letter was sent twice: %+v", s)
	}
}

// A machine without a failed state keeps its stale tasks where they are.
func TestMachineWithoutFailedState(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	ledgertest.AddMachine(t, f.pool, ledgertest.Protocol())
	ledgertest.Apply(t, f.pool, ledgertest.Template{Name: "document", Machine: "protocol", Configuration: `{"lifecycle": {"max_extracting_minutes": 15}}`})
	id := f.stuck("document", "extracting", 16*time.Minute)
	found := f.detect(ledger.DefaultDetection())
	f.foundBy(found, id, 15, "state", "template")
	if found[id].ActionTaken != ledger.StaleReview {
		t.Errorf("%+v", found[id])
	}
	f.in(id, "extracting")
}

// Workers that are silent are the reason. A namespace may have workers that never said anything, but where no step has
// begun, there is none.
func TestWorkerUnavailable(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.template("x", `{}`)
	d := ledger.DefaultDetection()
	id := f.stuck("x", "steps_in_process", time.Hour)
	if got := f.detect(d)[id].DLQReason; got != "staleness_timeout" {
		t.Errorf("without known workers, and with a step begun, the reason is %q", got)
	}
	id = f.stuck("x", "pending", 25*time.Hour)
	if got := f.detect(d)[id].DLQReason; got != "worker_unavailable" {
		t.Errorf("where no worker ever came the reason is %q", got)
	}
	if e := ledgertest.Read(t, f.pool, id).ErrorReason; !strings.Contains(e, "No worker of the namespace was ever heard of.") {
		t.Errorf("the reason is %q", e)
	}
	f.must(f.Heartbeat(t.Context(), "default", "a"))
	f.must(f.Heartbeat(t.Context(), "default", "b"))
	f.exec(`update postrider.tasker_workers set last_heartbeat_at = clock_timestamp() - interval '1 hour' where worker = 'a'`)
	id = f.stuck("x", "steps_in_process", time.Hour)
	if got := f.detect(d)[id].DLQReason; got != "staleness_timeout" {
		t.Errorf("with one worker at work the reason is %q", got)
	}
	f.exec(`update postrider.tasker_workers set last_heartbeat_at = clock_timestamp() - interval '12 minutes' where worker = 'b'`)
	id = f.stuck("x", "steps_in_process", time.Hour)
	if s := f.detect(d)[id]; s.DLQReason != "worker_unavailable" || !s.MovedToDLQ {
		t.Errorf("with silent workers: %+v", s)
	}
	if e := ledgertest.Read(t, f.pool, id).ErrorReason; !strings.Contains(e, "No worker of the namespace was heard of for 12 minutes.") {
		t.Errorf("the reason is %q", e)
	}
	d.ReasonWorkerUnavailable = false
	id = f.stuck("x", "steps_in_process", time.Hour)
	if s := f.detect(d)[id]; s.DLQReason != "worker_unavailable" || s.ActionTaken != ledger.StaleMoved {
		t.Errorf("with the reason switched off: %+v", s)
	}
	d.WorkerUnavailableMinutes = 60
	id = f.stuck("x", "steps_in_process", time.Hour)
	if s := f.detect(d)[id]; s.DLQReason != "staleness_timeout" {
		t.Errorf("with a longer patience: %+v", s)
	}
}

// deadLettered is a task that went stale with one step failed, and the retries of that step.
func (f *fixture) deadLettered(retries string) (uuid.UUID, ledgertest.Step) {
	f.t.Helper()
	ledgertest.Apply(f.t, f.pool, ledgertest.Template{Name: "retries", Configuration: `{"steps": [{"name": "charge", "max_retries": ` + retries + `}]}`})
	id := ledgertest.Create(f.t, f.pool, ledgertest.New{Name: "retries"})
	_, err := f.Evaluate(f.t.Context(), id)
	f.must(err)
	f.fails(id, "charge", "the gateway is away")
	return id, f.step(id, "charge")
}

// A requeue of a task is its retry (see the requirements, resolution 2): it counts, and the task is pending again.
func TestDlqRequeueIncrementsRetryCounter(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	id, _ := f.deadLettered("3")
	ledgertest.Age(t, f.pool, id, time.Hour)
	for want := 1; want <= 2; want++ {
		if s := f.detect(ledger.DefaultDetection())[id]; s.ActionTaken != ledger.StaleMovedToDLQ {
			t.Fatalf("the task is not dead-lettered: %+v", s)
		}
		f.in(id, "error")
		_, err := f.Retry(t.Context(), id, "me")
		f.must(err)
		if got := ledgertest.Read(t, f.pool, id); got.State != "pending" || got.RetryCount != want || !got.Live || got.ErrorReason != "" {
			t.Errorf("after %d retries the task is %+v", want, got)
		}
		if s := f.step(id, "charge"); s.Status != "pending" || s.RetryCount != 0 {
			t.Errorf("after %d retries the step is %+v", want, s)
		}
		ledgertest.Age(t, f.pool, id, 25*time.Hour)
	}
}

// A step that is tried again after its task went stale counts on, and the task goes on.
func TestAStepOfAStaleTaskIsTriedAgain(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	id, before := f.deadLettered("3")
	f.in(id, "waiting_for_retry")
	ledgertest.Age(t, f.pool, id, time.Hour)
	if s := f.detect(ledger.DefaultDetection())[id]; s.ActionTaken != ledger.StaleMovedToDLQ {
		t.Fatalf("the task is not stale: %+v", s)
	}
	f.in(id, "error")
	status, err := f.Act(t.Context(), id, before.UUID, ledger.StepAction{Action: ledger.ActionRetry, Notes: "the gateway is back", Actor: "me"})
	f.must(err)
	if status != ledger.StepEnqueued {
		t.Errorf("the step is %s", status)
	}
	f.in(id, "steps_in_process")
	f.fails(id, "charge", "away again")
	if after := f.step(id, "charge"); after.RetryCount <= before.RetryCount {
		t.Errorf("the retry counter went from %d to %d", before.RetryCount, after.RetryCount)
	}
	if found := f.detect(ledger.DefaultDetection()); len(found) != 0 {
		t.Errorf("stale in its new stay: %+v", found)
	}
}

// A task that is put back to work is not stale at once, however old it is: its lifetime begins anew at that moment,
// and ends again.
func TestALifetimeBeginsAnewWhenATaskIsPutBackToWork(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.template("old", `{}`)
	id := f.stuck("old", "pending", 26*time.Hour)
	if s := f.detect(ledger.DefaultDetection())[id]; s.ActionTaken != ledger.StaleMovedToDLQ {
		t.Fatalf("the task is not stale: %+v", s)
	}
	_, err := f.Retry(t.Context(), id, "me")
	f.must(err)
	if found := f.detect(ledger.DefaultDetection()); len(found) != 0 {
		t.Errorf("stale at once: %+v", found)
	}
	f.in(id, "pending")
	ready, err := f.NextReady(t.Context(), ledger.ReadyQuery{Limit: 10})
	f.must(err)
	if len(ready) != 1 || ready[0].TaskUUID != id {
		t.Errorf("it is not handed out: %+v", ready)
	}
	ledgertest.Put(t, f.pool, id, "evaluating_results")
	ledgertest.Age(t, f.pool, id, 23*time.Hour)
	ledgertest.Put(t, f.pool, id, "steps_in_process")
	if found := f.detect(ledger.DefaultDetection()); len(found) != 0 {
		t.Errorf("stale after 23 hours: %+v", found)
	}
	ledgertest.Age(t, f.pool, id, 90*time.Minute)
	ledgertest.Put(t, f.pool, id, "evaluating_results")
	f.foundBy(f.detect(ledger.DefaultDetection()), id, 24*60, "lifetime", "default")
}

// A step whose retries are spent may be retried by a person, whom no count stops, and nothing is marked as
// permanently_failed by that: the source wants it, see TestTheSourcesTestsExist. It fails its task for good; the letter
// then has the reason max_retries_exceeded, and the detector has nothing to add.
func TestDlqRequeueRespectsMaxRetries(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	id, step := f.deadLettered("1")
	ledgertest.Age(t, f.pool, id, time.Hour)
	f.detect(ledger.DefaultDetection())
	_, err := f.Act(t.Context(), id, step.UUID, ledger.StepAction{Action: ledger.ActionRetry, Actor: "me"})
	f.must(err)
	f.fails(id, "charge", "away for good")
	f.in(id, "error")
	var reasons []string
	for _, l := range ledgertest.Letters(t, f.pool, id) {
		reasons = append(reasons, l.Reason)
	}
	if strings.Join(reasons, " ") != "staleness_timeout max_retries_exceeded" {
		t.Errorf("the letters have the reasons %q", reasons)
	}
	ledgertest.Age(t, f.pool, id, 30*day)
	if found := f.detect(ledger.DefaultDetection()); len(found) != 0 {
		t.Errorf("a failed task is stale: %+v", found)
	}
	_, err = f.Retry(t.Context(), id, "me")
	f.must(err)
	f.in(id, "pending")
}

func TestDetectionRefusesNonsense(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for what, change := range map[string]func(*ledger.Detection){
		"batch":     func(d *ledger.Detection) { d.BatchSize = 0 },
		"threshold": func(d *ledger.Detection) { d.WaitingForRetryMinutes = -1 },
		// Longer than any interval can be, and no error of the server's own.
		"lifetime": func(d *ledger.Detection) { d.TaskMaxLifetimeHours = 35_791_395 },
		"worker":   func(d *ledger.Detection) { d.WorkerUnavailableMinutes = math.MaxInt32 },
	} {
		d := ledger.DefaultDetection()
		change(&d)
		_, err := f.DetectStale(t.Context(), d)
		t.Log(what)
		refused(t, err, ledger.ErrInvalid, "must be")
	}
	for _, sql := range []string{`select * from postrider.near_stale_tasks(p_task_max_lifetime_hours => 35791395)`,
		`select * from postrider.task_staleness_now(p_task_max_lifetime_hours => 35791395)`, `select * from postrider.near_stale_tasks(p_waiting_deps_threshold_minutes => -1)`} {
		_, err := f.pool.Exec(t.Context(), sql)
		wantCode(t, err, "22023", "it must be from 0 to")
	}
	d := ledger.DefaultDetection()
	d.WaitingForDependenciesMinutes, d.WaitingForRetryMinutes, d.StepsInProcessMinutes, d.TaskMaxLifetimeHours, d.WorkerUnavailableMinutes =
		525_600_000, 525_600_000, 525_600_000, 8_760_000, 525_600_000
	f.template("x", "{}")
	f.stuck("x", "steps_in_process", time.Hour)
	if found := f.detect(d); len(found) != 0 {
		t.Errorf("with the longest thresholds that are taken: %+v", found)
	}
	if _, err := f.NearStale(t.Context(), d, 0.8); err != nil {
		t.Error(err)
	}
}

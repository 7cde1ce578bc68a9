package postgres_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"
	"pgregory.net/rapid"

	"github.com/postrider/postrider/internal/tasks/ledger"
	"github.com/postrider/postrider/internal/tasks/ledgertest"
	"github.com/postrider/postrider/internal/tasks/task"
)

// modelTask is what a task with steps should do, written a second time, without the database.
type modelTask struct {
	state   string
	rule    task.CancelledSteps
	steps   []modelStep
	letters int
}

type modelStep struct {
	name         string
	status       ledger.StepStatus
	retries, max int
	needs        []int
	// byHand: enqueued by a person, and not handed out yet. byRule: cancelled because of a step that it depends on.
	byHand, byRule bool
}

func (m *modelTask) done(i int) bool {
	return m.steps[i].status == ledger.StepComplete || m.steps[i].status == ledger.StepResolvedManually
}

func (m *modelTask) ready(i int) bool {
	return !slices.ContainsFunc(m.steps[i].needs, func(n int) bool {
		return !m.done(n) && (m.rule != task.SkipCancelled || m.steps[n].status != ledger.StepCancelled)
	})
}

// cancelDependants cancels what depends on a cancelled step. Steps only depend on earlier ones.
func (m *modelTask) cancelDependants() {
	if m.rule != task.CancelDependants {
		return
	}
	for i := range m.steps {
		s := &m.steps[i]
		if s.status == ledger.StepPending && slices.ContainsFunc(s.needs, func(n int) bool { return m.steps[n].status == ledger.StepCancelled }) {
			s.status, s.byRule = ledger.StepCancelled, true
		}
	}
}

// reviveDependants takes back what was cancelled because of a step.
func (m *modelTask) reviveDependants(of int) {
	behind := map[int]bool{of: true}
	for i := range m.steps {
		s := &m.steps[i]
		if s.status != ledger.StepCancelled || !slices.ContainsFunc(s.needs, func(n int) bool { return behind[n] }) {
			continue
		}
		behind[i] = true
		if s.byRule {
			s.status, s.byRule = ledger.StepPending, false
		}
	}
}

func (m *modelTask) ended() bool { return m.state == "complete" || m.state == "cancelled" }

// wanted is the state that the steps ask for.
func (m *modelTask) wanted() string {
	var busy, open, some, ready, waiting, failed, spent, pending bool
	for i, s := range m.steps {
		open = open || !m.done(i) && s.status != ledger.StepCancelled
		some = some || m.done(i)
		switch s.status {
		case ledger.StepEnqueued, ledger.StepInProgress:
			busy = true
		case ledger.StepPending:
			pending = true
			ready = ready || m.ready(i)
		case ledger.StepWaitingForRetry:
			waiting = true
		case ledger.StepError:
			failed = true
			spent = spent || s.retries >= s.max
		}
	}
	switch {
	case busy:
		return "steps_in_process"
	case !open && some:
		return "complete"
	case !open:
		return "cancelled"
	case ready:
		return "enqueuing_steps"
	case waiting:
		return "waiting_for_retry"
	case spent:
		return "error"
	case failed:
		return "blocked_by_failures"
	case pending:
		return "waiting_for_dependencies"
	}
	return m.state
}

// follow takes the task where its steps lead it.
func (m *modelTask) follow(recover bool) {
	if m.ended() {
		return
	}
	m.cancelDependants()
	want := m.wanted()
	if m.state == "error" && (!recover || !slices.Contains([]string{"steps_in_process", "complete", "enqueuing_steps", "waiting_for_retry"}, want)) {
		return
	}
	if want != m.state && (want == "error" || want == "blocked_by_failures") {
		m.letters++
	}
	m.state = want
}

// apply does one thing with a step, and says whether it may be done.
func (m *modelTask) apply(what string, i int) bool {
	s := &m.steps[i]
	is := func(statuses ...ledger.StepStatus) bool { return slices.Contains(statuses, s.status) }
	recover, taken := true, m.state == "error" && is(ledger.StepEnqueued, ledger.StepInProgress)
	if what == "cancel" && is(ledger.StepCancelled) {
		return true // nothing changes
	}
	if m.ended() {
		return what == "complete" && is(ledger.StepComplete)
	}
	switch what {
	case "enqueue", "start":
		if m.state == "error" || !is(ledger.StepPending, ledger.StepWaitingForRetry) && (what == "enqueue" && !s.byHand || !is(ledger.StepEnqueued)) ||
			is(ledger.StepPending) && !m.ready(i) {
			return false
		}
		s.status, s.byHand = ledger.StepEnqueued, false
		if what == "start" {
			s.status = ledger.StepInProgress
		}
	case "complete":
		if is(ledger.StepComplete) {
			return true
		}
		if !is(ledger.StepEnqueued, ledger.StepInProgress) {
			return false
		}
		s.status, s.byHand = ledger.StepComplete, false
	case "fail", "fail for good":
		if !is(ledger.StepEnqueued, ledger.StepInProgress) {
			return false
		}
		s.status, s.byHand = ledger.StepError, false
		if what == "fail" && s.retries < s.max {
			s.retries++
			s.status = ledger.StepWaitingForRetry
		}
		recover = false
	case "retry":
		if !is(ledger.StepPending, ledger.StepWaitingForRetry, ledger.StepError, ledger.StepCancelled) && !taken {
			return false
		}
		was := s.status
		s.status, s.byHand, s.byRule = ledger.StepEnqueued, true, false
		if was == ledger.StepCancelled {
			m.reviveDependants(i)
		}
	case "reset_retry_count":
		if m.done(i) || is(ledger.StepCancelled) {
			return false
		}
		s.retries = 0
		if is(ledger.StepError, ledger.StepWaitingForRetry) || taken {
			s.status, s.byHand = ledger.StepPending, false
		}
	case "cancel":
		if m.done(i) {
			return false
		}
		s.status, s.byHand, s.byRule = ledger.StepCancelled, false, false
		m.cancelDependants()
		recover = !slices.ContainsFunc(m.steps, func(s modelStep) bool {
			return s.status != ledger.StepComplete && s.status != ledger.StepResolvedManually && s.status != ledger.StepCancelled
		})
	case "complete_manually":
		if m.done(i) {
			return false
		}
		was := s.status
		s.status, s.byHand, s.byRule = ledger.StepResolvedManually, false, false
		if was == ledger.StepCancelled {
			m.reviveDependants(i)
		}
	}
	m.follow(recover)
	return true
}

// try does the same with the database.
func (f *fixture) try(what string, task, step uuid.UUID) error {
	ctx := f.t.Context()
	switch what {
	case "enqueue":
		return f.EnqueueStep(ctx, step)
	case "start":
		return f.StartStep(ctx, step, "")
	case "complete":
		return f.CompleteStep(ctx, step, nil)
	case "fail", "fail for good":
		_, err := f.FailStep(ctx, step, ledger.Failure{Error: "x", Final: what != "fail", RetryAfter: 1})
		return err
	}
	_, err := f.Act(ctx, task, step, ledger.StepAction{Action: ledger.Action(what)})
	return err
}

// stands is where a task and its steps stand, in one question, because it is asked after each thing that is done.
const stands = `select k.state || (select string_agg(format(' %s:%s:%s', s.step_name, s.status, s.retry_count), '' order by s.position)
	from postrider.tasker_workflow_steps s where s.task_uuid = k.task_uuid) from postrider.tasker_tasks k where k.task_uuid = $1`

// stands is the same of the model.
func (m *modelTask) stands() string {
	text := m.state
	for _, s := range m.steps {
		text += fmt.Sprintf(" %s:%s:%d", s.name, s.status, s.retries)
	}
	return text
}

// rules are the templates of these tests, each with its rule about cancelled steps.
var rules = []task.CancelledSteps{task.CancelDependants, task.SkipCancelled, task.WaitForCancelled}

func (f *fixture) applyRules() {
	f.t.Helper()
	for _, rule := range rules {
		ledgertest.Apply(f.t, f.pool, ledgertest.Template{Name: string(rule), Configuration: `{"cancelled_steps": "` + string(rule) + `"}`})
	}
}

// drawn draws a rule and a graph of steps, and creates its task.
func (f *fixture) drawn(rt *rapid.T) (*modelTask, uuid.UUID) {
	m := &modelTask{state: "pending", rule: rapid.SampledFrom(rules).Draw(rt, "rule")}
	type step struct {
		Name         string   `json:"name"`
		MaxRetries   int      `json:"max_retries"`
		Dependencies []string `json:"dependencies"`
	}
	var steps []step
	for i := range rapid.IntRange(1, 5).Draw(rt, "steps") {
		s := modelStep{name: fmt.Sprint("s", i), status: ledger.StepPending, max: rapid.IntRange(0, 2).Draw(rt, "max_retries")}
		given := step{Name: s.name, MaxRetries: s.max, Dependencies: []string{}}
		for n := range i {
			if rapid.Bool().Draw(rt, "needs") {
				s.needs = append(s.needs, n)
				given.Dependencies = append(given.Dependencies, m.steps[n].name)
			}
		}
		m.steps, steps = append(m.steps, s), append(steps, given)
	}
	raw, err := json.Marshal(steps)
	f.must(err)
	task, err := f.Create(f.t.Context(), ledger.NewTask{Namespace: "default", Name: string(m.rule), Steps: raw})
	f.must(err)
	return m, task
}

// things are what workers and people do with steps.
var things = []string{"enqueue", "start", "start", "complete", "complete", "fail", "fail", "fail for good", "retry", "reset_retry_count", "cancel", "complete_manually"}

// TestStepsAgainstModel does random things with random graphs of steps, in the database and in the model.
func TestStepsAgainstModel(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.applyRules()
	rapid.Check(t, func(rt *rapid.T) {
		m, task := f.drawn(rt)
		known := ledgertest.Steps(t, f.pool, task)

		var did []string
		for range rapid.IntRange(1, 20).Draw(rt, "things") {
			var what string
			var err error
			may := true
			switch rapid.IntRange(0, 19).Draw(rt, "rare") {
			case 0: // what the detector does
				what = "gets stuck"
				if !m.ended() && m.state != "error" {
					if _, err := f.Transition(t.Context(), task, m.state, "error", nil); err != nil {
						rt.Fatal(err)
					}
					m.state = "error"
				}
			case 1:
				what = "evaluate"
				m.follow(false)
				_, err = f.Evaluate(t.Context(), task)
			default:
				what = rapid.SampledFrom(things).Draw(rt, "what")
				i := rapid.IntRange(0, len(m.steps)-1).Draw(rt, "step")
				may = m.apply(what, i)
				err = f.try(what, task, known[m.steps[i].name].UUID)
				what += " " + m.steps[i].name
			}
			did = append(did, what)
			if may != (err == nil) || err != nil && !errors.Is(err, ledger.ErrRefused) {
				rt.Fatalf("%s: after %s: %v, the model says %v", m.rule, strings.Join(did, ", "), err, may)
			}
			if got, want := f.answer(stands, task), m.stands(); got != want {
				rt.Fatalf("%s: after %s the task is in %s, want %s (%s)", m.rule, strings.Join(did, ", "), got, want, ledgertest.History(t, f.pool, task))
			}
		}
		if got := len(ledgertest.Letters(t, f.pool, task)); got != m.letters {
			rt.Fatalf("%s: after %s there are %d letters, want %d", m.rule, strings.Join(did, ", "), got, m.letters)
		}
		f.agrees(rt, task)
	})
}

// agrees checks that a task's history is one its machine allows, and that its events and histories say the same.
func (f *fixture) agrees(t interface{ Fatalf(string, ...any) }, task uuid.UUID) {
	f.t.Helper()
	if wrong := f.answer(`select coalesce(string_agg(r.from_state || ' to ' || r.to_state, ', '), '')
		from postrider.tasker_task_transitions r join postrider.tasker_tasks k using (task_uuid) join postrider.tasker_named_tasks n using (named_task_uuid)
		where r.task_uuid = $1 and r.from_state is not null and not exists (select from postrider.tasker_machine_transitions a
			where a.state_machine_id = n.state_machine_id and a.from_state = r.from_state and a.to_state = r.to_state)`, task); wrong != "" {
		t.Fatalf("the machine does not allow %s", wrong)
	}
	var fromHistory, fromEvents []string
	history, err := wholeHistory(f.t.Context(), f.Transitions, task)
	f.must(err)
	for _, h := range history {
		from := ""
		if h.FromState != nil {
			from = *h.FromState
		}
		fromHistory = append(fromHistory, fmt.Sprintf("%d %s>%s", h.SortKey, from, h.ToState))
	}
	steps, err := wholeHistory(f.t.Context(), f.StepTransitions, task)
	f.must(err)
	stepHistory, stepEvents := []string{}, []string{}
	for _, h := range steps {
		if h.FromStatus != nil {
			stepHistory = append(stepHistory, fmt.Sprintf("%s %s>%s", h.StepName, *h.FromStatus, h.ToStatus))
		}
	}
	for _, e := range ledgertest.Events(f.t, f.pool, task) {
		switch e.Type {
		case "postrider.task.created.v1", "postrider.task.transitioned.v1":
			fromEvents = append(fromEvents, fmt.Sprintf("%d %s>%s", e.SortKey, e.From, e.To))
		case "postrider.task.step_transitioned.v1":
			stepEvents = append(stepEvents, fmt.Sprintf("%s %s>%s", e.Step, e.From, e.To))
		}
	}
	if !slices.Equal(fromHistory, fromEvents) {
		t.Fatalf("the history of the task is %q, its events tell %q", fromHistory, fromEvents)
	}
	if !slices.Equal(stepHistory, stepEvents) {
		t.Fatalf("the history of the steps is %q, the events tell %q", stepHistory, stepEvents)
	}
}

package postgres_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/tasks/ledger"
	"github.com/postrider/postrider/internal/tasks/ledgertest"
	"github.com/postrider/postrider/internal/tasks/task"
)

// world is a random set of machines, namespaces, templates and tasks, with what one pass is told.
type world struct {
	r         *rand.Rand
	machines  map[string]*task.Machine
	templates []*worldTemplate
	tasks     map[uuid.UUID]*task.Stay
	of        map[uuid.UUID]*worldTemplate
	detection ledger.Detection
	defaults  task.Defaults
	switches  task.Switches
}

type worldTemplate struct {
	id        uuid.UUID
	machine   *task.Machine
	own, ns   *task.Lifecycle
	heartbeat *time.Duration // ago
}

// workflowWithHole is a machine with a failed state to which one of its states may not go.
func workflowWithHole() ledgertest.Machine {
	return ledgertest.Machine{Name: "hole", Initial: "new", Complete: "done", Failed: "broken",
		States:      map[string]string{"new": "initial", "working": "active", "asking": "waiting", "broken": "failed", "done": "terminal"},
		Transitions: map[string][]string{"new": {"working", "broken"}, "working": {"asking", "done", "broken"}, "asking": {"working"}, "broken": {"working"}}}
}

// inGo is a machine of the test kit as the domain has it.
func inGo(m ledgertest.Machine) *task.Machine {
	out := &task.Machine{Roles: task.Roles{Complete: m.Complete, Failed: m.Failed, Cancelled: m.Cancelled, DeadLetter: m.DeadLetter, Archived: m.Archived}}
	for name, kind := range m.States {
		out.States = append(out.States, task.State{Name: name, Kind: task.Kind(kind)})
	}
	slices.SortFunc(out.States, func(a, b task.State) int { return strings.Compare(a.Name, b.Name) })
	for from, to := range m.Transitions {
		out.Transitions = append(out.Transitions, task.Transition{From: from, To: to})
	}
	return out
}

func pick[T any](r *rand.Rand, of ...T) T { return of[r.IntN(len(of))] }

var someMinutes = []int{1, 2, 5, 10, 30, 45, 60, 90, 1440, 1500, 20000}

// lifecycle is one that says little, much or nothing.
func (w *world) lifecycle(m *task.Machine) *task.Lifecycle {
	if w.r.IntN(4) == 0 {
		return nil
	}
	l := &task.Lifecycle{MaxStateMinutes: map[string]int{}}
	if w.r.IntN(3) == 0 {
		minutes := pick(w.r, someMinutes...)
		l.MaxDurationMinutes = &minutes
	}
	for _, s := range m.States {
		if w.r.IntN(3) == 0 {
			l.MaxStateMinutes[s.Name] = pick(w.r, someMinutes...)
		}
	}
	l.StalenessAction = pick(w.r, "", "", task.ActionDLQ, task.ActionError, task.ActionManualReview)
	l.AutoFailOnTimeout = pick(w.r, nil, nil, new(true), new(false))
	l.AutoDLQOnTimeout = pick(w.r, nil, nil, new(true), new(false))
	return l
}

// asJSON is a lifecycle as it stands in the database; one that says nothing may be missing, null or empty.
func (w *world) asJSON(t *testing.T, l *task.Lifecycle) string {
	if l == nil {
		return pick(w.r, "{}", "null")
	}
	raw, err := json.Marshal(l)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// newWorld writes random templates into the database.
func newWorld(t *testing.T, f *fixture, r *rand.Rand, round int) *world {
	w := &world{r: r, machines: map[string]*task.Machine{"workflow": task.Builtin(), "protocol": inGo(ledgertest.Protocol()), "hole": inGo(workflowWithHole())},
		tasks: map[uuid.UUID]*task.Stay{}, of: map[uuid.UUID]*worldTemplate{}, detection: ledger.DefaultDetection()}
	d := &w.detection
	d.BatchSize = pick(r, 7, 100, 1000)
	d.WaitingForDependenciesMinutes, d.WaitingForRetryMinutes = pick(r, 60, 30, 100), pick(r, 30, 7, 200)
	d.StepsInProcessMinutes, d.TaskMaxLifetimeHours = pick(r, 30, 15, 300), pick(r, 24, 2, 100)
	d.WorkerUnavailableMinutes = pick(r, 10, 3, 60)
	flip := func() bool { return r.IntN(4) > 0 }
	d.AutoTransitionToError, d.AutoMoveToDLQ, d.ReasonStalenessTimeout, d.ReasonWorkerUnavailable, d.EmitEvents = flip(), flip(), flip(), flip(), flip()
	w.switches = task.AllOn()
	w.switches.AutoTransitionToError, w.switches.AutoMoveToDLQ = d.AutoTransitionToError, d.AutoMoveToDLQ
	w.switches.StalenessTimeout, w.switches.WorkerUnavailable = d.ReasonStalenessTimeout, d.ReasonWorkerUnavailable
	w.defaults = task.Defaults{WaitingForDependenciesMinutes: d.WaitingForDependenciesMinutes, WaitingForRetryMinutes: d.WaitingForRetryMinutes,
		StepsInProcessMinutes: d.StepsInProcessMinutes, TaskMaxLifetimeHours: d.TaskMaxLifetimeHours}
	for n := range 4 {
		namespace := fmt.Sprintf("ns-%d-%d", round, n)
		ns := w.lifecycle(w.machines["workflow"])
		var heartbeat *time.Duration
		if r.IntN(3) > 0 {
			heartbeat = new(time.Duration(d.WorkerUnavailableMinutes)*time.Minute + pick(r, -time.Hour, -2*time.Minute, time.Second, time.Hour))
			*heartbeat = max(*heartbeat, 0)
		}
		for i := range 5 {
			machine := pick(r, "workflow", "workflow", "protocol", "hole")
			own := w.lifecycle(w.machines[machine])
			configuration := "{}"
			if text := w.asJSON(t, own); text != "{}" || r.IntN(2) == 0 {
				configuration = `{"lifecycle": ` + text + `}`
			}
			nsText := "{}"
			if ns != nil {
				nsText = w.asJSON(t, ns)
			}
			id := ledgertest.Apply(t, f.pool, ledgertest.Template{Namespace: namespace, Name: fmt.Sprintf("t-%d", i), Machine: machine,
				Configuration: configuration, NamespaceLifecycle: nsText})
			w.templates = append(w.templates, &worldTemplate{id: id, machine: w.machines[machine], own: own, ns: ns, heartbeat: heartbeat})
		}
		if heartbeat != nil {
			// The newest of two counts.
			f.exec(`insert into postrider.tasker_workers (task_namespace_uuid, worker, last_heartbeat_at)
				select task_namespace_uuid, w, clock_timestamp() - case w when 'a' then $2::interval else $2::interval + '1 hour' end
				from postrider.tasker_task_namespaces, unnest('{a,b}'::text[]) w where name = $1`, namespace, *heartbeat)
		}
	}
	return w
}

// around is a time in the past near a number of minutes. What has not passed yet is not passed during the test either,
// however slow the machine is: a task over which a second threshold passes is rightly found a second time.
func (w *world) around(minutes int) time.Duration {
	d := time.Duration(minutes)*time.Minute + pick(w.r, -24*time.Hour, -10*time.Minute, -2*time.Minute, time.Second, 61*time.Second, time.Hour, 40*time.Hour)
	return max(d, 0)
}

// fill writes n random tasks.
func (w *world) fill(t *testing.T, f *fixture, n int) {
	var rows [][]any
	var now time.Time
	if err := f.pool.QueryRow(t.Context(), "select clock_timestamp()").Scan(&now); err != nil {
		t.Fatal(err)
	}
	for range n {
		tpl := pick(w.r, w.templates...)
		state := pick(w.r, tpl.machine.States...)
		entered := w.around(task.StateThreshold(tpl.own, tpl.ns, w.defaults, state.Name).Minutes)
		created := entered
		if w.r.IntN(2) == 0 {
			created = max(entered, w.around(task.LifetimeThreshold(tpl.own, tpl.ns, w.defaults).Minutes))
		}
		s := &task.Stay{Machine: tpl.machine, State: state.Name, Entered: now.Add(-entered), Created: now.Add(-created),
			Template: tpl.own, Namespace: tpl.ns, Defaults: w.defaults, Switches: w.switches,
			WorkerUnavailableAfter: time.Duration(w.detection.WorkerUnavailableMinutes) * time.Minute}
		if tpl.heartbeat != nil {
			s.LastHeartbeat = new(now.Add(-*tpl.heartbeat))
		}
		id := uuid.New()
		w.tasks[id], w.of[id] = s, tpl
		var flagged, until *time.Time
		rule := ""
		if w.r.IntN(5) == 0 {
			// By the rule of now or by another; its other threshold is passed, or is not, or both are.
			at := *s
			at.Now = now
			s.Flag = &task.Flag{Rule: pick(w.r, task.Stale(at).Rule, task.Stale(at).Rule, "", "state 7, lifetime 8: flag", "zzz"),
				Until: pick(w.r, time.Time{}, now.Add(time.Hour), now.Add(-time.Hour))}
			flagged, rule = &now, s.Flag.Rule
			if !s.Flag.Until.IsZero() {
				until = &s.Flag.Until
			}
		}
		rows = append(rows, []any{id, tpl.id, s.State, state.Kind.Live(), s.Entered, w.r.IntN(5), s.Created, flagged, rule, until})
	}
	f.must(pgx.BeginFunc(t.Context(), f.pool, func(tx pgx.Tx) error {
		_, err := tx.CopyFrom(t.Context(), pgx.Identifier{"postrider", "tasker_tasks"},
			[]string{"task_uuid", "named_task_uuid", "state", "live", "state_entered_at", "sort_key", "created_at", "stale_flagged_at", "stale_rule", "stale_until"}, pgx.CopyFromRows(rows))
		return err
	}))
	// What was read as a heartbeat is what the database has.
	for _, tpl := range w.templates {
		if tpl.heartbeat == nil {
			continue
		}
		var last time.Time
		if err := f.pool.QueryRow(t.Context(), `select max(w.last_heartbeat_at) from postrider.tasker_workers w
			join postrider.tasker_named_tasks n using (task_namespace_uuid) where n.named_task_uuid = $1`, tpl.id).Scan(&last); err != nil {
			t.Fatal(err)
		}
		for id, s := range w.tasks {
			if w.of[id] == tpl {
				s.LastHeartbeat = new(last)
			}
		}
	}
}

// verdict is what the reference says, in the words of the function.
func verdict(s task.Stay, now time.Time, done bool) (ledger.StaleTask, bool) {
	s.Now = now
	v := task.Stale(s)
	if !v.Stale {
		return ledger.StaleTask{}, false
	}
	action := ledger.StaleFlagged
	switch {
	case v.Moved && v.Letter:
		action = ledger.StaleMovedToDLQ
	case v.Moved:
		action = ledger.StaleMoved
	case v.Letter:
		action = ledger.StaleReview
	}
	return ledger.StaleTask{CurrentState: s.State, StalenessThresholdMinutes: v.Threshold.Minutes, ActionTaken: action,
		MovedToDLQ: v.Letter && done, TransitionSuccess: v.Moved && done, ThresholdKind: string(v.Kind), ThresholdSource: string(v.Threshold.Source),
		DLQReason: string(v.Reason)}, true
}

// compare fails the test for each task about which the function and the reference disagree. What differs between
// the beginning and the end of the pass may be either.
func (w *world) compare(t *testing.T, got map[uuid.UUID]ledger.StaleTask, from, to time.Time, done bool) (stale int) {
	t.Helper()
	wrong := 0
	for id, s := range w.tasks {
		found, is := got[id]
		plain := found
		plain.TaskUUID, plain.NamespaceName, plain.TaskName, plain.TimeInStateMinutes, plain.TaskAgeSeconds = uuid.Nil, "", "", 0, 0
		first, isFirst := verdict(*s, from, done)
		last, isLast := verdict(*s, to, done)
		if (is == isFirst && plain == first) || (is == isLast && plain == last) {
			if is {
				stale++
				minutes := int(to.Sub(s.Entered).Minutes())
				if found.TimeInStateMinutes > minutes || found.TimeInStateMinutes < int(from.Sub(s.Entered).Minutes()) || found.TaskAgeSeconds > to.Sub(s.Created).Seconds() {
					t.Errorf("task %s is %d minutes in %s, want %d", id, found.TimeInStateMinutes, s.State, minutes)
				}
			}
			continue
		}
		if wrong++; wrong <= 5 {
			t.Errorf("task %s (done %v): found %v %+v\nreference %v %+v\nstay %+v\ntemplate %v\nnamespace %v", id, done, is, plain, isFirst, first, *s, s.Template, s.Namespace)
		}
	}
	if wrong > 5 {
		t.Errorf("and %d more", wrong-5)
	}
	for id := range got {
		if w.tasks[id] == nil {
			t.Errorf("an unknown task: %s", id)
		}
	}
	return stale
}

// pass calls the function until it finds nothing and returns what it found, with the times before and after.
func pass(t *testing.T, f *fixture, d ledger.Detection) (found map[uuid.UUID]ledger.StaleTask, from, to time.Time) {
	t.Helper()
	clock := func() (at time.Time) {
		if err := f.pool.QueryRow(t.Context(), "select clock_timestamp()").Scan(&at); err != nil {
			t.Fatal(err)
		}
		return at
	}
	found = map[uuid.UUID]ledger.StaleTask{}
	from = clock()
	for {
		batch, err := f.DetectStale(t.Context(), d)
		f.must(err)
		if len(batch) > d.BatchSize {
			t.Errorf("%d tasks in a batch of %d", len(batch), d.BatchSize)
		}
		for _, s := range batch {
			if _, twice := found[s.TaskUUID]; twice {
				t.Errorf("task %s is found twice", s.TaskUUID)
			}
			found[s.TaskUUID] = s
		}
		if len(batch) == 0 || d.DryRun {
			return found, from, clock()
		}
	}
}

// TestDetectorAgreesWithReference compares the function with the reference in 10,000 random cases: templates and
// namespaces that say something, nothing or part, three machines, silent workers, all switches, and times on both
// sides of each threshold.
func TestDetectorAgreesWithReference(t *testing.T) {
	t.Parallel()
	const rounds, each = 20, 500
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	f := newFixture(t)
	ledgertest.AddMachine(t, f.pool, ledgertest.Protocol())
	ledgertest.AddMachine(t, f.pool, workflowWithHole())
	stale := 0
	for round := range rounds {
		w := newWorld(t, f, rand.New(rand.NewPCG(seed, uint64(round))), round)
		w.fill(t, f, each)
		before := f.answer(`select md5(string_agg(t::text, '' order by t.task_uuid)) from postrider.tasker_tasks t`)

		dry := w.detection
		dry.DryRun, dry.BatchSize = true, each
		got, from, to := pass(t, f, dry)
		w.compare(t, got, from, to, false)
		if after := f.answer(`select md5(string_agg(t::text, '' order by t.task_uuid)) from postrider.tasker_tasks t`); after != before {
			t.Error("a dry run changed tasks")
		}
		if n := f.answer(`select count(*)::text from postrider.outbox_event`); n != "0" {
			t.Errorf("a dry run wrote %s events", n)
		}

		got, from, to = pass(t, f, w.detection)
		stale += w.compare(t, got, from, to, true)
		w.checkRows(t, f, got)
		f.exec(`truncate postrider.tasker_tasks, postrider.outbox_event, postrider.outbox_idempotency_key cascade`)
		if t.Failed() {
			return
		}
	}
	if stale < rounds*each/10 || stale > rounds*each*9/10 {
		t.Errorf("%d of %d random tasks were stale: the cases say little", stale, rounds*each)
	}
	t.Logf("%d of %d tasks were stale", stale, rounds*each)
}

// checkRows compares what the database has after a pass with what the pass said.
func (w *world) checkRows(t *testing.T, f *fixture, got map[uuid.UUID]ledger.StaleTask) {
	t.Helper()
	type row struct {
		ID                           uuid.UUID
		State                        string
		Live, Flagged                bool
		Letters, Transitioned, Stale int
	}
	rows, err := f.pool.Query(t.Context(), `
		select t.task_uuid, t.state, t.live, t.stale_flagged_at is not null,
			count(*) filter (where x.type = 'postrider.task.dead_lettered.v1'), count(*) filter (where x.type = 'postrider.task.transitioned.v1'),
			count(*) filter (where x.type = 'postrider.task.task_staleness_detected.v1')
		from postrider.tasker_tasks t
		left join (select e.key, (select h->>1 from jsonb_array_elements(e.headers) h where h->>0 = 'ce_type') as type from postrider.outbox_event e) x
			on x.key = convert_to(t.task_uuid::text, 'UTF8')
		group by t.task_uuid`)
	f.must(err)
	all, err := pgx.CollectRows(rows, pgx.RowToStructByPos[row])
	f.must(err)
	if len(all) != len(w.tasks) {
		t.Fatalf("%d tasks, want %d", len(all), len(w.tasks))
	}
	for _, r := range all {
		s, found := w.tasks[r.ID], got[r.ID]
		want := row{ID: r.ID, State: s.State, Live: s.Machine.Kind(s.State).Live(), Flagged: s.Flag != nil && r.Flagged} // a flag without a rule may be ended
		if _, is := got[r.ID]; is {
			want.Flagged = !found.TransitionSuccess
			if found.TransitionSuccess {
				want.State, want.Live, want.Transitioned = s.Machine.Roles.Failed, false, 1
			}
			if found.MovedToDLQ {
				want.Letters = 1
			}
			if w.detection.EmitEvents {
				want.Stale = 1
			}
		}
		if r != want {
			t.Errorf("task %s: %+v, want %+v after %+v", r.ID, r, want, found)
		}
	}
}

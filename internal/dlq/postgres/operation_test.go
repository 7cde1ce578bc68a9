package postgres

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/dlq"
	"github.com/postrider/postrider/internal/dlq/dlqtest"
	"github.com/postrider/postrider/internal/testenv/outboxtest"
	"github.com/postrider/postrider/internal/testenv/pgtest"
)

// many makes n investigations of events 0 to n-1.
func (r *redriving) many(n int) []uuid.UUID {
	r.t.Helper()
	var entries []uuid.UUID
	for i := range n {
		entries = append(entries, r.die(i, nil))
	}
	return entries
}

// all selects every pending investigation.
var all = dlq.Scope{Filter: &dlq.Filter{}}

func (r *redriving) plan(scope dlq.Scope, options dlq.OperationOptions) dlq.Operation {
	r.t.Helper()
	o, err := r.PlanOperation(r.t.Context(), dlq.NewOperation{Kind: dlq.OpRedrive, Name: "incident " + uuid.NewString(), Actor: "ada", Scope: scope, Options: options})
	if err != nil {
		r.t.Fatal(err)
	}
	return o
}

func (r *redriving) command(id uuid.UUID, c dlq.Command) dlq.Operation {
	r.t.Helper()
	o, err := r.Command(r.t.Context(), id, c, "")
	if err != nil {
		r.t.Fatal(err)
	}
	return o
}

// step treats one batch, whatever the pauses.
func (r *redriving) step() int {
	r.t.Helper()
	mustExec(r.t, r.subject.pool, `update postrider.dlq_operation set next_at = null`)
	n, _, err := r.Step(r.t.Context())
	if err != nil {
		r.t.Fatal(err)
	}
	return n
}

func (r *redriving) operation(id uuid.UUID) dlq.Operation {
	r.t.Helper()
	o, err := r.Operation(r.t.Context(), id)
	if err != nil {
		r.t.Fatal(err)
	}
	return o
}

// deliver does the relay's part for the next n sent events, and follows them.
func (r *redriving) deliver(n int) {
	r.t.Helper()
	r.deliverAndForget(n)
	r.follow()
}

func (r *redriving) dieAgain(n int) {
	r.t.Helper()
	r.settleSent(outboxtest.Exhausted, n)
	r.follow()
}

func (r *redriving) follow() {
	r.t.Helper()
	if _, err := r.Follow(r.t.Context(), 100, true); err != nil {
		r.t.Fatal(err)
	}
}

func TestAnOperationFromPlanToEnd(t *testing.T) {
	t.Parallel()
	r := newRedriving(t)
	entries := r.many(10)
	if err := r.Resolve(t.Context(), entries[9]); err != nil {
		t.Fatal(err)
	}
	o := r.plan(all, dlq.OperationOptions{})
	if o.State != dlq.Planned || o.Items != 9 || o.Plan.Items != 9 || o.Plan.Keys != 7 || o.Plan.Bytes != 9*7 || o.Plan.Topics["orders"] != 9 || o.Plan.Redriven != 0 {
		t.Errorf("the plan: %+v", o)
	}
	later := r.die(50, nil)
	if n := r.step(); n != 0 || len(r.sent()) != 0 {
		t.Errorf("%d were treated before it was started", n)
	}
	r.command(o.UUID, dlq.Start)
	if n := r.step(); n != 9 {
		t.Errorf("%d were treated", n)
	}
	r.step()
	if o = r.operation(o.UUID); o.State != dlq.Running || o.Done != 9 || o.TreatedAt.IsZero() {
		t.Errorf("while they are on their way: %+v", o)
	}
	r.deliver(9)
	r.step()
	if o = r.operation(o.UUID); o.State != dlq.Completed || o.Delivered != 9 || o.CameBack != 0 || o.FinishedAt.IsZero() {
		t.Errorf("at the end: %+v", o)
	}
	if status, _ := r.status(later); status != dlq.Pending || len(r.sent()) != 0 {
		t.Errorf("what came after the plan was treated: %s", status)
	}
	if !slices.Equal(r.audit.actions[:3], []string{"operation.plan operation " + o.UUID.String(), "operation.start operation " + o.UUID.String(), "dlq.requeue operation " + o.UUID.String()}) {
		t.Errorf("audit log: %q", r.audit.actions)
	}
}

// TestNamedInvestigationsAreItemsAlone: the row of an operation has no ids, however many were named. Lists read the rows.
func TestNamedInvestigationsAreItemsAlone(t *testing.T) {
	t.Parallel()
	r := newRedriving(t)
	o := r.plan(dlq.Scope{Entries: r.many(3)}, dlq.OperationOptions{})
	if scope := pgtest.Value[string](t, r.subject.pool, `select scope::text from postrider.dlq_operation`); scope != "{}" || o.Items != 3 {
		t.Errorf("the scope of %d items is %s", o.Items, scope)
	}
	items, err := r.Items(t.Context(), o.UUID, dlq.ItemFilter{}, 0, 10)
	if err != nil || len(items) != 3 {
		t.Errorf("%v, %v", items, err)
	}
}

// TestACanaryIsWaitedFor, and a pause does not end the wait.
func TestACanaryIsWaitedFor(t *testing.T) {
	t.Parallel()
	r := newRedriving(t)
	r.many(12)
	o := r.plan(all, dlq.OperationOptions{Canary: 5, HaltMinimum: new(2), HaltRatio: new(0.3)})
	r.command(o.UUID, dlq.Start)
	for range 3 {
		r.step()
	}
	if o = r.operation(o.UUID); o.State != dlq.Canary || o.Done != 5 || len(r.sent()) != 5 {
		t.Fatalf("%+v", o)
	}
	r.command(o.UUID, dlq.Pause)
	if o = r.command(o.UUID, dlq.Resume); o.State != dlq.Canary {
		t.Errorf("a pause ended the canary: %+v", o)
	}
	r.dieAgain(1)
	r.deliver(4)
	r.step()
	r.step()
	if o = r.operation(o.UUID); o.State != dlq.Running || o.Done != 12 || o.CameBack != 1 || o.Delivered != 4 {
		t.Errorf("%+v", o)
	}
}

func TestAnOperationHaltsAndIsResumed(t *testing.T) {
	t.Parallel()
	r := newRedriving(t)
	r.many(12)
	o := r.plan(all, dlq.OperationOptions{Canary: 4, HaltMinimum: new(2), HaltRatio: new(0.3), Rate: 40})
	r.command(o.UUID, dlq.Start)
	r.step()
	r.dieAgain(3)
	r.deliver(1)
	r.step()
	if o = r.operation(o.UUID); o.State != dlq.Halted || o.Error != "3 of 4 became dead letters again, more than 30 %" || o.Done != 4 {
		t.Fatalf("%+v", o)
	}
	if n := r.step(); n != 0 {
		t.Errorf("a halted one treated %d", n)
	}
	if o = r.command(o.UUID, dlq.Resume); o.State != dlq.Running || o.Error != "" {
		t.Errorf("resumed: %+v", o)
	}
	if n := r.step(); n != 4 {
		t.Errorf("%d were treated after it was resumed", n)
	}
	r.dieAgain(4)
	r.step()
	if o = r.operation(o.UUID); o.State != dlq.Halted || o.CameBack != 7 || o.Error != "4 of 4 became dead letters again, more than 30 %" {
		t.Errorf("it does not halt again: %+v", o)
	}
	r.command(o.UUID, dlq.Resume)
	if n := r.step(); n != 4 {
		t.Errorf("%d were treated in the end", n)
	}
	r.dieAgain(4)
	r.step()
	if o = r.operation(o.UUID); o.State != dlq.Completed || o.CameBack != 11 || o.Delivered != 1 || o.Done != 12 {
		t.Errorf("nothing is left to be stopped: %+v", o)
	}
}

func TestPurgingMany(t *testing.T) {
	t.Parallel()
	for _, release := range []bool{false, true} {
		t.Run(fmt.Sprint(release), func(t *testing.T) {
			t.Parallel()
			r := newRedriving(t)
			entries := r.many(8) // events 0 and 7 are of key-0
			r.halt(7)
			o, err := r.PlanOperation(t.Context(), dlq.NewOperation{Kind: dlq.OpPurge, Name: "old", Actor: "ada", Scope: dlq.Scope{Entries: entries[2:]},
				Options: dlq.OperationOptions{ReleaseKeys: release}})
			if err != nil {
				t.Fatal(err)
			}
			r.command(o.UUID, dlq.Start)
			r.step()
			r.step()
			want := map[bool]int64{false: 5, true: 6}[release]
			if o = r.operation(o.UUID); o.State != dlq.Completed || o.Done != want || o.Skipped != 6-want {
				t.Errorf("%+v", o)
			}
			if _, n, err := r.list(t.Context(), dlq.Filter{}); err != nil || int64(n) != 8-want {
				t.Errorf("%d are left, %v", n, err)
			}
			if draining := r.holdOf(7); draining != release {
				t.Errorf("the key was let go: %v", draining)
			}
			if last := r.audit.actions[len(r.audit.actions)-1]; last != "dlq.purge operation "+o.UUID.String() {
				t.Errorf("audit log: %q", r.audit.actions)
			}
		})
	}
}

func TestCommands(t *testing.T) {
	t.Parallel()
	r := newRedriving(t)
	r.many(30)
	o := r.plan(all, dlq.OperationOptions{Rate: 50})
	if _, err := r.Command(t.Context(), o.UUID, dlq.Pause, ""); !errors.Is(err, dlq.ErrState) {
		t.Errorf("pausing what has not begun: %v", err)
	}
	r.command(o.UUID, dlq.Start)
	r.command(o.UUID, dlq.Start) // once more
	began := time.Now()
	if n := r.step(); n != 5 {
		t.Errorf("a batch at 50 a second has %d", n)
	}
	early, next, err := r.Step(t.Context())
	if due := time.Since(began) >= 100*time.Millisecond; err != nil || early != 0 && !(early == 5 && due) || early == 0 && (next <= 0 || next > 200*time.Millisecond) {
		t.Errorf("the next batch: %d, %v, %v", early, next, err)
	}
	r.command(o.UUID, dlq.Pause)
	if n := r.step(); n != 0 {
		t.Errorf("a paused one treated %d", n)
	}
	r.command(o.UUID, dlq.Resume)
	if n := r.step(); n != 5 {
		t.Errorf("a resumed one treated %d", n)
	}
	r.command(o.UUID, dlq.Abort)
	if n := r.step(); n != 0 {
		t.Errorf("an aborted one treated %d", n)
	}
	if _, err := r.Command(t.Context(), o.UUID, dlq.Resume, ""); !errors.Is(err, dlq.ErrState) {
		t.Errorf("resuming an aborted one: %v", err)
	}
	if o = r.operation(o.UUID); o.State != dlq.Aborted || o.Done != int64(10+early) || o.FinishedAt.IsZero() || len(r.sent()) != 10+early {
		t.Errorf("%+v, %d sent", o, len(r.sent()))
	}
	items, err := r.Items(t.Context(), o.UUID, dlq.ItemFilter{State: "waiting"}, 0, 100)
	if err != nil || len(items) != 20-early || items[0].Place != int64(11+early) {
		t.Errorf("%d items wait, %v", len(items), err)
	}
	if _, err := r.Command(t.Context(), uuid.New(), dlq.Abort, ""); !errors.Is(err, dlq.ErrNotFound) {
		t.Errorf("an unknown one: %v", err)
	}
}

// TestItemsHaveOutcomes: items say what became of their messages, and which investigation goes on where one came back dead.
func TestItemsHaveOutcomes(t *testing.T) {
	t.Parallel()
	r := newRedriving(t)
	entries := r.many(5)
	o := r.plan(all, dlq.OperationOptions{HaltRatio: new(1.0)})
	if err := r.Resolve(t.Context(), entries[4]); err != nil {
		t.Fatal(err)
	}
	r.command(o.UUID, dlq.Start)
	r.step()
	list := func(f dlq.ItemFilter) (got []string) {
		t.Helper()
		items, err := r.Items(t.Context(), o.UUID, f, 0, 10)
		if err != nil {
			t.Fatal(err)
		}
		for _, i := range items {
			got = append(got, fmt.Sprintf("%d %s %s %t", i.Place, i.State, i.Outcome, i.Successor != uuid.Nil))
		}
		return got
	}
	if got := list(dlq.ItemFilter{Outcome: dlq.ItemSent}); len(got) != 4 {
		t.Errorf("on their way: %q", got)
	}
	r.deliver(1)
	again := r.sent()[0] // the first is gone
	r.dieAgain(1)        // the second
	l := dlqtest.Letters(dlqtest.Event(77, 1))[0]
	l.ID, l.EventID, l.OutboxID, l.Subject.ID = "event:"+again.EventID.String()+":1", again.EventID, &again.ID, again.EventID.String()
	opened := r.record(l)
	r.follow()
	want := []string{"1 done delivered false", "2 done came_back true", "3 done sent false", "4 done sent false", "5 skipped  false"}
	if got := list(dlq.ItemFilter{}); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if items, err := r.Items(t.Context(), o.UUID, dlq.ItemFilter{Outcome: dlq.ItemCameBack}, 0, 10); err != nil || len(items) != 1 || items[0].Entry != entries[1] || items[0].Successor != opened {
		t.Errorf("came back: %+v, %v; want %s and its successor %s", items, err, entries[1], opened)
	}
	plan := explainAs(t, r, beginRead, []any{operationItems, o.UUID, 0, 5, "", dlq.ItemCameBack})
	if !strings.Contains(plan, "dlq_operation_item_back") {
		t.Errorf("the plan for the few:\n%s", plan)
	}
}

func TestOperationsThatAreRefused(t *testing.T) {
	t.Parallel()
	r := newRedriving(t)
	entry := r.die(1, nil)
	ids := dlq.Scope{Entries: []uuid.UUID{entry}}
	for name, n := range map[string]dlq.NewOperation{
		"no scope":       {Kind: dlq.OpRedrive, Name: "n", Actor: "a"},
		"two scopes":     {Kind: dlq.OpRedrive, Name: "n", Actor: "a", Scope: dlq.Scope{Entries: ids.Entries, Group: uuid.New()}},
		"no name":        {Kind: dlq.OpRedrive, Actor: "a", Scope: ids},
		"no actor":       {Kind: dlq.OpRedrive, Name: "n", Scope: ids},
		"unknown kind":   {Kind: "explode", Name: "n", Actor: "a", Scope: ids},
		"empty scope":    {Kind: dlq.OpRedrive, Name: "n", Actor: "a", Scope: dlq.Scope{Filter: &dlq.Filter{Topic: "other"}}},
		"negative rate":  {Kind: dlq.OpRedrive, Name: "n", Actor: "a", Scope: ids, Options: dlq.OperationOptions{Rate: -1}},
		"bad target":     {Kind: dlq.OpRedrive, Name: "n", Actor: "a", Scope: ids, Options: dlq.OperationOptions{Target: "a b"}},
		"bad ratio":      {Kind: dlq.OpRedrive, Name: "n", Actor: "a", Scope: ids, Options: dlq.OperationOptions{HaltRatio: new(2.0)}},
		"canary, closed": {Kind: dlq.OpResolve, Name: "n", Actor: "a", Scope: ids, Options: dlq.OperationOptions{Canary: 1}},
		"closed pending": {Kind: dlq.OpResolve, Name: "n", Actor: "a", Scope: ids, Options: dlq.OperationOptions{Status: dlq.Pending}},
	} {
		if _, err := r.PlanOperation(t.Context(), n); !errors.Is(err, dlq.ErrRequest) {
			t.Errorf("%s: %v", name, err)
		}
	}
	_, err := r.PlanOperation(t.Context(), dlq.NewOperation{Kind: dlq.OpRedrive, Name: "n", Actor: "a", Scope: dlq.Scope{Entries: []uuid.UUID{entry, uuid.New()}}})
	if !errors.Is(err, dlq.ErrNotFound) {
		t.Errorf("an unknown id: %v", err)
	}
	if ops, err := r.ListOperations(t.Context(), dlq.OperationFilter{}, uuid.Nil, 10); err != nil || len(ops) != 0 {
		t.Errorf("refused ones were kept: %v, %v", ops, err)
	}
}

func TestWhatChangedAfterThePlan(t *testing.T) {
	t.Parallel()
	r := newRedriving(t)
	entries := r.many(5)
	o := r.plan(all, dlq.OperationOptions{})
	r.command(o.UUID, dlq.Start)
	if err := errors.Join(r.Resolve(t.Context(), entries[0]), r.Purge(t.Context(), entries[1])); err != nil {
		t.Fatal(err)
	}
	r.redrive(entries[2])
	r.step()
	items, err := r.Items(t.Context(), o.UUID, dlq.ItemFilter{}, 0, 10)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, i := range items {
		got = append(got, i.State+" "+i.Reason)
	}
	if want := []string{"skipped not_pending", "skipped purged", "skipped already_queued", "done ", "done "}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if o = r.operation(o.UUID); o.Done != 2 || o.Skipped != 3 || len(r.sent()) != 3 {
		t.Errorf("%+v, %d sent", o, len(r.sent()))
	}
}

// TestTwoOperatorsOnTheSame: both operations and many steps at once; each message goes out once, and the
// counts add up.
func TestTwoOperatorsOnTheSame(t *testing.T) {
	t.Parallel()
	r := newRedriving(t)
	r.many(60)
	var ops []dlq.Operation
	for range 2 {
		o := r.plan(all, dlq.OperationOptions{Rate: 200})
		ops = append(ops, r.command(o.UUID, dlq.Start))
	}
	deadline := time.Now().Add(3 * time.Minute)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for time.Now().Before(deadline) {
				_, _, err := r.Step(t.Context())
				if err != nil {
					t.Error(err)
					return
				}
				var waiting int
				if err := r.subject.pool.QueryRow(t.Context(), `select count(*) from postrider.dlq_operation_item where state = 'waiting'`).Scan(&waiting); err != nil || waiting == 0 {
					return
				}
			}
		})
	}
	wg.Wait()
	if n := len(r.sent()); n != 60 {
		t.Errorf("%d were sent, want 60", n)
	}
	r.deliver(60)
	var done, skipped int64
	for _, o := range ops {
		r.step()
		r.step()
		o = r.operation(o.UUID)
		if o.State != dlq.Completed || o.Done+o.Skipped != 60 || o.Delivered != o.Done {
			t.Errorf("%+v", o)
		}
		done, skipped = done+o.Done, skipped+o.Skipped
	}
	if done != 60 || skipped != 60 {
		t.Errorf("%d done and %d skipped", done, skipped)
	}
}

// TestAStepThatFailsIsMadeAgain: whatever fails within it, nothing of it stays.
func TestAStepThatFailsIsMadeAgain(t *testing.T) {
	t.Parallel()
	r := newRedriving(t)
	r.many(6)
	o := r.plan(all, dlq.OperationOptions{})
	r.command(o.UUID, dlq.Start)
	r.audit.refuse = errors.New("killed")
	if _, _, err := r.Step(t.Context()); !errors.Is(err, r.audit.refuse) {
		t.Fatalf("%v", err)
	}
	r.audit.refuse = nil
	if got := r.operation(o.UUID); got.Done != 0 || len(r.sent()) != 0 {
		t.Fatalf("%+v, %d sent", got, len(r.sent()))
	}
	if n := r.step(); n != 6 || len(r.sent()) != 6 {
		t.Errorf("%d treated, %d sent", n, len(r.sent()))
	}
}

// TestAnOperationOfAnotherSession is left to it.
func TestAnOperationOfAnotherSession(t *testing.T) {
	t.Parallel()
	r := newRedriving(t)
	r.many(3)
	o := r.plan(all, dlq.OperationOptions{})
	r.command(o.UUID, dlq.Start)
	err := pgx.BeginFunc(t.Context(), r.subject.pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(t.Context(), `select from postrider.dlq_operation for update`); err != nil {
			return err
		}
		n, _, err := r.Step(t.Context())
		if n != 0 {
			err = errors.Join(err, fmt.Errorf("%d were treated", n))
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

func TestResolvingMany(t *testing.T) {
	t.Parallel()
	r := newRedriving(t)
	entries := r.many(4)
	o, err := r.PlanOperation(t.Context(), dlq.NewOperation{Kind: dlq.OpResolve, Name: "false alarm", Actor: "ada", Scope: dlq.Scope{Entries: entries[:3]},
		Options: dlq.OperationOptions{Status: dlq.Cancelled, Notes: "a test ran against production"}})
	if err != nil {
		t.Fatal(err)
	}
	r.command(o.UUID, dlq.Start)
	r.step()
	r.step()
	if o = r.operation(o.UUID); o.State != dlq.Completed || o.Done != 3 {
		t.Errorf("%+v", o)
	}
	e, err := r.investigations.Show(t.Context(), entries[0])
	if err != nil || e.Status != dlq.Cancelled || e.ResolvedBy != "ada" || e.ResolutionNotes != "a test ran against production" {
		t.Errorf("%+v, %v", e, err)
	}
	if status, _ := r.status(entries[3]); status != dlq.Pending {
		t.Errorf("another is %s", status)
	}
}

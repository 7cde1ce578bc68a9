package postgres

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/postrider/postrider/internal/dlq"
	relaypostgres "github.com/postrider/postrider/internal/relay/postgres"
)

// TestACountThatIsWrongEndsNoOperationEarly, and makes none go on for ever: the items themselves say how much is left.
func TestACountThatIsWrongEndsNoOperationEarly(t *testing.T) {
	t.Parallel()
	for _, off := range []int{-1, 1} {
		r := newRedriving(t)
		r.many(3)
		o := r.plan(all, dlq.OperationOptions{})
		mustExec(t, r.subject.pool, `update postrider.dlq_operation set items = items + $1`, off)
		r.command(o.UUID, dlq.Start)
		if n := r.step(); n != 3 {
			t.Errorf("%+d: %d were treated", off, n)
		}
		r.deliver(3)
		r.step()
		if o = r.operation(o.UUID); o.State != dlq.Completed || o.Done != 3 {
			t.Errorf("%+d: at the end: %+v", off, o)
		}
	}
}

// TestAPurgeDuringThePlan: the items are counted, and not their investigations.
func TestAPurgeDuringThePlan(t *testing.T) {
	t.Parallel()
	r := newRedriving(t)
	entries := r.many(3)
	mustExec(t, r.subject.pool, `create function purge() returns trigger language plpgsql as $$ begin
		delete from postrider.dlq_entry where dlq_entry_uuid = '`+entries[1].String()+`'; return null; end $$`)
	mustExec(t, r.subject.pool, `create trigger purge after insert on postrider.dlq_operation_item for each statement execute function purge()`)
	o := r.plan(all, dlq.OperationOptions{})
	if o.Items != 3 {
		t.Errorf("%d items, want the three that were frozen", o.Items)
	}
	mustExec(t, r.subject.pool, `drop trigger purge on postrider.dlq_operation_item`)
	r.command(o.UUID, dlq.Start)
	r.step()
	r.deliver(2)
	r.step()
	if o = r.operation(o.UUID); o.State != dlq.Completed || o.Done != 2 || o.Skipped != 1 {
		t.Errorf("at the end: %+v", o)
	}
}

// TestAnOperationThatCannotBeReadStopsNoOther: a person wrote it by hand.
func TestAnOperationThatCannotBeReadStopsNoOther(t *testing.T) {
	t.Parallel()
	r := newRedriving(t)
	r.many(3)
	o := r.plan(all, dlq.OperationOptions{})
	r.command(o.UUID, dlq.Start)
	mustExec(t, r.subject.pool, `insert into postrider.dlq_operation (kind, name, actor, state, scope, options, created_at)
		values ('redrive', 'bad', 'eve', 'running', '{}', '{"rate": "5"}', now() - interval '1 hour')`)
	var failed error
	treated := 0
	for range 3 {
		n, _, err := r.Step(t.Context())
		treated, failed = treated+n, errors.Join(failed, err)
	}
	if treated != 3 || failed == nil {
		t.Errorf("%d were treated, %v", treated, failed)
	}
}

// TestABatchThatRunsOutOfTimeStopsNoOther: another session holds an investigation of the batch for long. The operation
// says so, and the other operations have their turn.
func TestABatchThatRunsOutOfTimeStopsNoOther(t *testing.T) {
	t.Parallel()
	r := newRedriving(t)
	entries := r.many(2)
	first, second := r.plan(dlq.Scope{Entries: entries[:1]}, dlq.OperationOptions{}), r.plan(dlq.Scope{Entries: entries[1:]}, dlq.OperationOptions{})
	r.command(first.UUID, dlq.Start)
	lock, err := r.subject.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = lock.Rollback(context.WithoutCancel(t.Context())) }()
	if _, err := lock.Exec(t.Context(), `select from postrider.dlq_entry where dlq_entry_uuid = $1 for update`, entries[0]); err != nil {
		t.Fatal(err)
	}
	hasty, err := NewRedriver(RedriverConfig{Pool: r.subject.pool, Auditor: r.audit, Exceptions: exceptions{relaypostgres.NewStore(r.subject.pool, relaypostgres.StoreOptions{})}, Timeout: 300 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	if n, _, err := hasty.Step(t.Context()); n != 0 || !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("%d, %v", n, err)
	}
	if o := r.operation(first.UUID); o.State != dlq.Running || !strings.HasPrefix(o.Error, "failed for now: ") {
		t.Errorf("%+v", o)
	}
	if r.count(`select count(*) from postrider.dlq_operation where next_at > created_at and dlq_operation_uuid = $1`, first.UUID) != 1 {
		t.Error("it was not postponed")
	}
	r.command(second.UUID, dlq.Start)
	if n, _, err := r.Step(t.Context()); n != 1 || err != nil {
		t.Errorf("the other one: %d, %v", n, err)
	}
	if err := lock.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := r.step(); n != 1 {
		t.Errorf("afterwards %d", n)
	}
	if o := r.operation(first.UUID); o.Done != 1 || o.Error != "" {
		t.Errorf("afterwards: %+v", o)
	}
}

// TestThePlanCountsKeysOfWhichSomethingIsOvertaken: an event that halts its key goes back to its place.
func TestThePlanCountsKeysOfWhichSomethingIsOvertaken(t *testing.T) {
	t.Parallel()
	r := newRedriving(t)
	r.die(7, nil) // of key-0
	r.die(3, nil)
	r.halt(7)
	if p := r.plan(all, dlq.OperationOptions{}).Plan; p.Items != 2 || p.Halting != 1 || p.Keys != 1 {
		t.Errorf("%+v", p)
	}
	r.die(14, nil) // of key-0, too, and not the event that halts it
	if p := r.plan(all, dlq.OperationOptions{}).Plan; p.Items != 3 || p.Halting != 1 || p.Keys != 2 {
		t.Errorf("with another of the same key: %+v", p)
	}
	if p := r.plan(all, dlq.OperationOptions{Target: "elsewhere"}).Plan; p.Halting != 0 || p.Keys != 2 {
		t.Errorf("to another topic: %+v", p)
	}
}

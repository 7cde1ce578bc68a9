package postgres

import (
	"errors"
	"testing"

	"github.com/postrider/postrider/dlq"
)

// TestACountThatIsWrongEndsNoOperationEarly, and makes none go on for ever: the items themselves say what is left.
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

// TestAnOperationThatCannotBeReadStopsNoOther: somebody wrote it by hand.
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

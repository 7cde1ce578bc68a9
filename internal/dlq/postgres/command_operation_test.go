package postgres

import (
	"slices"
	"testing"

	"github.com/postrider/postrider/internal/dlq"
	"github.com/postrider/postrider/internal/testenv/outboxtest"
	"github.com/postrider/postrider/internal/testenv/pgtest"
)

// TestAnOperationAsksSources: items of a source that has not answered are done, and on their way; what the source refuses is skipped
// after all. Items of the desk's own outbox go on meanwhile. The operation ends when all of its redrives have ended.
func TestAnOperationAsksSources(t *testing.T) {
	t.Parallel()
	c := newCommanding(t)
	c.dieThere(1, true)
	c.dieThere(2, false)
	c.dieThere(8, false)
	mustExec(t, c.source, `update postrider.outbox_exception set episode = 2 where id = $1`, outboxID(8))
	c.die(3, nil)
	o := c.plan(all, dlq.OperationOptions{})
	c.command(o.UUID, dlq.Start)
	c.step()
	want := func(what string, state dlq.OperationState, done, skipped, delivered int64, items ...string) {
		t.Helper()
		c.step()
		o := c.operation(o.UUID)
		if o.State != state || o.Done != done || o.Skipped != skipped || o.Delivered != delivered || o.Failed+o.CameBack != 0 {
			t.Errorf("%s: %+v", what, o)
		}
		got := pgtest.Column[string](t, c.subject.pool, `select concat_ws(' ', l.source, coalesce(l.source_outbox_id, l.outbox_id), i.state, i.reason, i.outcome)
			from postrider.dlq_operation_item i join postrider.dlq_letter l using (dlq_entry_uuid) order by 1`)
		if !slices.Equal(got, items) {
			t.Errorf("%s: the items are %q, want %q", what, got, items)
		}
	}
	want("asked", dlq.Running, 4, 0, 0, "main 4 done sent", "orders 2 done sent", "orders 3 done sent", "orders 9 done sent")
	c.sendAll()
	c.wantAnswers("redrive 2 in_place", "redrive 3 new", "redrive 9 stale")
	want("answered", dlq.Running, 3, 1, 0, "main 4 done sent", "orders 2 done sent", "orders 3 done sent", "orders 9 skipped stale")
	c.deliver(1)
	want("the own one is delivered", dlq.Running, 3, 1, 1, "main 4 done delivered", "orders 2 done sent", "orders 3 done sent", "orders 9 skipped stale")
	outboxtest.SettleAll(t, c.source, outboxtest.Published, outboxtest.Pending, 1000)
	outboxtest.Settle(t, c.source, outboxtest.Published, outboxID(1))
	if f := c.followThere(); f.Delivered != 2 {
		t.Errorf("%+v", f)
	}
	want("all are delivered", dlq.Completed, 3, 1, 3, "main 4 done delivered", "orders 2 done delivered", "orders 3 done delivered", "orders 9 skipped stale")
}

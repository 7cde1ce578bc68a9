package postgres

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/google/uuid"

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
	c.wantItems("asked", o.UUID, "running done 4 skipped 0 failed 0 delivered 0", "main 4 done sent", "orders 2 done sent", "orders 3 done sent", "orders 9 done sent")
	c.sendAll()
	c.wantAnswers("redrive 2 in_place", "redrive 3 new", "redrive 9 stale")
	c.wantItems("answered", o.UUID, "running done 3 skipped 1 failed 0 delivered 0", "main 4 done sent", "orders 2 done sent", "orders 3 done sent", "orders 9 skipped stale")
	c.deliver(1)
	c.wantItems("the own one is delivered", o.UUID, "running done 3 skipped 1 failed 0 delivered 1", "main 4 done delivered", "orders 2 done sent", "orders 3 done sent", "orders 9 skipped stale")
	outboxtest.SettleAll(t, c.source, outboxtest.Published, outboxtest.Pending, 1000)
	outboxtest.Settle(t, c.source, outboxtest.Published, outboxID(1))
	if f := c.followThere(); f.Delivered != 2 {
		t.Errorf("%+v", f)
	}
	c.wantItems("all are delivered", o.UUID, "completed done 3 skipped 1 failed 0 delivered 3", "main 4 done delivered", "orders 2 done delivered", "orders 3 done delivered", "orders 9 skipped stale")
}

// wantItems compares the counts and the items of an operation, after what it does next.
func (c *commanding) wantItems(what string, id uuid.UUID, counts string, items ...string) {
	c.t.Helper()
	c.step()
	o := c.operation(id)
	if got := fmt.Sprint(o.State, " done ", o.Done, " skipped ", o.Skipped, " failed ", o.Failed, " delivered ", o.Delivered); got != counts {
		c.t.Errorf("%s: the operation is %s, want %s", what, got, counts)
	}
	got := pgtest.Column[string](c.t, c.subject.pool, `select concat_ws(' ', l.source, coalesce(l.source_outbox_id, l.outbox_id), i.state, i.reason, i.outcome)
		from postrider.dlq_operation_item i join postrider.dlq_letter l using (dlq_entry_uuid) order by 1`)
	if !slices.Equal(got, items) {
		c.t.Errorf("%s: the items are %q, want %q", what, got, items)
	}
}

// TestAnOperationOfAForgottenSource: what became of its redrives is unknown. They end by name, so the operation waits for nothing, and
// counts nothing as under way.
func TestAnOperationOfAForgottenSource(t *testing.T) {
	t.Parallel()
	c := newCommanding(t)
	c.dieThere(1, true)
	c.die(3, nil)
	o := c.plan(all, dlq.OperationOptions{})
	c.command(o.UUID, dlq.Start)
	c.step()
	c.sendAll()
	c.deliver(1)
	if _, err := c.ForgetSource(t.Context(), "orders", "ada"); err != nil {
		t.Fatal(err)
	}
	c.wantItems("forgotten", o.UUID, "completed done 1 skipped 0 failed 1 delivered 1", "main 4 done delivered", "orders 2 failed source_forgotten")
	if _, err := c.ForgetSource(t.Context(), "orders", "ada"); err != nil {
		t.Fatal(err)
	}
	c.wantItems("once more", o.UUID, "completed done 1 skipped 0 failed 1 delivered 1", "main 4 done delivered", "orders 2 failed source_forgotten")
}

// TestForgettingAndRejoiningWaitForOthers: what forgets a source, or leads it back, has nothing meanwhile that they lock next: neither what
// notes an answer of the source, nor an operation that asks it.
func TestForgettingAndRejoiningWaitForOthers(t *testing.T) {
	t.Parallel()
	const (
		answer    = `select from postrider.dlq_source where source = 'orders' for no key update`
		operation = `select from postrider.dlq_operation for update nowait`
		asking    = `select from postrider.dlq_source where source = 'orders' for key share nowait`
		forget    = `select from postrider.dlq_forget_source('orders')`
		rejoin    = `select from postrider.dlq_rejoin_source('orders', gen_random_uuid(), 0, 0, array(select dlq_command_uuid from postrider.dlq_command), '[]')`
	)
	for name, w := range map[string]struct {
		statement string
		locks     [2]string
		items     []string
	}{
		"an answer, and it is forgotten":    {forget, [2]string{answer, operation}, []string{"completed done 0 skipped 0 failed 1 delivered 0", "orders 2 failed source_forgotten"}},
		"an operation, and it is forgotten": {forget, [2]string{operation, asking}, []string{"completed done 0 skipped 0 failed 1 delivered 0", "orders 2 failed source_forgotten"}},
		"an answer, and it is led back":     {rejoin, [2]string{answer, operation}, []string{"completed done 0 skipped 1 failed 0 delivered 0", "orders 2 skipped undone"}},
		"an operation, and it is led back":  {rejoin, [2]string{operation, asking}, []string{"completed done 0 skipped 1 failed 0 delivered 0", "orders 2 skipped undone"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCommanding(t)
			c.dieThere(1, true)
			o := c.plan(all, dlq.OperationOptions{})
			c.command(o.UUID, dlq.Start)
			c.step()
			c.sendAll()
			other, err := c.subject.pool.Begin(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = other.Rollback(context.WithoutCancel(t.Context())) }()
			if tag, err := other.Exec(t.Context(), w.locks[0]); err != nil || tag.RowsAffected() != 1 {
				t.Fatal(tag, err)
			}
			ended := make(chan error, 1)
			go func() {
				_, err := c.subject.pool.Exec(t.Context(), w.statement)
				ended <- err
			}()
			untilWaiting(t, c.subject.pool)
			if tag, err := other.Exec(t.Context(), w.locks[1]); err != nil || tag.RowsAffected() != 1 {
				t.Error(tag, err)
			}
			if err := other.Rollback(t.Context()); err != nil {
				t.Error(err)
			}
			if err := <-ended; err != nil {
				t.Error(err)
			}
			c.wantItems("ended", o.UUID, w.items[0], w.items[1:]...)
		})
	}
}

// TestAnOperationOfASourceThatWasSetBack: redrives that are undone were none. The operation says so of its items, and ends.
func TestAnOperationOfASourceThatWasSetBack(t *testing.T) {
	t.Parallel()
	c := newCommanding(t)
	c.dieThere(1, true)
	backup := c.backup()
	o := c.plan(all, dlq.OperationOptions{})
	c.command(o.UUID, dlq.Start)
	c.step()
	c.sendAll()
	c.wantItems("answered", o.UUID, "running done 1 skipped 0 failed 0 delivered 0", "orders 2 done sent")
	c = c.back(c.subject.pool, backup)
	c.wantStopped(dlq.StopRewound)
	c.rejoin()
	c.wantItems("undone", o.UUID, "completed done 0 skipped 1 failed 0 delivered 0", "orders 2 skipped undone")
}

// TestACommandOfAnEarlierDeath: before the source hears of it, a person there redrives the event, and it dies again. The command is
// about the death before, and does nothing.
func TestACommandOfAnEarlierDeath(t *testing.T) {
	t.Parallel()
	c := newCommanding(t)
	entry := c.dieThere(1, true)
	c.redrive(entry)
	mustExec(t, c.source, `select postrider.outbox_redrive($1)`, outboxID(1))
	outboxtest.Settle(t, c.source, outboxtest.DeadLettered, outboxID(1))
	mustExec(t, c.source, `update postrider.outbox_hold set cause = 'halted'`)
	c.send()
	c.wantAnswers("redrive 2 stale")
	if got := pgtest.Value[string](t, c.source, `select concat_ws(' ', state, episode, obeyed) from postrider.outbox_exception`); got != "dead_lettered 2" {
		t.Errorf("there the event is %s", got)
	}
	if acts := c.acts(1); acts != "" {
		t.Errorf("the source did %s", acts)
	}
}

// TestCallsAreBounded: a source is asked for so many commands, and so many bytes, in one call.
func TestCallsAreBounded(t *testing.T) {
	t.Parallel()
	c := newCommanding(t)
	mustExec(t, c.subject.pool, `insert into postrider.dlq_command (source, kind, dlq_entry_uuid, outbox_id, event_id, episode, actor)
		select 'orders', 'close', gen_random_uuid(), n, gen_random_uuid(), 1, 'ada' from generate_series(1, 501) n`)
	for _, want := range []SentCommands{{Answered: 500, More: true}, {Answered: 1}, {}} {
		if sent := c.send(); sent != want {
			t.Errorf("%+v, want %+v", sent, want)
		}
	}
	mustExec(t, c.subject.pool, `insert into postrider.dlq_command (source, kind, dlq_entry_uuid, outbox_id, event_id, episode, actor, request)
		select 'orders', 'close', gen_random_uuid(), n, gen_random_uuid(), 1, 'ada', jsonb_build_object('large', (select string_agg(md5(n::text || i), '') from generate_series(1, 100000) i))
		from generate_series(1, 3) n`)
	for _, want := range []SentCommands{{Answered: 2, More: true}, {Answered: 1, More: true}, {}} { // of 3 MB each: one may fill a call
		if sent := c.send(); sent != want {
			t.Errorf("%+v, want %+v", sent, want)
		}
	}
}

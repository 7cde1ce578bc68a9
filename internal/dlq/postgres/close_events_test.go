package postgres

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/postrider/postrider/internal/dlq"
	"github.com/postrider/postrider/internal/dlq/dlqtest"
	"github.com/postrider/postrider/internal/testenv/outboxtest"
	"github.com/postrider/postrider/internal/testenv/pgtest"
)

// closed reports whether the outbox knows that event n is not needed any more.
func (r *redriving) closed(n int) bool {
	r.t.Helper()
	return pgtest.Value[bool](r.t, r.subject.pool, `select closed_at is not null from postrider.outbox_exception where id = $1`, outboxID(n))
}

// TestClosingTellsTheOutbox: an event may be removed when its investigation is closed or purged, however that comes about.
func TestClosingTellsTheOutbox(t *testing.T) {
	t.Parallel()
	r := newRedriving(t)
	ways := []func(uuid.UUID) error{
		func(id uuid.UUID) error {
			_, err := r.people().Change(t.Context(), id, dlq.Change{Status: ref(dlq.Cancelled), Actor: "ada"})
			return err
		},
		func(id uuid.UUID) error {
			_, err := r.people().Purge(t.Context(), dlq.Purge{Entries: []uuid.UUID{id}, Limit: 1, Actor: "ada"})
			return err
		},
		func(id uuid.UUID) error {
			o, err := r.PlanOperation(t.Context(), dlq.NewOperation{Kind: dlq.OpResolve, Name: "n", Actor: "ada", Scope: dlq.Scope{Entries: []uuid.UUID{id}}})
			if err == nil {
				r.command(o.UUID, dlq.Start)
				r.step()
			}
			return err
		},
		func(id uuid.UUID) error { // redriven as a new event, and delivered
			r.redrive(id)
			r.settleSent(outboxtest.Published, 1)
			r.follow()
			return nil
		},
		func(id uuid.UUID) error { // redriven as a new event that died again: another investigation goes on
			r.redrive(id)
			r.settleSent(outboxtest.DeadLettered, 1)
			r.follow()
			out := r.sent()
			r.record(letterOf(out[len(out)-1], 50))
			return nil
		},
	}
	for n, closeIt := range ways {
		entry, other := r.die(2*n, nil), r.die(2*n+1, nil)
		if _, err := r.people().Change(t.Context(), entry, dlq.Change{Notes: ref("looking"), Actor: "ada"}); err != nil || r.closed(2*n) {
			t.Fatalf("%d: a note closed it, %v", n, err)
		}
		if err := closeIt(entry); err != nil {
			t.Fatalf("%d: %v", n, err)
		}
		if !r.closed(2*n) || r.closed(2*n+1) {
			t.Errorf("%d: the event is closed: %v; another one, %s: %v", n, r.closed(2*n), other, r.closed(2*n+1))
		}
	}
	for n := range ways {
		if err := r.Resolve(t.Context(), r.entryOf(2*n+1)); err != nil {
			t.Fatal(err)
		}
	}
	// Retention takes the rows of the log, and then the exceptions that are closed.
	mustExec(t, r.subject.pool, `update postrider.outbox_receipt set at = now() - interval '1 day'`)
	mustExec(t, r.subject.pool, `delete from postrider.outbox_event where id <= 1000`)
	mustExec(t, r.subject.pool, `update postrider.outbox_exception set closed_at = closed_at - interval '1 day'`)
	if n := r.count(`select removed from postrider.outbox_purge_exceptions('1 hour', 1000)`); n != 2*len(ways) {
		t.Errorf("retention took %d, want %d", n, 2*len(ways))
	}
}

// entryOf is the investigation of event n.
func (r *redriving) entryOf(n int) uuid.UUID {
	r.t.Helper()
	return pgtest.Value[uuid.UUID](r.t, r.subject.pool, `select dlq_entry_uuid from postrider.dlq_letter where outbox_id = $1`, outboxID(n))
}

// dieTwice records two letters about event n, its own and one of a task, and returns their investigations.
func (r *redriving) dieTwice(n int) (first, second uuid.UUID) {
	r.t.Helper()
	first = r.die(n, nil)
	l := dlqtest.Letters(dlqtest.Task(n+1, 1))[0]
	id, episode := outboxID(n), int32(1)
	l.EventID, l.OutboxID, l.Episode = dlqtest.EventID(n), &id, &episode
	if second = r.record(l); first == second {
		r.t.Fatal("there is one investigation only")
	}
	return first, second
}

// TestClosingWaitsForTheLastInvestigation of an event, and closes no event that was given up again since.
func TestClosingWaitsForTheLastInvestigation(t *testing.T) {
	t.Parallel()
	r := newRedriving(t)
	first, second := r.dieTwice(1)
	if err := r.Resolve(t.Context(), first); err != nil || r.closed(1) {
		t.Errorf("one of two is closed: %v, %v", r.closed(1), err)
	}
	if err := r.Resolve(t.Context(), second); err != nil || !r.closed(1) {
		t.Errorf("both are closed: %v, %v", r.closed(1), err)
	}

	// Both at once.
	first, second = r.dieTwice(3)
	mustExec(t, r.subject.pool, `delete from postrider.dlq_entry where dlq_entry_uuid in ($1, $2)`, first, second)
	if !r.closed(3) {
		t.Error("both are gone, and the event is not closed")
	}

	// It was redriven by hand and given up again, and the letter of that is not here.
	entry := r.die(5, nil)
	r.halt(5)
	mustExec(t, r.subject.pool, `select postrider.outbox_redrive($1)`, outboxID(5))
	r.settle(outboxtest.Exhausted, 5)
	if err := r.Resolve(t.Context(), entry); err != nil || r.closed(5) {
		t.Errorf("given up again: %v, %v", r.closed(5), err)
	}
	again := r.record(dlqtest.Letters(dlqtest.Event(5, 2))[0])
	if again == entry || r.closed(5) {
		t.Errorf("its letter closed it: %v", r.closed(5))
	}
	// The letter is here before the relay has settled it.
	if err := r.Resolve(t.Context(), again); err != nil || !r.closed(5) {
		t.Errorf("of the second letter: %v, %v", r.closed(5), err)
	}
	if n := r.count(`select removed from postrider.outbox_purge_exceptions('-1 hour', 1000)`); n != 0 {
		t.Errorf("retention took %d whose rows the log has", n)
	}
	mustExec(t, r.subject.pool, `delete from postrider.outbox_event`)
	mustExec(t, r.subject.pool, `update postrider.outbox_hold set cause = 'retry'`)
	if n := r.count(`select removed from postrider.outbox_purge_exceptions('-1 hour', 1000)`); n != 2 {
		t.Errorf("retention took %d, want two: the third has not been dead-lettered", n)
	}
}

// TestClosingTwoAtOnce: of an event's two investigations each is closed before the other's closing is committed.
func TestClosingTwoAtOnce(t *testing.T) {
	t.Parallel()
	r := newRedriving(t)
	first, second := r.dieTwice(1)
	const closing = `update postrider.dlq_entry set resolution_status = 'cancelled', resolution_timestamp = now() where dlq_entry_uuid = $1`
	tx, err := r.subject.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) }()
	if _, err := tx.Exec(t.Context(), closing, first); err != nil {
		t.Fatal(err)
	}
	closed := make(chan error, 1)
	go func() {
		_, err := r.subject.pool.Exec(t.Context(), closing, second)
		closed <- err
	}()
	for r.count(`select count(*) from pg_locks where locktype = 'advisory' and not granted and database = (select oid from pg_database where datname = current_database())`) == 0 {
		select {
		case err := <-closed:
			t.Fatalf("the second does not wait for the first: %v", err)
		case <-time.After(5 * time.Millisecond):
		}
	}
	if err := errors.Join(tx.Commit(t.Context()), <-closed); err != nil || !r.closed(1) {
		t.Errorf("both are closed: %v, %v", r.closed(1), err)
	}
}

// TestHowEventsStand says what the outbox answers of each kind of event.
func TestHowEventsStand(t *testing.T) {
	t.Parallel()
	r := newRedriving(t)
	mustExec(t, r.subject.pool, `insert into postrider.outbox_event (event_id, topic) select ('00000000-0000-0000-0000-00000000000' || i)::uuid, 't' from generate_series(1, 9) i`)
	set := func(state string, ids ...int64) { outboxtest.Settle(t, r.subject.pool, state, ids...) }
	set(outboxtest.Published, 1001, 1003, 1004) // 1002 is in a gap
	set(outboxtest.Exhausted, 1005, 1006)
	set(outboxtest.DeadLettered, 1006)
	set(outboxtest.Scheduled, 1007)
	mustExec(t, r.subject.pool, `delete from postrider.outbox_event where id in (1004, 1006)`)
	got := pgtest.Value[string](t, r.subject.pool, `select string_agg(s.place || ' ' || s.state || ' ' || s.episode, ', ' order by s.place)
		from postrider.outbox_standing((select array_agg(1000 + i) || 1001::bigint from generate_series(1, 9) i),
			(select array_agg(('00000000-0000-0000-0000-00000000000' || i)::uuid) || gen_random_uuid() from generate_series(1, 9) i)) s`)
	const want = "1 published 0, 2 pending 0, 3 published 0, 5 exhausted 1, 6 dead_lettered 1, 7 scheduled 0, 8 pending 0, 9 pending 0"
	if got != want {
		t.Errorf("they stand %s, want %s", got, want)
	}
}

// TestRetryNumbers: an event that a person redrove counts as sent again while its investigation is pending.
func TestRetryNumbers(t *testing.T) {
	t.Parallel()
	r := newRedriving(t)
	for n := range 4 {
		r.die(n, nil)
	}
	requeued := func(want int, when string) {
		t.Helper()
		if n := r.count(`select coalesce(sum(requeued), 0) from postrider.dlq_retry_numbers()`); n != want {
			t.Errorf("%s %d were sent again, want %d", when, n, want)
		}
	}
	requeued(0, "at first")
	r.redrive(r.entryOf(0))
	r.halt(1)
	mustExec(t, r.subject.pool, fmt.Sprintf(`select postrider.outbox_redrive(%d)`, outboxID(1)))
	requeued(2, "on their way")
	r.settle(outboxtest.Published, 1)
	requeued(2, "delivered")
	mustExec(t, r.subject.pool, `update postrider.outbox_hold set cause = 'halted', asked = null`)
	r.settle(outboxtest.Exhausted, 2)
	requeued(2, "with one whose letter is on its way")
}

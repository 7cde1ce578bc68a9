package postgres_test

import (
	"fmt"
	"testing"

	"github.com/google/uuid"

	"github.com/postrider/postrider/internal/tasks/ledger"
	"github.com/postrider/postrider/internal/tasks/ledgertest"
	"github.com/postrider/postrider/internal/tasks/postgres"
	"github.com/postrider/postrider/internal/testenv/outboxtest"
	"github.com/postrider/postrider/internal/testenv/pgtest"
)

// caughtUp catches up until nothing waits, and counts what became of all.
func (r *road) caughtUp() (all ledger.CaughtUp) {
	r.Helper()
	for range 10 {
		got, err := r.CatchUp(r.Context(), 10)
		if err != nil {
			r.Fatal(err)
		}
		all.Moved, all.Refused, all.Waiting = all.Moved+got.Moved, all.Refused+got.Refused, got.Waiting
		if got == (ledger.CaughtUp{}) {
			break
		}
	}
	return all
}

// TestRetryUnderWay: a task is being retried when an old event of it is given up. The retry was begun before, and is
// committed after: the event that starts the task anew is out, so the task stays where the retry put it.
func TestRetryUnderWay(t *testing.T) {
	t.Parallel()
	for _, lock := range []string{
		"", // the task's row
		// The giving up may wait for it, and comes to the task in the moment in which the retry is committed; or it waits
		// too long.
		`lock table postrider.tasker_tasks in access exclusive mode`,
	} {
		r := newRoad(t)
		task := r.in("protocol", "extraction_failed")
		old := r.givenUp(task, "record", "X")
		tx, err := r.pool.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = tx.Rollback(t.Context()) }()
		if _, err := postgres.On(tx).Retry(t.Context(), task, "ann"); err != nil {
			t.Fatal(err)
		}
		if lock != "" {
			pgtest.Exec(t, tx, lock)
		}
		told := make(chan error, 1)
		conn := r.db.Conn(t)
		go func() {
			var moved int
			err := conn.QueryRow(t.Context(), `select postrider.outbox_tell_tasks($1)`, []int64{old}).Scan(&moved)
			if err == nil && moved != 0 {
				err = fmt.Errorf("%d tasks were moved", moved)
			}
			told <- err
		}()
		if lock == "" {
			err = <-told
			r.wantNotes(note{"waiting", "another transaction"})
		} else {
			for waits := false; !waits && len(told) == 0; {
				waits = scalar[bool](r, `select exists (select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock')`)
			}
		}
		if e := tx.Commit(t.Context()); e != nil {
			t.Fatal(e)
		}
		if lock != "" {
			err = <-told
		}
		if err != nil {
			t.Error(err)
		}
		got := r.caughtUp()
		if got.Moved != 0 || got.Waiting != 0 {
			t.Errorf("%q: caught up %+v", lock, got)
		}
		r.wantState(task, "uploaded")
		r.wantNotes(note{"refused", "retried since"})
		// An event that is given up after the retry moves the task.
		if n := r.tell(r.givenUp(task, "record", "X")); n != 1 {
			t.Errorf("%q: %d moved", lock, n)
		}
		r.wantState(task, "dead_letter")
	}
}

// TestRetriedBeforeItWasNoted: if a transition into the initial state was committed when the event was given up, it does
// not count as a retry since then, whatever the times say.
func TestRetriedBeforeItWasNoted(t *testing.T) {
	t.Parallel()
	r := newRoad(t)
	task := r.in("protocol", "extraction_failed")
	if _, err := r.Retry(t.Context(), task, ""); err != nil {
		t.Fatal(err)
	}
	release := r.hold(lockTask, task)
	defer release()
	if n := r.tell(r.givenUp(task, "record", "X")); n != 0 {
		t.Errorf("%d moved", n)
	}
	release()
	// By a clock that was ahead.
	r.exec(`update postrider.tasker_task_transitions set created_at = created_at + interval '1 hour' where task_uuid = $1`, task)
	if got := r.caughtUp(); got.Moved != 1 {
		t.Errorf("caught up %+v", got)
	}
	r.wantState(task, "dead_letter")
}

// TestEventOfAnEarlierBeginning: a task is retried, and then the event that started it before is given up. The task goes on.
// If the event of the present beginning is given up, the task is moved.
func TestEventOfAnEarlierBeginning(t *testing.T) {
	t.Parallel()
	r := newRoad(t)
	starts := func(task uuid.UUID) (ids []int64) {
		t.Helper()
		for _, e := range ledgertest.OfType(ledgertest.Events(t, r.pool, task), "document.uploaded") {
			ids = append(ids, e.ID)
		}
		return ids
	}
	skip := func(event int64) {
		t.Helper()
		outboxtest.Settle(t, r.pool, outboxtest.Scheduled, event)
		r.exec(`select postrider.outbox_skip($1, 'there is a newer one')`, event)
	}
	retried := func() uuid.UUID {
		t.Helper()
		task := r.in("protocol", "dead_letter")
		if _, err := r.Retry(t.Context(), task, "ann"); err != nil {
			t.Fatal(err)
		}
		return task
	}
	task := retried()
	events := starts(task)
	if len(events) != 2 {
		t.Fatalf("start events %v", events)
	}
	skip(events[0])
	r.wantState(task, "uploaded")
	r.wantNotes(note{"refused", "retried since"})
	skip(events[1])
	r.wantState(task, "dead_letter")

	// If the leader has not read the events yet, a skip is only a request, which the leader carries out.
	task = retried()
	events = starts(task)
	for _, event := range events {
		r.exec(`select postrider.outbox_skip($1, 'there is a newer one')`, event)
		r.wantState(task, "uploaded")
	}
	for i, want := range []string{"uploaded", "dead_letter"} {
		if err := ledgertest.Exhaust(t.Context(), r.pool, events[i], "permanent", "SKIPPED"); err != nil {
			t.Fatal(err)
		}
		r.tell(events[i])
		r.wantState(task, want)
	}

	// The same holds while another transaction has the task locked.
	task = retried()
	events = starts(task)
	release := r.hold(lockTask, task)
	defer release()
	skip(events[0])
	release()
	if got := r.caughtUp(); got != (ledger.CaughtUp{Refused: 1}) {
		t.Errorf("caught up %+v", got)
	}
	r.wantState(task, "uploaded")

	// The same holds for an event whose attempts are spent. The event of the present beginning moves the task.
	task = retried()
	events = starts(task)
	for i, want := range []string{"uploaded", "dead_letter"} {
		if err := ledgertest.Exhaust(t.Context(), r.pool, events[i], "record", "X"); err != nil {
			t.Fatal(err)
		}
		if n := r.tell(events[i]); n != i {
			t.Errorf("%d moved by start event %d", n, i)
		}
		r.wantState(task, want)
	}

	// An event that was written before its task was, in the same transaction: the task's first state is no retry.
	early := uuid.New()
	tx, err := r.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(t.Context()) }()
	event := pgtest.Value[int64](t, tx, `insert into postrider.outbox_event (topic, key, payload, task_uuid) values ('documents', 'k', '{}', $1) returning id`, early)
	if _, err := postgres.On(tx).Create(t.Context(), ledger.NewTask{Namespace: "default", Name: "protocol", UUID: early}); err != nil {
		t.Fatal(err)
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	skip(event)
	r.wantState(early, "dead_letter")
}

// TestOneBadTaskOfMany: what fails about one task keeps no other from being moved in the same transaction, and without a
// failure there is no savepoint for each.
func TestOneBadTaskOfMany(t *testing.T) {
	t.Parallel()
	r := newRoad(t)
	const many = 70
	var tasks []uuid.UUID
	var events []int64
	for range many {
		task := r.in("protocol", "extracting")
		tasks, events = append(tasks, task), append(events, r.givenUp(task, "record", "X"))
	}
	if n := r.tell(events[:many/2]...); n != many/2 {
		t.Errorf("%d moved", n)
	}
	if n := scalar[int](r, `select count(distinct xmin::text) from postrider.tasker_tasks where state = 'dead_letter'`); n != 1 {
		t.Errorf("%d tasks were moved by %d subtransactions", many/2, n)
	}
	bad := many - 5
	r.exec(`alter table postrider.tasker_task_transitions add constraint broken check (to_state <> 'dead_letter' or task_uuid <> '` + tasks[bad].String() + `')`)
	if n := r.tell(events[many/2:]...); n != many-many/2-1 {
		t.Errorf("%d moved beside a bad one", n)
	}
	r.wantNotes(note{"waiting", "broken"})
	for i, task := range tasks {
		r.wantState(task, map[bool]string{true: "extracting", false: "dead_letter"}[i == bad])
	}
	r.exec(`alter table postrider.tasker_task_transitions drop constraint broken`)
	if got := r.caughtUp(); got != (ledger.CaughtUp{Moved: 1}) {
		t.Errorf("caught up %+v", got)
	}
}

package postgres_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/postrider/postrider/internal/relay"
	relaypg "github.com/postrider/postrider/internal/relay/postgres"
	"github.com/postrider/postrider/internal/tasks/ledger"
	"github.com/postrider/postrider/internal/tasks/ledgertest"
)

// leader is a relay that leads the outbox of a road.
type leader struct {
	*road
	relay.Leadership
}

func (r *road) lead() *leader {
	r.Helper()
	pool, err := relaypg.NewPool(r.Context(), r.db.URL, relaypg.Options{})
	if err != nil {
		r.Fatal(err)
	}
	r.Cleanup(pool.Close)
	l, err := relaypg.NewStore(pool, relaypg.StoreOptions{}).Lead(r.Context(), "tests")
	if err != nil || l == nil {
		r.Fatalf("no leadership: %v", err)
	}
	r.Cleanup(func() { l.End(context.WithoutCancel(r.Context())) })
	return &leader{road: r, Leadership: l}
}

// linked writes an event of a task, and returns its id.
func (r *road) linked(task uuid.UUID) int64 {
	r.Helper()
	return scalar[int64](r, `insert into postrider.outbox_event (topic, key, payload, task_uuid) values ('documents', 'k', '{}', $1) returning id`, task)
}

// receipt reads all that the log has, and makes the receipt in which the events with these ids become exceptions, and the
// others are sent.
func (l *leader) receipt(state relay.State, ids ...int64) *relay.Receipt {
	l.Helper()
	page, err := l.Read(l.Context(), relay.Question{Position: l.Began().Position, Events: 1000, Bytes: 1 << 20})
	if err != nil {
		l.Fatal(err)
	}
	of := map[int64]relay.Event{}
	var read relay.Ranges
	for _, e := range page.Events {
		of[e.ID] = e
		read = read.Union(relay.Ranges{{First: e.ID, Last: e.ID}})
	}
	re := &relay.Receipt{Position: page.Events[len(page.Events)-1].ID, Events: read, Gaps: relay.Ranges{}, Sent: len(page.Events) - len(ids)}
	for _, id := range ids {
		e := of[id]
		re.Exceptions = append(re.Exceptions, relay.Exception{ID: id, EventID: e.EventID, Topic: e.Topic, State: state, Attempts: 3, MaxAttempts: 3,
			Failure: relay.Failure{Class: relay.Record, Code: "X", Error: "the broker refused it"}, TaskUUID: e.TaskUUID})
	}
	return re
}

// watchTransactions notes from now on which transactions write exceptions and tasks.
func (r *road) watchTransactions() {
	r.Helper()
	r.exec(`create table public.written (what text, xid numeric);
		create function public.note_written() returns trigger language plpgsql security definer as $$ begin
			insert into public.written values (coalesce(to_jsonb(new)->>'id', to_jsonb(new)->>'task_uuid'), pg_current_xact_id()::text::numeric);
			return null;
		end $$;
		create trigger written after insert or update on postrider.outbox_exception for each row execute function public.note_written();
		create trigger written after update on postrider.tasker_tasks for each row execute function public.note_written()`)
}

// sameTransaction reports whether one transaction was the last to write the exception of an event and its task.
func (r *road) sameTransaction(id int64, task uuid.UUID) bool {
	r.Helper()
	return scalar[bool](r, `select (select max(xid) from public.written where what = $1::bigint::text) = (select max(xid) from public.written where what = $2::uuid::text)`, id, task)
}

// TestSettlementMovesTasks: the settlement that gives events up moves their tasks in its transaction. If one task cannot
// be moved, all events are given up all the same, and the other tasks are moved.
func TestSettlementMovesTasks(t *testing.T) {
	t.Parallel()
	r := newRoad(t)
	good, ended, taken, fine := r.in("protocol", "extracting"), r.in("protocol", "complete"), r.in("protocol", "grounding"), r.in("protocol", "extracting")
	ids := []int64{r.linked(good), r.linked(ended), r.linked(uuid.New()), r.linked(taken)}
	r.linked(fine) // which is sent
	release := r.hold(lockTask, taken)
	defer release()
	r.watchTransactions()
	l := r.lead()
	if err := l.Settle(t.Context(), []*relay.Receipt{l.receipt(relay.Exhausted, ids...)}); err != nil {
		t.Fatal(err)
	}
	r.wantState(good, "dead_letter")
	if !r.sameTransaction(ids[0], good) {
		t.Error("the task was moved by another transaction than the one that gave its event up")
	}
	if n := scalar[int](r, `select count(*) from postrider.outbox_exception where state = 'exhausted' and id = any($1)`, ids); n != len(ids) {
		t.Errorf("%d of %d events were given up", n, len(ids))
	}
	for task, state := range map[uuid.UUID]string{ended: "complete", taken: "grounding", fine: "extracting"} {
		r.wantState(task, state)
	}
	r.wantNotes(note{"refused", "it was complete"}, note{"refused", "no such task"}, note{"waiting", "another transaction"})
	release()
	if got := r.caughtUp(); got != (ledger.CaughtUp{Moved: 1}) {
		t.Errorf("caught up %+v", got)
	}
	r.wantState(taken, "dead_letter")
	if r.sameTransaction(ids[3], taken) {
		t.Error("what was caught up later was moved by the settlement")
	}
}

// TestSettlementThatIsNotWritten: when the leadership is over, neither the event is given up nor its task moved.
func TestSettlementThatIsNotWritten(t *testing.T) {
	t.Parallel()
	r := newRoad(t)
	task := r.in("protocol", "extracting")
	id := r.linked(task)
	l := r.lead()
	receipt := l.receipt(relay.Exhausted, id)
	l.End(t.Context())
	if err := l.Settle(t.Context(), []*relay.Receipt{receipt}); !errors.Is(err, relay.ErrNotLeading) {
		t.Fatalf("settled: %v", err)
	}
	r.wantState(task, "extracting")
	if n := scalar[int](r, `select count(*) from postrider.outbox_exception`); n != 0 {
		t.Errorf("%d exceptions", n)
	}
}

// TestSkipMovesTheTask: skipping an event that waits moves its task in the same transaction. If the leader has the event
// on its way, the task is moved when the leader carries out the skip.
func TestSkipMovesTheTask(t *testing.T) {
	t.Parallel()
	r := newRoad(t)
	now, later := r.in("protocol", "extracting"), r.in("protocol", "extracting")
	waits, asked := r.linked(now), r.linked(later)
	r.watchTransactions()
	l := r.lead()
	receipt := l.receipt(relay.Scheduled, waits, asked)
	for i := range receipt.Exceptions {
		receipt.Exceptions[i].Attempts, receipt.Exceptions[i].In = 1, time.Hour
	}
	r.exec(`select postrider.outbox_skip($1, 'the page is blank')`, asked)
	r.wantState(later, "extracting")
	if err := l.Settle(t.Context(), []*relay.Receipt{receipt}); err != nil {
		t.Fatal(err)
	}
	r.wantState(later, "extracting")
	if err := l.ResolveSkips(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.exec(`select postrider.outbox_skip($1, 'the page is blank')`, waits)
	for id, task := range map[int64]uuid.UUID{waits: now, asked: later} {
		r.wantState(task, "dead_letter")
		if got := ledgertest.Read(t, r.pool, task).ErrorReason; !strings.Contains(got, "given up by an operator after 1 attempt (SKIPPED)") || !r.sameTransaction(id, task) {
			t.Errorf("event %d: the task's error is %q, or it was moved by another transaction", id, got)
		}
	}
}

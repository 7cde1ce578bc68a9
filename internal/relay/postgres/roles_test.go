package postgres

import (
	"fmt"
	"testing"
	"time"

	"github.com/postrider/postrider/internal/relay"
)

// TestOperatorMayTreatWhatWaits: release, skip, redrive, giving up and looking run with the rights of the operator, with
// everything that they touch; carrying events does not.
func TestOperatorMayTreatWhatWaits(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	operator := f.as("postrider_operator")
	f.insert("a", "a", "a")
	f.halt("a")
	f.buried(1)
	act := func(action, kind, sql string, args ...any) { // which is only committed with what the audit log says of it
		t.Helper()
		tx, err := operator.pool.Begin(t.Context())
		f.done(err)
		_, err = tx.Exec(t.Context(), sql, args...)
		f.done(err)
		_, err = tx.Exec(t.Context(), `insert into postrider.access_audit (action, target_type, target_id) values ($1, $2, $3)`, action, kind, fmt.Sprint(args[0]))
		f.done(err)
		f.done(tx.Commit(t.Context()))
	}
	act("outbox.redrive", "event", redriveEvent, 1)
	act("outbox.skip", "event", skipEvent, 1, "not needed") // releases its hold, too
	act("outbox.skip", "event", skipEvent, 2, "not needed")
	f.insert("b")
	act("outbox.skip", "event", skipEvent, 4, "not needed")
	act("outbox.release", "hold", releaseHold, value[int64](f, `select hold_id from postrider.outbox_hold`))
	h := f.topicHold("t", time.Hour)
	f.change(relay.Receipt{Holds: []relay.HoldChange{h}})
	act("outbox.give_up", "hold", giveUpHold, h.ID)
	f.wantStates("1:exhausted 2:exhausted 3:parked 4:pending")
	if _, err := operator.Status(t.Context()); err != nil {
		t.Errorf("status: %v", err)
	}
	if holds, err := operator.Holds(t.Context(), HoldFilter{}); err != nil || len(holds) != 2 {
		t.Errorf("holds: %v, %v", holds, err)
	}
	if page, err := operator.Events(t.Context(), relay.EventFilter{}); err != nil || len(page.Events) != 4 {
		t.Errorf("events: %+v, %v", page, err)
	}
	f.letGo(f.term)
	if _, err := operator.Lead(t.Context(), "w"); !denied(err) {
		t.Errorf("an operator leads: %v", err)
	}
}

// TestRelayMayDoAllOfIt: the rights of the relay are enough for all that it does.
func TestRelayMayDoAllOfIt(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.store = f.as("postrider_relay")
	f.insert("a", "a", "-", "b", "c", "d")
	halted := f.halt("a")
	f.buried(1)
	f.insert("e", "e", "f")
	if l, err := f.term.Look(t.Context()); err != nil || l.Last != 9 || l.Unknown.Code != "" {
		t.Errorf("a look: %+v, %v", l, err)
	}
	h := f.keyHold("e", 0)
	f.pass(relay.Receipt{Holds: []relay.HoldChange{h}, Exceptions: append(parked(h.ID, 7, 8), relay.Exception{ID: 9, State: relay.Scheduled, In: 1})})
	f.equal("taken", f.take(5, h.ID), 7, 8)
	f.equal("due", f.take(5), 9)
	h.New, h.Draining = false, true
	f.change(relay.Receipt{Holds: []relay.HoldChange{h}, Gone: []int64{7, 9}, Putback: []int64{8}})
	f.done(f.tryRedrive(1))
	f.equal("redriven", f.take(1, halted), 1)
	f.change(relay.Receipt{Exceptions: withEvents(f, exhausted(1))})
	f.done(f.trySkip(2, "not needed"))
	f.insert("g")
	f.done(f.trySkip(10, "not needed"))
	f.pass(relay.Receipt{Skipped: []int64{10}, Exceptions: exhausted(10)})
	f.done(f.term.ResolveSkips(t.Context()))
	if _, err := f.tryRelease(h.ID); err != nil {
		t.Error(err)
	}
	if _, err := f.tryGiveUp(99); err == nil {
		t.Error("gave up a hold that is not there")
	}
	if _, _, err := f.term.DueHolds(t.Context(), 5); err != nil {
		t.Error(err)
	}
	f.buried(2, 10, 1)
	for _, kind := range relay.PurgeKinds() {
		f.purge(kind, 1000)
	}
	f.change(relay.Receipt{Gone: []int64{8}, Ended: []int64{h.ID}})
	if _, err := f.store.Backlog(t.Context(), 10); err != nil {
		t.Error(err)
	}
	if _, err := f.store.CountHolds(t.Context(), 10); err != nil {
		t.Error(err)
	}
	f.term.End(t.Context())
	f.wantStates("1:dead_lettered(5) 2:dead_lettered 10:dead_lettered(5)")
}

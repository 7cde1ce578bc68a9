package postgres

import (
	"testing"
	"time"

	"github.com/postrider/postrider/internal/relay"
)

func TestRedriveIsRefused(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.insert("a", "a", "a", "b", "-", "c", "c")
	h := f.keyHold("c", time.Hour)
	d := f.leader()
	page := f.read(d, nil, 0)
	halt := relay.HoldChange{ID: f.holdID(), New: true, Scope: relay.ScopeKey, Topic: "t", Key: []byte("a"), Cause: relay.CauseHalted,
		EventID: page.Events[0].EventID, ProbeIn: relay.Forever}
	f.pass(relay.Receipt{Holds: []relay.HoldChange{h, halt}, Exceptions: append(append(exhausted(1, 4, 5, 6), parked(halt.ID, 2, 3)...), parked(h.ID, 7)...)})
	f.insert("b")
	f.refused(f.tryRedrive(1), ErrRefused, "event 1", "its dead letter is on its way")
	f.buried(1, 4, 5, 6)
	f.refused(f.tryRedrive(99), ErrNotFound, "event 99")
	f.refused(f.tryRedrive(8), ErrRefused, "it is pending")
	f.refused(f.tryRedrive(2), ErrRefused, "it is parked", "only a dead-lettered one can be redriven")
	f.refused(f.tryRedrive(4), ErrRefused, "it does not halt its key", "as a new event")
	f.refused(f.tryRedrive(5), ErrRefused, "it does not halt its key")

	// An event that was skipped behind the one that halts the key is not that one.
	f.done(f.trySkip(2, "why"))
	f.buried(2)
	f.refused(f.tryRedrive(2), ErrRefused, "its key is halted by event 1", "as a new event")

	// A key that is held for another cause is not halted.
	f.refused(f.tryRedrive(6), ErrRefused, "it does not halt its key")

	f.done(f.tryRedrive(1))
	f.refused(f.tryRedrive(1), ErrRefused, "it is parked")
	f.wantStates("1:parked 2:dead_lettered 3:parked 4:dead_lettered(5) 5:dead_lettered(5) 6:dead_lettered(5) 7:parked 8:pending")
}

// TestRedrivenEventGoesFirst: it is the first behind its hold, and what was edited stays.
func TestRedrivenEventGoesFirst(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.insert("a", "a")
	hold := f.halt("a")
	f.buried(1)
	f.exec(`update postrider.outbox_exception set payload = 'mended' where id = 1`)
	f.done(f.tryRedrive(1))
	if got := f.theHold(); got != "key redrive due" {
		t.Errorf("the hold is %s", got)
	}
	if got := value[string](f, `select concat_ws(' ', attempts, episode, sent_at, closed_at, last_error_code) from postrider.outbox_exception where id = 1`); got != "0 1 X" {
		t.Errorf("the redriven event is %s", got)
	}
	taken, err := f.leader().Take(t.Context(), relay.Taking{Bytes: 1 << 20, Holds: []relay.TakingHold{{ID: hold, Events: 1}}})
	f.done(err)
	if len(taken) != 1 || taken[0].Event.ID != 1 || string(taken[0].Event.Payload) != "mended" || taken[0].Event.Episode != 1 || taken[0].Event.MaxAttempts != 5 {
		t.Errorf("taken is %+v", taken)
	}
	// It fails for good again: another dead letter, with what was edited.
	f.change(relay.Receipt{Exceptions: []relay.Exception{{ID: 1, EventID: taken[0].Event.EventID, Topic: "t", State: "exhausted", Attempts: 5, MaxAttempts: 5,
		Failure: relay.Failure{Class: relay.Record, Code: "Y"}}}})
	letters := f.letters(5)
	if e := letters.Events(); len(e) != 1 || e[0].Episode != 2 || string(e[0].Payload) != "mended" || e[0].LastErrorCode != "Y" || e[0].LastError != "why\uFFFD" {
		t.Errorf("the dead letter is %+v", e)
	}
	letters.Abandon()
}

// TestSkipOfARedrivenEvent: its key waited for it alone and goes on. Skipping another one changes nothing.
func TestSkipOfARedrivenEvent(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.insert("a", "a", "a")
	f.halt("a")
	f.buried(1)
	f.done(f.tryRedrive(1))
	f.done(f.trySkip(2, "why"))
	if got := f.theHold(); got != "key redrive due" {
		t.Errorf("after skipping a later one the hold is %s", got)
	}
	f.done(f.trySkip(1, "why"))
	if got := f.theHold(); got != "key redrive release due" {
		t.Errorf("the hold is %s", got)
	}
	f.wantStates("1:exhausted 2:exhausted 3:parked")
	if got := value[int](f, `select episode from postrider.outbox_exception where id = 1`); got != 2 {
		t.Errorf("it was given up %d times, want 2: another dead letter", got)
	}
}

// TestSkipBehindAHaltedKey: the key stays halted.
func TestSkipBehindAHaltedKey(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.insert("a", "a")
	f.halt("a")
	f.done(f.trySkip(2, "why"))
	if got := f.theHold(); got != "key halted never" {
		t.Errorf("the hold is %s", got)
	}
	f.wantStates("1:exhausted(5) 2:exhausted")
}

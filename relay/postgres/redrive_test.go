package postgres

import (
	"testing"
	"time"

	"github.com/postrider/postrider/relay"
)

func TestRedriveIsRefused(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.insert("a", "a", "a", "b", "-", "c", "c")
	f.halt("a")
	f.refused(f.store.Redrive(t.Context(), 1), ErrRefused, "event 1", "its dead letter is on its way")
	f.buried(1)
	f.refused(f.store.Redrive(t.Context(), 99), ErrNotFound, "event 99")
	f.refused(f.store.Redrive(t.Context(), 2), ErrRefused, "it is parked", "only a dead-lettered one can be put back")
	f.refused(f.store.Redrive(t.Context(), 4), ErrRefused, "it is pending")
	f.exec(`update postrider.outbox_event set state = 'published' where id = 4`)
	f.refused(f.store.Redrive(t.Context(), 4), ErrRefused, "it is published")
	f.exec(`update postrider.outbox_event set state = 'dead_lettered' where id in (4, 5)`)
	f.refused(f.store.Redrive(t.Context(), 4), ErrRefused, "it does not halt its key", "as a new event")
	f.refused(f.store.Redrive(t.Context(), 5), ErrRefused, "it does not halt its key")

	// An event that was skipped behind the one that halts the key is not that one.
	f.done(f.store.Skip(t.Context(), 2, "why"))
	f.buried(2)
	f.refused(f.store.Redrive(t.Context(), 2), ErrRefused, "its key is halted by event 1", "as a new event")

	// A key that is held for another cause is not halted.
	c := f.claim()
	h := keyHold("c", time.Hour)
	s := &relay.Settlement{Holds: []relay.HoldChange{h}}
	for _, e := range c.Batch().Events {
		s.Parked = append(s.Parked, relay.Park{ID: e.ID, Shard: e.Shard})
	}
	f.settle(c, s)
	f.exec(`update postrider.outbox_event set state = 'dead_lettered', hold_id = null where id = 6`)
	f.refused(f.store.Redrive(t.Context(), 6), ErrRefused, "it does not halt its key")

	f.done(f.store.Redrive(t.Context(), 1))
	f.refused(f.store.Redrive(t.Context(), 1), ErrRefused, "it is pending")
	f.wantStates("1:pending 2:dead_lettered 3:parked 4:dead_lettered 5:dead_lettered 6:dead_lettered 7:parked")
}

// TestRedrivenEventGoesFirst: nothing of its key passes before it is acknowledged, also what comes in
// meanwhile, and it is found below the low-water mark.
func TestRedrivenEventGoesFirst(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.insert("a", "a")
	f.halt("a")
	f.buried(1)
	f.exec(`update postrider.outbox_shard set low_water = 2`)
	f.done(f.store.Redrive(t.Context(), 1))
	f.insert("a")
	if got := f.theHold(); got != "key redrive never" {
		t.Errorf("the hold is %s", got)
	}
	if got := f.turn(1000); got != (relay.Returned{}) {
		t.Errorf("others come back before it went: %+v", got)
	}
	if got := value[string](f, `select concat_ws(' ', attempts, episode, sent_at, last_error) from postrider.outbox_event where id = 1`); got != "0 1 why" {
		t.Errorf("the redriven event is %s", got)
	}
	f.delivers([]int64{1}, 1)
	f.wantStates("1:published 2:parked 3:parked")
	f.turn(1000)
	f.delivers(nil, 2, 3)
}

// TestSkipOfARedrivenEvent: its key waited for it alone and goes on. Skipping another one changes nothing.
func TestSkipOfARedrivenEvent(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.insert("a", "a", "a")
	f.halt("a")
	f.buried(1)
	f.done(f.store.Redrive(t.Context(), 1))
	f.done(f.store.Skip(t.Context(), 2, "why"))
	if got := f.theHold(); got != "key redrive never" {
		t.Errorf("after skipping a later one the hold is %s", got)
	}
	f.done(f.store.Skip(t.Context(), 1, "why"))
	if got := f.theHold(); got != "key redrive draining due" {
		t.Errorf("the hold is %s", got)
	}
	f.turn(1000)
	f.delivers(nil, 3)
	f.wantStates("1:exhausted 2:exhausted 3:published")
	if got := value[int](f, `select episode from postrider.outbox_event where id = 1`); got != 2 {
		t.Errorf("it was given up %d times, want 2: another dead letter", got)
	}
}

// TestSkipBehindAHaltedKey: the key stays halted.
func TestSkipBehindAHaltedKey(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.insert("a", "a")
	f.halt("a")
	f.done(f.store.Skip(t.Context(), 2, "why"))
	if got := f.theHold(); got != "key halted never" {
		t.Errorf("the hold is %s", got)
	}
	f.turn(1000)
	f.wantStates("1:exhausted(5) 2:exhausted")
}

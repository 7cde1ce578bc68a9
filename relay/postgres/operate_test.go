package postgres

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/postrider/postrider/relay"
	"github.com/postrider/postrider/relay/outbox"
)

// refused checks that an error says no, and why.
func (f *fixture) refused(err error, kind error, parts ...string) {
	f.Helper()
	if !errors.Is(err, kind) {
		f.Errorf("the error is %v, want one that is %v", err, kind)
		return
	}
	for _, part := range parts {
		if !strings.Contains(err.Error(), part) {
			f.Errorf("%q is not in %q", part, err)
		}
	}
}

func (f *fixture) done(err error) {
	f.Helper()
	if err != nil {
		f.Fatal(err)
	}
}

// halt gives up the first event of what is pending, as the last attempt of a key that halts.
func (f *fixture) halt(key string) {
	f.Helper()
	c := f.claim()
	var s relay.Settlement
	for _, e := range c.Batch().Events {
		switch {
		case string(e.Key) != key:
		case s.Exhausted == nil:
			s.Exhausted = []relay.Failure{*failure(e.ID, 5)}
			s.Holds = []relay.HoldChange{{Scope: relay.ScopeKey, Topic: "t", Key: e.Key, Cause: relay.CauseHalted, Code: "X", Error: "why",
				EventID: e.EventID, ProbeIn: relay.Forever, Anchor: true, Shard: e.Shard}}
		default:
			s.Parked = append(s.Parked, relay.Park{ID: e.ID, Shard: e.Shard})
		}
	}
	f.settle(c, &s)
}

// buried settles the letters of what is exhausted.
func (f *fixture) buried(ids ...int64) {
	f.Helper()
	f.done(f.letters(32).Settle(f.Context(), sent(nil, ids...)))
}

// theHold describes the only hold.
func (f *fixture) theHold() string {
	f.Helper()
	return value[string](f, `select concat_ws(' ', scope, cause, case when draining then 'draining' end,
		case when next_probe_at = 'infinity' then 'never' when next_probe_at <= clock_timestamp() then 'due' else 'later' end)
		from postrider.outbox_hold`)
}

func TestReleaseOfEveryCause(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	if _, err := f.store.Release(t.Context(), 7); !errors.Is(err, ErrNotFound) || !strings.Contains(err.Error(), "hold 7") {
		t.Errorf("a hold that is not there: %v", err)
	}
	for cause, want := range map[relay.Cause]string{
		relay.CauseRetry: "due", relay.CauseInfrastructure: "due", relay.CauseRoute: "due",
		relay.CauseHalted: "draining due", relay.CauseRedrive: "draining due", relay.CauseStorm: "draining due",
	} {
		f.exec(`delete from postrider.outbox_hold`)
		id := value[int64](f, `insert into postrider.outbox_hold (scope, topic, key, cause, next_probe_at) values ('key', 't', '\x00ff', $1, 'infinity') returning hold_id`, cause)
		got, err := f.store.Release(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		if now, all := f.theHold(), strings.HasPrefix(want, "draining"); now != fmt.Sprintf("key %s %s", cause, want) || got.Draining != all ||
			got.Cause != cause || got.Scope != relay.ScopeKey || got.Topic != "t" || got.Key != "\uFFFD\uFFFD" {
			t.Errorf("%s: the hold is now %q, Release says %+v", cause, now, got)
		}
	}
	// What drains already goes on draining.
	id := value[int64](f, `insert into postrider.outbox_hold (scope, topic, cause, next_probe_at, draining) values ('topic', 't', 'route', now(), true) returning hold_id`)
	if got, err := f.store.Release(t.Context(), id); err != nil || !got.Draining {
		t.Errorf("a draining hold: %+v, %v", got, err)
	}
}

// TestReleaseOfAHaltedKey: all that waited comes back, in order; what halted it stays where it is.
func TestReleaseOfAHaltedKey(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.insert("a", "a", "a", "b")
	f.halt("a")
	f.buried(1)
	if got := f.turn(1000); got != (relay.Returned{}) {
		t.Errorf("a halted key comes back by itself: %+v", got)
	}
	f.insert("a")
	f.delivers(nil, 4)
	f.wantStates("1:dead_lettered(5) 2:parked 3:parked 4:published 5:parked")
	if _, err := f.store.Release(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	f.refused(f.store.Redrive(t.Context(), 1), ErrRefused, "event 1", "later events of the key may have gone")
	f.turn(2)
	f.wantStates("1:dead_lettered(5) 2:pending 3:pending 4:published 5:parked")
	f.delivers(nil, 2, 3)
	f.turn(1000)
	f.delivers(nil, 5)
	if f.holds() != 0 {
		t.Error("the hold is still there")
	}
}

// TestReleaseOfAHaltedKeyThatNothingWaitsBehind ends it.
func TestReleaseOfAHaltedKeyThatNothingWaitsBehind(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.insert("a")
	f.halt("a")
	if _, err := f.store.Release(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	if got := f.turn(1000); got != (relay.Returned{Holds: 1}) {
		t.Errorf("%+v, want the end of the hold", got)
	}
}

// TestHoldsAreSeenBeforeAnythingIsParked: a halted key is known to the claims of its shard from the
// transaction on that gave its event up, when there was no later one yet.
func TestHoldsAreSeenBeforeAnythingIsParked(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.insert("a")
	f.halt("a")
	f.insert("a", "b")
	f.delivers(nil, 3)
	f.wantStates("1:exhausted(5) 2:parked 3:published")
}

func TestSkip(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.insert("a", "b", "-", "c", "d", "e")
	f.exec(`insert into postrider.outbox_hold (scope, topic, cause, next_probe_at) values ('topic', 't', 'route', 'infinity')`)
	f.exec(`update postrider.outbox_event set state = 'parked', hold_id = 1, attempts = 2, first_error_at = '2026-01-02' where id = 2`)
	f.exec(`update postrider.outbox_event set state = 'scheduled', next_attempt_at = now() + interval '1 day' where id = 3`)
	f.exec(`update postrider.outbox_event set state = 'exhausted' where id = 4`)
	f.exec(`update postrider.outbox_event set state = 'dead_lettered' where id = 5`)
	f.exec(`update postrider.outbox_event set state = 'published' where id = 6`)
	for id := range int64(3) {
		f.done(f.store.Skip(t.Context(), id+1, "no longer needed\x00"))
	}
	for id, state := range map[int64]string{4: "exhausted", 5: "dead_lettered", 6: "published"} {
		f.refused(f.store.Skip(t.Context(), id, "why"), ErrRefused, fmt.Sprintf("event %d", id), state, "only one that waits can be skipped")
	}
	f.refused(f.store.Skip(t.Context(), 99, "why"), ErrNotFound, "event 99")
	f.wantStates("1:exhausted 2:exhausted(2) 3:exhausted 4:exhausted 5:dead_lettered 6:published")
	for id := range 3 {
		got := value[string](f, `select concat_ws(' ', last_error_class, last_error_code, last_error, episode, hold_id, next_attempt_at,
			first_error_at = '2026-01-02', last_error_at > now() - interval '1 minute', updated_at is not null) from postrider.outbox_event where id = $1`, id+1)
		if want := fmt.Sprintf("permanent "+outbox.CodeSkipped+" skipped by hand: no longer needed\uFFFD 1 %s t t", map[bool]string{true: "t", false: "f"}[id == 1]); got != want {
			t.Errorf("event %d: %s, want %s", id+1, got, want)
		}
	}
	// Their letters can be sent, and nothing of them comes back.
	letters := f.letters(32)
	if got := letterIDs(letters); len(got) != 4 {
		t.Errorf("letters of %v", got)
	}
	letters.Abandon()
	f.turn(1000)
	f.nothing()
}

// TestOperatorsWaitForTheShard: what a relay has in work cannot be treated by hand.
func TestOperatorsWaitForTheShard(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.insert("a", "a")
	f.halt("a")
	f.buried(1)
	f.insert("a")
	c := f.claim()
	for _, err := range []error{f.store.Skip(t.Context(), 2, "why"), f.store.Redrive(t.Context(), 1)} {
		f.refused(err, ErrRefused, "its shard is in work, try again")
	}
	c.Abandon()
	f.done(f.store.Redrive(t.Context(), 1))
	f.wantStates("1:pending 2:parked 3:pending")
}

// TestSkipOfTheHeadOfARetry: the next one of the key need not wait for its time; skipping another one
// changes nothing about it.
func TestSkipOfTheHeadOfARetry(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.insert("a", "a", "a")
	c := f.claim()
	h := keyHold("a", time.Hour)
	h.EventID = eventID(f, 1)
	f.settle(c, parkAll(c, h))
	f.done(f.store.Skip(t.Context(), 2, "why"))
	if got := f.theHold(); got != "key retry later" {
		t.Errorf("after skipping a later one: %s", got)
	}
	if got := f.turn(1000); got != (relay.Returned{}) {
		t.Errorf("the retry was hurried: %+v", got)
	}
	f.done(f.store.Skip(t.Context(), 1, "why"))
	if got := f.turn(1000); got != (relay.Returned{Events: 1}) {
		t.Errorf("%+v, want the next one as a probe", got)
	}
	f.delivers([]int64{1}, 3)
	f.turn(1000)
	f.wantStates("1:exhausted 2:exhausted 3:published")
	if f.holds() != 0 {
		t.Error("the hold is still there")
	}
}

func eventID(f *fixture, id int64) uuid.UUID {
	f.Helper()
	return value[uuid.UUID](f, `select event_id from postrider.outbox_event where id = $1`, id)
}

// TestSkipOfTheLastOfARetry: nothing is left to wait for.
func TestSkipOfTheLastOfARetry(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.insert("a")
	c := f.claim()
	h := keyHold("a", time.Hour)
	h.EventID = eventID(f, 1)
	f.settle(c, parkAll(c, h))
	f.done(f.store.Skip(t.Context(), 1, "why"))
	if got := f.turn(1000); got != (relay.Returned{Holds: 1}) {
		t.Errorf("%+v, want the end of the hold", got)
	}
}

// TestSkipOfAProbeOnItsWay: it was let through and is pending.
func TestSkipOfAProbeOnItsWay(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.insert("a", "a")
	c := f.claim()
	h := keyHold("a", 0)
	h.EventID = eventID(f, 1)
	f.settle(c, parkAll(c, h))
	f.turn(1000)
	f.wantStates("1:pending 2:parked")
	f.done(f.store.Skip(t.Context(), 1, "why"))
	f.turn(1000)
	f.delivers([]int64{1}, 2)
	f.wantStates("1:exhausted 2:published")
}

package postgres

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/postrider/postrider/internal/relay"
	"github.com/postrider/postrider/message"
)

func TestReleaseOfEveryCause(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	if _, err := f.tryRelease(7); !errors.Is(err, ErrNotFound) || !strings.Contains(err.Error(), "hold 7") {
		t.Errorf("a hold that is not there: %v", err)
	}
	for cause, want := range map[relay.Cause]string{
		relay.CauseRetry: "due", relay.CauseInfrastructure: "due", relay.CauseRoute: "due",
		relay.CauseHalted: "release due", relay.CauseRedrive: "release due", relay.CauseBreaker: "release due",
	} {
		f.exec(`delete from postrider.outbox_hold`)
		id := value[int64](f, `insert into postrider.outbox_hold (scope, topic, key, cause, next_probe_at) values ('key', 't', '\x00ff', $1, 'infinity') returning hold_id`, cause)
		got, err := f.tryRelease(id)
		if err != nil {
			t.Fatal(err)
		}
		if now, all := f.theHold(), strings.HasPrefix(want, "release"); now != fmt.Sprintf("key %s %s", cause, want) || got.Draining != all ||
			got.Cause != cause || got.Scope != relay.ScopeKey || got.Topic != "t" || got.Key != "\uFFFD\uFFFD" {
			t.Errorf("%s: the hold is now %q, Release says %+v", cause, now, got)
		}
	}
	// What drains already goes on draining.
	id := value[int64](f, `insert into postrider.outbox_hold (scope, topic, cause, next_probe_at, draining) values ('topic', 't', 'route', now(), true) returning hold_id`)
	if got, err := f.tryRelease(id); err != nil || !got.Draining {
		t.Errorf("a draining hold: %+v, %v", got, err)
	}
}

// TestReleaseOfAHaltedKey: the leader is told of it with the next look at holds that are due.
func TestReleaseOfAHaltedKey(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.insert("a", "a", "a", "b")
	hold := f.halt("a")
	f.buried(1)
	asked := func() string {
		t.Helper()
		due, _, err := f.leader().DueHolds(t.Context(), 10)
		f.done(err)
		return fmt.Sprint(due)
	}
	if got := asked(); got != "[]" {
		t.Errorf("a halted key comes back by itself: %s", got)
	}
	f.wantStates("1:dead_lettered(5) 2:parked 3:parked 4:published")
	if _, err := f.tryRelease(hold); err != nil {
		t.Fatal(err)
	}
	f.refused(f.tryRedrive(1), ErrRefused, "event 1", "later events of the key may have gone")
	if got, want := asked(), fmt.Sprintf("[{%d true release}]", hold); got != want {
		t.Errorf("due are %s, want %s", got, want)
	}
	h := relay.HoldChange{ID: hold, Scope: relay.ScopeKey, Topic: "t", Key: []byte("a"), Cause: relay.CauseHalted, Draining: true, Answered: true}
	f.change(relay.Receipt{Holds: []relay.HoldChange{h}})
	if got := f.theHold(); got != "key halted draining due" {
		t.Errorf("answered, the hold is %s", got)
	}
}

// TestReleaseKeys: by the events that halt them, in the caller's transaction.
func TestReleaseKeys(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.insert("a", "b", "b")
	f.halt("a") // passes all of them
	f.insert("b", "b")
	other := f.halt("b")
	f.insert("b")
	f.pass(relay.Receipt{Exceptions: exhausted(6)})
	tx, err := f.pool.Begin(t.Context())
	f.done(err)
	halting, behind, err := f.store.Halting(t.Context(), tx, []int64{1, 2, 4, 6, 99})
	f.done(err)
	f.equal("halting", halting, 1, 4)
	f.equal("behind another", behind, 6)
	f.done(f.store.ReleaseKeys(t.Context(), tx, []int64{4, 2, 99}))
	halting, _, err = f.store.Halting(t.Context(), tx, []int64{1, 4})
	f.done(err)
	f.equal("halting after a release", halting, 1)
	f.done(tx.Commit(t.Context()))
	if got := value[string](f, `select asked from postrider.outbox_hold where hold_id = $1`, other); got != "release" {
		t.Errorf("asked of the hold: %s", got)
	}
}

func TestSkip(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.insert("b", "-", "c", "d", "e")
	h := f.topicHold("t", relay.Forever)
	xs := parked(h.ID, 1)
	xs[0].Attempts, xs[0].MaxAttempts, xs[0].Failure = 2, 5, relay.Failure{Class: relay.Record, Code: "X"}
	f.pass(relay.Receipt{Holds: []relay.HoldChange{h}, Exceptions: append(append(xs, exhausted(3, 4)...),
		relay.Exception{ID: 2, State: relay.Scheduled, In: time.Hour})})
	f.exec(`update postrider.outbox_exception set first_error_at = '2026-01-02' where id = 1`)
	f.done(f.letters(32).Settle(t.Context(), sent(nil, 4)))
	f.insert("a") // 6, which the log has before it
	for _, id := range []int64{1, 2, 6} {
		f.done(f.trySkip(id, "no longer needed\x00"))
	}
	for id, state := range map[int64]string{3: "exhausted", 4: "dead_lettered", 5: "published"} {
		f.refused(f.trySkip(id, "why"), ErrRefused, fmt.Sprintf("event %d", id), state, "only one that waits can be skipped")
	}
	f.refused(f.trySkip(99, "why"), ErrNotFound, "event 99")
	if err := f.trySkip(1, ""); err == nil || !strings.Contains(err.Error(), "reason is empty") {
		t.Errorf("without a reason: %v", err)
	}
	f.wantStates("1:exhausted(2) 2:exhausted 3:exhausted(5) 4:dead_lettered(5) 5:published 6:pending")
	for id := range int64(2) {
		got := value[string](f, `select concat_ws(' ', last_error_class, last_error_code, last_error, episode, hold_id, next_attempt_at, copied, convert_from(payload, 'UTF8'),
			first_error_at = '2026-01-02', last_error_at > now() - interval '1 minute') from postrider.outbox_exception where id = $1`, id+1)
		if want := fmt.Sprintf("permanent "+message.CodeSkipped+" skipped by hand: no longer needed\uFFFD 1 t p %s t", map[bool]string{true: "t", false: "f"}[id == 0]); got != want {
			t.Errorf("event %d: %s, want %s", id+1, got, want)
		}
	}
	// Their letters can be sent, and nothing of them comes back.
	letters := f.letters(32)
	if got := letterIDs(letters); len(got) != 3 {
		t.Errorf("letters of %v", got)
	}
	letters.Abandon()
	f.equal("behind the hold", f.take(10, h.ID))
	f.equal("due", f.take(10))
	// The one before the log is seen by the read that meets it.
	if page := f.read(f.leader(), nil, 5); page.Skips[6] != "no longer needed\uFFFD" {
		t.Errorf("the read says that %v are to be skipped", page.Skips)
	}
}

// TestSkipOfTheHeadOfARetry: the next one of the key need not wait for its time; skipping another one
// changes nothing about it.
func TestSkipOfTheHeadOfARetry(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.insert("a", "a", "a")
	h := f.keyHold("a", time.Hour)
	h.EventID = eventID(f, 1)
	f.pass(relay.Receipt{Holds: []relay.HoldChange{h}, Exceptions: parked(h.ID, 1, 2, 3)})
	f.done(f.trySkip(2, "why"))
	if got := f.theHold(); got != "key retry later" {
		t.Errorf("after skipping a later one: %s", got)
	}
	f.done(f.trySkip(1, "why"))
	if got := f.theHold(); got != "key retry due" {
		t.Errorf("after skipping the head: %s", got)
	}
	f.equal("the next one as a probe", f.take(1, h.ID), 3)
}

// TestGiveUp: circuit breakers and whole topics are given up, nothing else is; the leader is told.
func TestGiveUp(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.insert("a", "a", "b")
	key, topic := f.keyHold("a", time.Hour), f.topicHold("t", time.Hour)
	breaker := relay.HoldChange{ID: f.holdID(), New: true, Scope: relay.ScopeFailure, Topic: "t", FailureCode: "BAD", Cause: relay.CauseBreaker, ProbeIn: time.Hour}
	f.pass(relay.Receipt{Holds: []relay.HoldChange{key, topic, breaker}, Exceptions: append(parked(topic.ID, 1, 2), parked(breaker.ID, 3)...)})
	if _, err := f.tryGiveUp(99); !errors.Is(err, ErrNotFound) {
		t.Errorf("a hold that is not there: %v", err)
	}
	_, err := f.tryGiveUp(key.ID)
	f.refused(err, ErrRefused, "it holds a key", "only circuit breakers and whole topics")
	for hold, want := range map[int64]GaveUp{topic.ID: {relay.ScopeTopic, "t", relay.CauseInfrastructure, 2}, breaker.ID: {relay.ScopeFailure, "t", relay.CauseBreaker, 1}} {
		if got, err := f.tryGiveUp(hold); err != nil || got != want {
			t.Errorf("gave up %+v, %v, want %+v", got, err, want)
		}
	}
	due, _, err := f.leader().DueHolds(t.Context(), 10)
	if err != nil || len(due) != 2 || due[0].Asked != relay.AskedGiveUp || due[1].Asked != relay.AskedGiveUp {
		t.Errorf("due are %+v, %v", due, err)
	}
}

// TestSkipOfAnEventThatIsJustRecorded: when the relay writes down that an event did not go while outbox_skip looks for it,
// the exception is given up, and no refusal says that it is scheduled.
func TestSkipOfAnEventThatIsJustRecorded(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.insert("a")
	for n := 1; ; n++ {
		// The first look reads the exceptions alone, and the second one the log as well.
		tx, err := f.store.pool.Begin(t.Context())
		f.done(err)
		_, err = tx.Exec(t.Context(), `lock table postrider.outbox_event in access exclusive mode`)
		f.done(err)
		skipped := make(chan error, 1)
		go func() { skipped <- f.trySkip(1, "ticket") }()
		f.waitFor(`select exists (select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock')`)
		_, err = tx.Exec(t.Context(), `insert into postrider.outbox_exception (id, event_id, topic, state, next_attempt_at)
			values (1, gen_random_uuid(), 't', 'scheduled', now() + interval '1 hour')`)
		f.done(err)
		f.done(tx.Commit(t.Context()))
		err = <-skipped
		if err == nil {
			break
		}
		if n == 20 || !strings.Contains(err.Error(), "try again") { // the function waits for a lock for a second at most
			t.Fatal(err)
		}
		f.exec(`delete from postrider.outbox_exception`)
	}
	if state := value[string](f, `select state || ': ' || last_error from postrider.outbox_exception`); state != "exhausted: skipped by hand: ticket" {
		t.Errorf("the event is %s", state)
	}
	if n := value[int](f, `select count(*) from postrider.outbox_skip_request`); n != 0 {
		t.Errorf("%d requests wait for the leader", n)
	}
}

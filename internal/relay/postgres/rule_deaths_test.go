package postgres

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/postrider/postrider/internal/relay"
)

// deaths begins a term, and says how many before it died over the same events.
func (f *fixture) deaths(worker string) (*leadership, int) {
	f.Helper()
	d := f.leadBy(f.store, worker)
	return d, d.Began().Deaths
}

// TestRule13DeathsAreTerms: a death is a term that ended without handing over and got no further. If the process goes
// on, or the term got far, it is no death; a term that handed over ends the count.
func TestRule13DeathsAreTerms(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.exec(`select setval('postrider.outbox_event_id_seq', 1000000)`)
	for n := range 3 {
		if d, deaths := f.deaths(fmt.Sprintf("idle:%d:x", n)); deaths != 0 {
			t.Errorf("%d deaths over nothing", deaths)
		} else {
			f.letGo(d)
		}
	}
	f.insert("waits")
	want := func(worker string, deaths int) *leadership {
		t.Helper()
		d, n := f.deaths(worker)
		if n != deaths {
			t.Errorf("%s counts %d deaths, want %d", worker, n, deaths)
		}
		return d
	}
	for n := range 4 {
		f.letGo(want(fmt.Sprintf("host:%d:x", n), n))
	}
	f.letGo(want("host:3:x", 3))         // the same process lost its session only
	want("host:4:x", 4).End(t.Context()) // handed over
	f.letGo(want("host:5:x", 0))
	d := want("host:6:x", 1)
	f.settle(d, &relay.Receipt{Position: deathProgress, Events: relay.Ranges{{First: 1, Last: deathProgress}}})
	f.letGo(d)
	f.letGo(want("host:7:x", 0)) // it got far
	f.letGo(want("host:8:x", 1))
}

// TestRule13AttemptsAreReceipts: receipts tell how often an event was tried alone, until the position has passed it.
func TestRule13AttemptsAreReceipts(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.insert("a", "b")
	for n := range 3 {
		d, _ := f.deaths(fmt.Sprintf("host:%d:x", n))
		if b := d.Began(); b.Tried != n || n > 0 && b.Trying != 1 {
			t.Errorf("%d was tried %d times, want %d", b.Trying, b.Tried, n)
		}
		f.settle(d, &relay.Receipt{Trying: 1})
		f.letGo(d)
	}
	d, _ := f.deaths("host:9:x")
	f.settle(d, &relay.Receipt{Position: 1, Events: relay.Ranges{{First: 1, Last: 1}}})
	f.settle(d, &relay.Receipt{Trying: 2})
	f.letGo(d)
	if d, _ := f.deaths("host:10:x"); d.Began().Trying != 2 || d.Began().Tried != 1 {
		t.Errorf("%+v", d.Began())
	}
}

// TestRule9Exceptions: which values an exception keeps when it changes, and which are written for each kind.
func TestRule9Exceptions(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.exec(`insert into postrider.outbox_event (topic, key, payload, headers, max_attempts, available_at) values
		('t', 'k', 'one', '{"h": "v"}', 7, null), ('t', null, null, '{}', null, now() + interval '1 hour')`)
	d := f.leader()
	page := f.read(d, nil, 0)
	if e := page.Events; e[0].MaxAttempts != 7 || e[0].Delayed || !e[1].Delayed || e[1].Payload != nil || e[1].Key != nil || string(e[0].Headers) != `{"h": "v"}` {
		t.Errorf("read %+v", e)
	}
	h := f.keyHold("k", time.Hour)
	x := parked(h.ID, 1)
	x[0].Attempts, x[0].MaxAttempts, x[0].Failure = 1, 7, relay.Failure{Class: relay.Record, Code: "X", Error: "why"}
	f.pass(relay.Receipt{Holds: []relay.HoldChange{h}, Exceptions: append(x, relay.Exception{ID: 2, State: relay.Scheduled})})
	is := func(id int64, want string) {
		t.Helper()
		if got := value[string](f, `select concat_ws(' ', state, attempts, max_attempts, episode, last_error_class, last_error_code, copied, convert_from(payload, 'UTF8'),
			next_attempt_at > now() + interval '59 minutes') from postrider.outbox_exception where id = $1`, id); got != want {
			t.Errorf("event %d is %s, want %s", id, got, want)
		}
	}
	is(1, "parked 1 7 0 record X f")
	is(2, "scheduled 0 0 f t")
	// People see when the next attempt is, also of an event that waits behind its key.
	if got := value[string](f, `select string_agg(concat_ws(' ', id, status, max_attempts, next_attempt_at > now() + interval '59 minutes', payload_bytes), ', ' order by id) from postrider.v_outbox_event`); got != "1 failed 7 t 3, 2 pending 5 t" {
		t.Errorf("people see %s", got)
	}
	f.equal("taken", f.take(5, h.ID), 1)
	again := relay.Exception{ID: 1, EventID: page.Events[0].EventID, Topic: "t", State: relay.Exhausted, Attempts: 7, MaxAttempts: 7,
		Failure: relay.Failure{Class: relay.Permanent, Code: "Y", Error: "for good"}}
	f.change(relay.Receipt{Exceptions: []relay.Exception{again}})
	is(1, "exhausted 7 7 1 permanent Y t one")
	// An operator edits the event; a later receipt of the relay keeps the edit.
	f.exec(`update postrider.outbox_exception set payload = 'edited', headers = '{"h": "w"}' where id = 1`)
	f.change(relay.Receipt{Exceptions: []relay.Exception{again}})
	is(1, "exhausted 7 7 2 permanent Y t edited")
	b, err := f.store.EventBytes(t.Context(), 1)
	if f.done(err); string(b.Payload) != "edited" || string(b.Headers) != `{"h": "w"}` || string(b.Key) != "k" {
		t.Errorf("it carries %+v", b)
	}
	// Gone and put back.
	f.exec(`update postrider.outbox_exception set next_attempt_at = now() where id = 2`)
	f.equal("due", f.take(5), 2)
	f.change(relay.Receipt{Putback: []int64{2}})
	f.equal("put back", f.take(5), 2)
	f.change(relay.Receipt{Gone: []int64{2}})
	f.wantStates("1:exhausted(7) 2:published")
	if !value[bool](f, `select v.sent_at = r.at from postrider.v_outbox_event v, postrider.outbox_receipt r where v.id = 2 and r.returned @> 2::bigint`) {
		t.Error("it went when it was read, and not when it came back")
	}
}

// TestRule9HoldsHaveOneSubject: a second hold of a subject is refused. A hold that is changed keeps what an operator asked
// for, unless that is answered.
func TestRule9HoldsHaveOneSubject(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	h := f.keyHold("k", time.Hour)
	f.change(relay.Receipt{Holds: []relay.HoldChange{h}})
	since := value[time.Time](f, `select held_at from postrider.outbox_hold`)
	other := h
	other.ID = f.holdID()
	err := f.term.Settle(t.Context(), []*relay.Receipt{{Holds: []relay.HoldChange{other}}})
	f.violates(err, "23505", "outbox_hold_subject")
	f.term = f.leadAgain()
	h.New, h.Probes, h.ProbeIn = false, 3, relay.Forever
	f.exec(`update postrider.outbox_hold set asked = 'release'`)
	f.change(relay.Receipt{Holds: []relay.HoldChange{h}})
	got := func() string {
		return value[string](f, `select concat_ws(' ', cause, probes, next_probe_at, asked, held_at = $1) from postrider.outbox_hold`, since)
	}
	if s := got(); s != "retry 3 infinity release t" {
		t.Errorf("the hold is %s", s)
	}
	h.Cause, h.Answered = relay.CauseHalted, true
	f.change(relay.Receipt{Holds: []relay.HoldChange{h}})
	if s := got(); s != "halted 3 infinity f" {
		t.Errorf("the hold is %s", s)
	}
	// The next term knows all of it.
	h2 := relay.HoldChange{ID: f.holdID(), New: true, Scope: relay.ScopePartition, Topic: "t", Partition: 2, Partitions: 3, Cause: relay.CauseInfrastructure, EventID: uuid.New()}
	h3 := relay.HoldChange{ID: f.holdID(), New: true, Scope: relay.ScopeFailure, Topic: "t", FailureCode: "BAD", Cause: relay.CauseBreaker, Draining: true}
	f.change(relay.Receipt{Holds: []relay.HoldChange{h2, h3}})
	f.term = f.leadAgain()
	var all []string
	for _, h := range f.term.Began().Holds {
		all = append(all, fmt.Sprint(h.Scope, h.Topic, string(h.Key), h.Partition, h.Partitions, h.Code, h.Cause, h.Probes, h.Draining))
	}
	slices.Sort(all)
	if s := strings.Join(all, ", "); s != "failuret0 0BADcircuit_breaker0 true, keytk0 0halted3 false, partitiont2 3infrastructure0 false" {
		t.Errorf("the next term knows %s", s)
	}
}

// leadAgain ends the term of the helpers, and begins another.
func (f *fixture) leadAgain() *leadership {
	f.Helper()
	f.letGo(f.term)
	return f.lead()
}

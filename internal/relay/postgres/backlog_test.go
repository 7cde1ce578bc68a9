package postgres

import (
	"fmt"
	"testing"
	"time"

	"github.com/postrider/postrider/internal/relay"
)

func (f *fixture) backlog(limit int) relay.Backlog {
	f.Helper()
	b, err := f.store.Backlog(f.Context(), limit)
	if err != nil {
		f.Fatal(err)
	}
	return b
}

// kept writes events that are so old, and makes exceptions of them; of topic t and without a key.
func (f *fixture) kept(age time.Duration, states ...relay.State) {
	f.Helper()
	var r relay.Receipt
	for _, state := range states {
		id := value[int64](f, `insert into postrider.outbox_event (topic, created_at) values ('t', now() - $1::bigint * interval '1 microsecond') returning id`, age.Microseconds())
		switch state {
		case relay.Parked:
			h := f.topicHold(fmt.Sprint("held", id), relay.Forever)
			r.Holds = append(r.Holds, h)
			r.Exceptions = append(r.Exceptions, parked(h.ID, id)...)
		case relay.Scheduled:
			r.Exceptions = append(r.Exceptions, relay.Exception{ID: id, State: relay.Scheduled, In: 1})
		case relay.Exhausted:
			r.Exceptions = append(r.Exceptions, exhausted(id)...)
		}
	}
	f.pass(r)
	f.exec(`update postrider.outbox_exception set next_attempt_at = now() - $1::bigint * interval '1 microsecond'
		where state = 'scheduled' and noted_at = (select max(noted_at) from postrider.outbox_exception)`, age.Microseconds())
}

func TestBacklog(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	if b := f.backlog(1000); b != (relay.Backlog{}) {
		t.Errorf("an empty outbox has the backlog %+v", b)
	}
	f.kept(2*time.Hour, relay.Exhausted, relay.Exhausted, relay.Published)
	f.kept(time.Hour, relay.Scheduled)
	f.insert("a", "b", "-", "a")
	f.exec(`insert into postrider.outbox_event (topic, available_at) values ('t', now() + interval '1 hour')`)
	b := f.backlog(1000)
	if b.Pending != 5 || b.Due != 4 || b.Parked != 0 || b.Scheduled != 1 || b.Exhausted != 2 || b.OldestDue < 2*time.Hour || b.OldestDue > 2*time.Hour+10*time.Minute {
		t.Errorf("the backlog is %+v", b)
	}
	for i := range 3 {
		if b = f.backlog(i + 1); b.Pending != int64(i+1) {
			t.Errorf("with a limit of %d the backlog is %+v", i+1, b)
		}
	}
}

// The oldest is found whatever state it is in.
func TestOldestDue(t *testing.T) {
	t.Parallel()
	for _, state := range []relay.State{"pending", "gap", relay.Parked, relay.Scheduled, relay.Exhausted} {
		t.Run(string(state), func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			const old = `insert into postrider.outbox_event (topic, created_at) values ('t', now() - interval '3 hours')`
			switch state {
			case "pending":
			case "gap":
				late := f.locking(old)
				f.exec(`insert into postrider.outbox_event (topic) values ('t')`)
				f.settle(f.leader(), &relay.Receipt{Position: 2, Events: relay.Ranges{{First: 2, Last: 2}}, Gaps: relay.Ranges{{First: 1, Last: 1}}})
				late("commit")
			default:
				f.kept(3*time.Hour, state, relay.Published)
			}
			if state != "gap" {
				f.kept(time.Hour, relay.Parked, relay.Scheduled, relay.Exhausted)
			}
			f.exec(`insert into postrider.outbox_event (topic, created_at) values ('t', now() - interval '1 hour')`)
			if state == "pending" {
				f.exec(old)
			}
			if b := f.backlog(1000); b.OldestDue < 3*time.Hour || b.OldestDue > 3*time.Hour+10*time.Minute {
				t.Errorf("the oldest due event is %v old, want 3h", b.OldestDue)
			}
			if state == "pending" {
				f.exec(`update postrider.outbox_event set available_at = now() + interval '1 day'`)
				if b := f.backlog(1000); b.OldestDue > time.Hour+10*time.Minute {
					t.Errorf("a delayed event counts: %+v", b)
				}
			}
		})
	}
}

// An event behind a halted key waits for an operator and is not late, however many halted keys there are. Once the key is
// let go, the event is late. Behind other holds an event is late all the time.
func TestEventsBehindHaltedKeysAreNotLate(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.kept(3*time.Hour, relay.Parked)
	halt := func(cause string, draining bool) {
		t.Helper()
		f.exec(`update postrider.outbox_hold set scope = 'key', topic = 't', key = 'k', cause = $1, draining = $2, next_probe_at = 'infinity'`, cause, draining)
	}
	oldest := func(what string, hours time.Duration) {
		t.Helper()
		// A limit of one passes over halted keys, too.
		for _, limit := range []int{1, 1000} {
			got := f.backlog(limit).OldestDue
			if got < hours*time.Hour || got > hours*time.Hour+10*time.Minute {
				t.Errorf("%s, with a limit of %d: the oldest due event is %v old, want %d h", what, limit, got, hours)
			}
		}
		st, err := f.store.Status(t.Context())
		if got := time.Duration(st.OldestDueSeconds) * time.Second; err != nil || got < hours*time.Hour || got > hours*time.Hour+10*time.Minute {
			t.Errorf("%s: the status says %v, want %d h: %v", what, got, hours, err)
		}
	}
	oldest("behind a topic", 3)
	halt("redrive", false)
	oldest("behind a key on its way", 3)
	halt("halted", false)
	oldest("behind a halted key", 0)
	if b := f.backlog(1000); b.Parked != 1 {
		t.Errorf("it is not counted: %+v", b)
	}
	f.kept(time.Hour, relay.Parked)
	oldest("behind a halted key, and another behind a topic", 1)
	f.exec(`update postrider.outbox_hold set draining = true where cause = 'halted'`)
	oldest("let go", 3)
}

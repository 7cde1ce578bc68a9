package postgres

import (
	"testing"
	"time"

	"github.com/postrider/postrider/relay"
)

func (f *fixture) backlog(limit int) relay.Backlog {
	f.Helper()
	b, err := f.store.Backlog(f.Context(), limit)
	if err != nil {
		f.Fatal(err)
	}
	return b
}

func TestBacklog(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	if b := f.backlog(1000); b != (relay.Backlog{}) {
		t.Errorf("an empty outbox has the backlog %+v", b)
	}
	f.insert("a", "b", "-", "a")
	f.exec(`insert into postrider.outbox_event (topic, available_at) values ('t', now() + interval '1 hour')`)
	f.aged(time.Hour, "published", "dead_lettered")
	b := f.backlog(1000)
	if b.Pending != 5 || b.Due != 4 || b.Parked+b.Scheduled+b.Exhausted != 0 || b.OldestDue <= 0 || b.OldestDue > 10*time.Minute {
		t.Errorf("the backlog is %+v", b)
	}
	f.aged(2*time.Hour, "pending", "exhausted", "exhausted", "scheduled")
	b = f.backlog(1000)
	if b.Pending != 6 || b.Due != 5 || b.Exhausted != 2 || b.Scheduled != 1 {
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
	for _, state := range []string{"pending", "parked", "scheduled", "exhausted"} {
		t.Run(state, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			f.aged(3*time.Hour, state, "published", "dead_lettered")
			f.aged(time.Hour, "pending", "parked", "scheduled", "exhausted")
			f.exec(`insert into postrider.outbox_hold_shard (hold_id, shard) select distinct hold_id, shard from postrider.outbox_event where hold_id is not null`)
			if b := f.backlog(1000); b.OldestDue < 3*time.Hour || b.OldestDue > 3*time.Hour+10*time.Minute {
				t.Errorf("the oldest due event is %v old, want 3h", b.OldestDue)
			}
			f.exec(`update postrider.outbox_event set available_at = now() + interval '1 day' where state <> 'exhausted'`)
			if b := f.backlog(1000); state == "pending" && b.OldestDue > time.Hour+10*time.Minute {
				t.Errorf("a delayed event counts: %+v", b)
			}
		})
	}
}

// What waits behind a halted key waits for somebody and is not late, however many such keys there are; once it is let go
// it is. Behind other holds it is late all the time.
func TestEventsBehindHaltedKeysAreNotLate(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.aged(3*time.Hour, "parked")
	f.exec(`insert into postrider.outbox_hold_shard (hold_id, shard) select distinct hold_id, shard from postrider.outbox_event where hold_id is not null`)
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
	f.aged(time.Hour, "parked")
	f.exec(`insert into postrider.outbox_hold_shard (hold_id, shard) select distinct hold_id, shard from postrider.outbox_event e where hold_id is not null on conflict do nothing`)
	oldest("behind a halted key, and another behind a topic", 1)
	f.exec(`update postrider.outbox_hold set draining = true where cause = 'halted'`)
	oldest("let go", 3)
}

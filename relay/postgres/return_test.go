package postgres

import (
	"slices"
	"testing"
	"time"

	"github.com/postrider/postrider/relay"
)

// hold parks everything that is pending behind a new hold that is due at once.
func (f *fixture) hold(h relay.HoldChange) {
	f.Helper()
	h.ProbeIn = 0
	c := f.claim()
	f.settle(c, parkAll(c, h))
}

// delivers claims, checks which events may go, delivers them, and parks the rest, as a cycle does.
// proven says that the first of them was a probe.
func (f *fixture) delivers(proven []int64, want ...int64) {
	f.Helper()
	c := f.claim()
	if got := free(c); !slices.Equal(got, want) {
		f.Errorf("free to go are %v, want %v", got, want)
	}
	s := &relay.Settlement{Delivered: free(c), Proven: proven}
	b := c.Batch()
	for i := range b.Events {
		if h := heldBy(b, &b.Events[i]); h != nil {
			s.Parked = append(s.Parked, relay.Park{ID: b.Events[i].ID, Shard: b.Events[i].Shard, HoldID: h.ID})
		}
	}
	f.settle(c, s)
}

func (f *fixture) holds() int64 { return value[int64](f, `select count(*) from postrider.outbox_hold`) }

func TestHoldFromParkingToItsEnd(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.insert("a", "a", "a")
	f.hold(keyHold("a", 0))
	f.wantStates("1:parked 2:parked 3:parked")
	id := value[int64](f, `select hold_id from postrider.outbox_hold`)

	if got := f.turn(1000); got != (relay.Returned{Events: 1}) {
		t.Errorf("the probe: %+v", got)
	}
	f.wantStates("1:pending 2:parked 3:parked")
	if got := f.turn(1000); got != (relay.Returned{}) {
		t.Errorf("a second probe before the first one's outcome: %+v", got)
	}
	wait := value[float64](f, `select extract(epoch from next_probe_at - now())::float8 from postrider.outbox_hold`)
	if wait < 20 || wait > 25 {
		t.Errorf("the next probe goes in %v s, want the grace of 25 s", wait)
	}
	f.insert("a", "b") // while it is held

	f.delivers([]int64{id}, 1, 5)
	f.wantStates("1:published 2:parked 3:parked 4:parked 5:published")
	if got := f.turn(2); got != (relay.Returned{Events: 2}) {
		t.Errorf("draining: %+v", got)
	}
	f.wantStates("1:published 2:pending 3:pending 4:parked 5:published")
	f.insert("a") // must wait for event 4
	f.delivers(nil, 2, 3)
	if got := f.turn(3); got != (relay.Returned{Events: 2, Holds: 1}) {
		t.Errorf("the last: %+v", got)
	}
	f.insert("a")
	f.delivers(nil, 4, 6, 7)
	if f.holds() != 0 {
		t.Error("the hold is still there")
	}
	f.nothing()
}

func TestFailedProbe(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.insert("a", "a", "b")
	f.hold(topicHold("t", 0))
	f.turn(1000)
	c := f.claim()
	probe := claimed(c)
	h := topicHold("t", time.Hour)
	h.Probes, h.Code = 2, "Y"
	f.settle(c, parkAll(c, h))
	if len(probe) != 1 {
		t.Errorf("%v were let through as probes, want one", probe)
	}
	f.wantStates("1:parked 2:parked 3:parked")
	if got := value[string](f, `select concat_ws(' ', probes, error_code, draining, next_probe_at > now() + interval '59 minutes', count(*) over ()) from postrider.outbox_hold`); got != "2 Y f t 1" {
		t.Errorf("the renewed hold is %s", got)
	}
	f.insert("a")
	c = f.claim()
	defer c.Abandon()
	if got := free(c); len(got) != 0 {
		t.Errorf("%v may go although the hold was renewed", got)
	}
}

// TestFailureWhileDraining: what came back before the failure is parked again, and nothing overtakes.
func TestFailureWhileDraining(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.insert("a", "a", "a", "a")
	f.hold(keyHold("a", 0))
	f.turn(1000)
	f.delivers([]int64{1}, 1)
	f.turn(2)
	f.wantStates("1:published 2:pending 3:pending 4:parked")
	c := f.claim()
	s := parkAll(c, keyHold("a", 0))
	s.Parked = s.Parked[:1] // event 2 failed; 3 was not reached and stays pending
	f.settle(c, s)
	f.wantStates("1:published 2:parked 3:pending 4:parked")
	c = f.claim()
	if got := free(c); len(got) != 0 {
		t.Errorf("%v may overtake event 2", got)
	}
	c.Abandon()
	f.delivers(nil)
	f.turn(1000)
	f.delivers([]int64{1}, 2)
	f.turn(1000)
	f.delivers(nil, 3, 4)
}

func TestTopicHoldOverManyShards(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for range 128 {
		f.insert("-")
	}
	f.hold(topicHold("t", 0))
	if got := f.turn(1000); got.Events != 1 {
		t.Errorf("%d events were let through as probes, want one of all shards", got.Events)
	}
	f.insert("-", "-", "-")
	c := f.claim()
	if got := free(c); len(got) != 1 {
		t.Errorf("%v may go, want the probe", got)
	}
	c.Abandon()
	f.delivers([]int64{1}, free(c)...)
	for f.holds() > 0 {
		if got := f.turn(1); got.Events == 0 && got.Holds == 0 {
			t.Fatal("the hold drains no more")
		}
	}
	if n := value[int64](f, `select count(*) from postrider.outbox_event where state = 'parked'`); n != 0 {
		t.Errorf("the hold ended and %d events are still parked", n)
	}
	f.settle(f.claim(), &relay.Settlement{})
}

func TestHoldWithoutEventsEnds(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.exec(`insert into postrider.outbox_hold (scope, topic, cause, next_probe_at) values
		('topic', 't', 'route', now()), ('topic', 'u', 'route', now() + interval '1 minute'), ('dead_letter', 'd', 'route', now())`)
	if got := f.turn(1000); got != (relay.Returned{Holds: 1}) {
		t.Errorf("%+v, want the end of the hold on t", got)
	}
	if got := value[string](f, `select string_agg(topic, ' ' order by topic) from postrider.outbox_hold`); got != "d u" {
		t.Errorf("the holds are on %s", got)
	}
}

// TestHoldThatEndedMeanwhile: between a claim and its settling the hold it saw may end. What was to be
// parked under it must not wait for something that is not there.
func TestHoldThatEndedMeanwhile(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	other := f.insertInto("u", "x")
	f.exec(`insert into postrider.outbox_hold (scope, topic, cause, next_probe_at) values ('topic', 't', 'route', now())`)
	f.insert("a")
	c := f.claim()
	f.turn(1000) // nothing is parked behind the hold yet: it ends
	s := &relay.Settlement{Delivered: other}
	for _, e := range c.Batch().Events {
		if e.Topic == "t" {
			s.Parked = append(s.Parked, relay.Park{ID: e.ID, Shard: e.Shard, HoldID: 1})
		}
	}
	if len(s.Parked) != 1 || f.holds() != 0 {
		t.Fatalf("%d to park, %d holds", len(s.Parked), f.holds())
	}
	f.settle(c, s)
	f.wantStates("1:published 2:pending")
	f.delivers(nil, 2)
}

// TestHoldWaitsForWhoeverParks: a hold does not end while somebody is parking behind it.
func TestHoldWaitsForWhoeverParks(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.exec(`insert into postrider.outbox_hold (scope, topic, cause, next_probe_at) values ('topic', 't', 'route', now())`)
	f.insert("a")
	tx, err := f.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(t.Context())
	shard := value[int16](f, `select shard from postrider.outbox_event`)
	if _, err := tx.Exec(t.Context(), parkShards, []int64{1}, []int16{shard}, []int64{}); err != nil {
		t.Fatal(err)
	}
	returned := make(chan relay.Returned, 1)
	go func() {
		got, err := f.store.Return(t.Context(), 1000, time.Second)
		if err != nil {
			t.Error(err)
		}
		returned <- got
	}()
	f.waitFor(`select exists (select from pg_stat_activity where datname = current_database() and application_name = 'postrider' and wait_event_type = 'Lock')`)
	if _, err := tx.Exec(t.Context(), parkEvents, []int64{1}, []int64{1}, []*int32{nil}, []*string{nil}, []*string{nil}, []*string{nil}); err != nil {
		t.Fatal(err)
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := <-returned; got.Holds != 0 || f.holds() != 1 {
		t.Errorf("%+v: the hold ended over a parked event", got)
	}
	f.wantStates("1:parked")
}

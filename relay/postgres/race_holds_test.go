package postgres

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/postrider/postrider/relay"
)

// TestLateInsertWhileACrowdStepsAside: event 5 of a crowded key comes while its others are parked.
func TestLateInsertWhileACrowdStepsAside(t *testing.T) {
	t.Parallel()
	everyLate(t, func(f *fixture, w *late) {
		f.insert("a", "a", "a", neighbour("a"))
		g := f.closeGate("pending", "parked")
		w.next() // 0
		c := f.claimBy(f.store, relay.Limits{Events: 1})
		w.next() // 1
		settled := f.settling(c, &relay.Settlement{Delivered: []int64{1},
			Crowds: []relay.Crowd{{Shard: shardOf("t", "a"), Topic: "t", Key: []byte("a"), After: 1}}})
		g.reached()
		w.next() // 2
		g.open()
		f.done(<-settled)
		w.next() // 3
		c = f.claim()
		if got := free(c); !slices.Equal(got, []int64{4}) {
			f.Errorf("%v may go, want the neighbour alone", got)
		}
		s := &relay.Settlement{Delivered: []int64{4}}
		b := c.Batch()
		for i := range b.Events {
			if h := heldBy(b, &b.Events[i]); h != nil {
				s.Parked = append(s.Parked, relay.Park{ID: b.Events[i].ID, Shard: b.Events[i].Shard, HoldID: h.ID})
			}
		}
		f.settle(c, s)
		f.goesIn(2, 3, 5)
	})
}

// TestLateInsertWhileItsKeyHalts: nothing is parked yet; the hold alone keeps event 2 back.
func TestLateInsertWhileItsKeyHalts(t *testing.T) {
	t.Parallel()
	everyLate(t, func(f *fixture, w *late) {
		f.insert("a")
		g := f.closeGate("pending", "exhausted")
		w.next() // 0
		c := f.claim()
		w.next() // 1
		e := c.Batch().Events[0]
		s := &relay.Settlement{Exhausted: []relay.Failure{*failure(e.ID, 5)}, Holds: []relay.HoldChange{{Scope: relay.ScopeKey, Topic: "t",
			Key: e.Key, Cause: relay.CauseHalted, EventID: e.EventID, ProbeIn: relay.Forever, Anchor: true, Shard: e.Shard}}}
		for _, e := range c.Batch().Events[1:] {
			s.Parked = append(s.Parked, relay.Park{ID: e.ID, Shard: e.Shard})
		}
		settled := f.settling(c, s)
		g.reached()
		w.next() // 2
		g.open()
		f.done(<-settled)
		w.next() // 3
		c, err := f.store.Claim(f.Context(), relay.Limits{Worker: "w/0", Shards: 64, Events: 1000})
		f.done(err)
		if c != nil {
			if got := free(c); len(got) > 0 {
				f.Errorf("%v may go although the key is halted", got)
			}
			c.Abandon()
		}
		f.buried(1)
		f.done(f.store.Redrive(f.Context(), 1))
		// The redriven event alone may go; then its key does.
		c = f.claim()
		if got := free(c); !slices.Equal(got, []int64{1}) {
			f.Errorf("%v may go, want 1 alone", got)
		}
		c.Abandon()
		f.goesIn(1, 2)
	})
}

// TestParkingWaitsForAHoldThatEnds: a hold ends in one shard while another relay is about to park behind it
// in another. The event stays pending, under no hold.
func TestParkingWaitsForAHoldThatEnds(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.insert("a")
	f.hold(topicHold("t", 0))
	f.exec(`update postrider.outbox_hold set draining = true`)
	other := "b"
	for n := 0; shardOf("t", other) == shardOf("t", "a"); n++ {
		other = fmt.Sprint(n)
	}
	f.insert(other)
	c := f.claim() // of the other shard, with the hold in its hands
	g := f.closeGate("parked", "pending")
	returned := f.returning(f.store, time.Second)
	g.reached()
	settled := f.settling(c, &relay.Settlement{Parked: []relay.Park{{ID: 2, Shard: shardOf("t", other), HoldID: 1}}})
	f.waitFor(`select exists (select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock' and wait_event = 'transactionid')`)
	g.open()
	if got := <-returned; got != (relay.Returned{Events: 1, Holds: 1}) {
		t.Errorf("returned %+v", got)
	}
	f.done(<-settled)
	f.wantStates("1:pending 2:pending")
	c = f.claim()
	f.settle(c, &relay.Settlement{Delivered: free(c)})
	f.wantStates("1:published 2:published")
}

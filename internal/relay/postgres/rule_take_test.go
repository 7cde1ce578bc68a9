package postgres

import (
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/postrider/postrider/internal/relay"
)

// TestRule10TakeKeepsOrderBesidePeople: an operator has an act on the first event of a key open. Nothing behind it is taken,
// and the hold is not taken for empty: the act may be taken back.
func TestRule10TakeKeepsOrderBesidePeople(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.insert("a", "a", "a", "b", "b")
	a, b := f.keyHold("a", 0), f.keyHold("b", 0)
	f.pass(relay.Receipt{Holds: []relay.HoldChange{a, b}, Exceptions: append(parked(a.ID, 1, 2, 3), parked(b.ID, 4, 5)...)})
	end := f.locking(`select postrider.outbox_skip(1, 'not needed')`)
	asked := relay.Taking{Bytes: 1 << 30, Holds: []relay.TakingHold{{ID: a.ID, Events: 10}, {ID: b.ID, Events: 10}}}
	taken, err := f.leader().Take(t.Context(), asked)
	f.done(err)
	f.equal("beside an act", takenIDs(taken), 0, 4, 5)
	if !taken[0].Left || taken[0].Hold != a.ID {
		t.Errorf("the hold is said to be %+v", taken[0])
	}
	f.change(relay.Receipt{Putback: []int64{4, 5}})
	end("rollback")
	f.equal("taken back", f.take(10, a.ID), 1, 2, 3)
	f.change(relay.Receipt{Putback: []int64{1, 2, 3}})
	end = f.locking(`select from postrider.outbox_exception where id = 2 for update`)
	f.equal("beside an act on the second", f.take(10, a.ID), 1)
	end("rollback")
	if f.equal("the rest", f.take(10, a.ID), 2, 3); value[int](f, `select count(*) from postrider.outbox_exception where sending_since is not null`) != 3 {
		t.Error("what was taken is not in hand")
	}
	f.equal("what is in hand", f.take(10, a.ID))
}

// TestRule10TheRelayWaitsForPeople: the same with the whole relay. The key stays in order whether the act is kept or not.
func TestRule10TheRelayWaitsForPeople(t *testing.T) {
	t.Parallel()
	for how, want := range map[string]string{"rollback": "one two three", "commit": "two three"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			b := &memory{}
			b.refuse(relay.Route, func(m *relay.Message) bool { return m.Topic == "t" })
			f.writes("t", "k", "one", "two", "three")
			w := &watched{Store: f.store}
			log := f.runLogged(b, relay.ForAll(relay.TopicSettings{DLQTopic: "dlq"}), func(c *relay.Config) { c.Store = w })
			f.held(relay.CauseRoute)
			f.waitFor(`select count(*) = 3 from postrider.outbox_exception where state = 'parked'`)
			end := f.locking(`select postrider.outbox_skip(1, 'not needed')`)
			b.mend()
			f.due()
			for w.left.Load() < 3 { // the relay has found the act more than once
				f.exec(`select pg_sleep(0.002)`)
			}
			if got := b.arrived("t"); got != "" {
				t.Errorf("arrived %s beside an open act", got)
			}
			end(how)
			f.drained()
			if got := b.arrived("t"); got != want {
				t.Errorf("arrived %s, want %s", got, want)
			}
			if log.Count("ERROR") > 0 || strings.Count(log.String(), "msg=leading") != 1 {
				t.Error("the term did not outlive the act")
			}
		})
	}
}

// TestRule10BytesLeaveNoHoldOut: events that do not fit into one take are left, and their hold is not taken for empty.
func TestRule10BytesLeaveNoHoldOut(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.exec(`insert into postrider.outbox_event (topic, key, payload) select 't', k::bytea, convert_to(repeat('x', 1000), 'UTF8') from unnest('{a,b,a,b,c}'::text[]) k`)
	a, b, c := f.keyHold("a", 0), f.keyHold("b", 0), f.keyHold("c", 0)
	f.pass(relay.Receipt{Holds: []relay.HoldChange{a, b, c}, Exceptions: append(append(parked(a.ID, 1, 3), parked(b.ID, 2, 4)...), parked(c.ID, 5)...)})
	taking := relay.Taking{Holds: []relay.TakingHold{{ID: a.ID, Events: 10}, {ID: b.ID, Events: 10}, {ID: c.ID, Events: 10}}}
	taking.Bytes = 1 // one event in any case
	taken, err := f.leader().Take(t.Context(), taking)
	f.done(err)
	f.equal("of one byte", takenIDs(taken), 0, 0, 1)
	taking.Bytes = 2002 // of the events that are left
	taken, err = f.leader().Take(t.Context(), taking)
	f.done(err)
	left := map[int64]bool{}
	var got []int64
	for _, x := range taken {
		if x.Left {
			left[x.Hold] = true
		} else {
			got = append(got, x.Event.ID)
		}
	}
	f.equal("of two events", got, 2, 3)
	if len(left) != 1 || !left[c.ID] {
		t.Errorf("left are the holds %v, want %d", left, c.ID)
	}
}

// TestRule10TakeGoesOnFromACursor: events that were let through already are not read again.
func TestRule10TakeGoesOnFromACursor(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.insert("a", "a", "a", "a")
	h := f.keyHold("a", 0)
	f.pass(relay.Receipt{Holds: []relay.HoldChange{h}, Exceptions: parked(h.ID, 1, 2, 3, 4)})
	taken, err := f.leader().Take(t.Context(), relay.Taking{Bytes: 1 << 20, Holds: []relay.TakingHold{{ID: h.ID, After: 2, Events: 1}}})
	f.done(err)
	f.equal("behind 2", takenIDs(taken), 3)
	// If nothing is behind the cursor, no event is taken.
	taken, err = f.leader().Take(t.Context(), relay.Taking{Bytes: 1 << 20, Holds: []relay.TakingHold{{ID: h.ID, After: 4, Events: 5}}})
	f.done(err)
	f.equal("behind the last", takenIDs(taken))
	taken, err = f.leader().Take(t.Context(), relay.Taking{Bytes: 1 << 20, Holds: []relay.TakingHold{{ID: h.ID, Until: 2, Events: 5}}})
	f.done(err)
	f.equal("up to 2", takenIDs(taken), 1, 2)
}

// TestRule10LetGoIsFree: events that a leader had in hand when it went are taken by the next leader.
func TestRule10LetGoIsFree(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.insert("a", "-")
	h := f.keyHold("a", 0)
	f.pass(relay.Receipt{Holds: []relay.HoldChange{h}, Exceptions: append(parked(h.ID, 1), relay.Exception{ID: 2, State: relay.Scheduled, In: 1, EventID: uuid.New()})})
	f.equal("taken", f.take(9, h.ID), 1)
	f.equal("taken", f.take(9), 2)
	f.refused(f.trySkip(1, "why"), ErrRefused, "on its way")
	f.letGo(f.term)
	f.term = nil
	f.equal("by the next", f.take(9, h.ID), 1)
	f.equal("by the next", f.take(9), 2)
}

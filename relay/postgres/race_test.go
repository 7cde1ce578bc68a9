package postgres

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/postrider/postrider/relay"
)

// gate makes a change of events wait at its commit, when all its statements are done, until it is opened.
type gate struct {
	f    *fixture
	conn *pgxpool.Conn
}

// closeGate closes a gate for transactions that change an event from one state to another.
func (f *fixture) closeGate(from, to string) *gate {
	f.Helper()
	f.exec(`create function wait_at_the_gate() returns trigger language plpgsql as $$
		begin
			perform set_config('lock_timeout', '0', true);
			perform pg_advisory_xact_lock_shared(42);
			return null;
		end $$`)
	f.exec(fmt.Sprintf(`create constraint trigger gate after update on postrider.outbox_event deferrable initially deferred
		for each row when (old.state = '%s' and new.state = '%s') execute function wait_at_the_gate()`, from, to))
	conn, err := f.pool.Acquire(f.Context())
	if err != nil {
		f.Fatal(err)
	}
	if _, err := conn.Exec(f.Context(), `select pg_advisory_lock(42)`); err != nil {
		f.Fatal(err)
	}
	return &gate{f, conn}
}

// reached waits until somebody stands at the gate.
func (g *gate) reached() {
	g.f.Helper()
	g.f.waitFor(`select exists (select from pg_stat_activity where datname = current_database() and wait_event = 'advisory')`)
}

func (g *gate) open() {
	g.f.Helper()
	if _, err := g.conn.Exec(g.f.Context(), `select pg_advisory_unlock(42)`); err != nil {
		g.f.Fatal(err)
	}
	g.conn.Release()
}

// late is a writer whose transaction was open before anything began, and that inserts an event of key a at
// one step and commits at another.
type late struct {
	*writer
	insertAt, commitAt int
	step               int
}

// steps is how many there are in each of the races.
const steps = 4

// everyLate runs a race with every way in which a writer can be late.
func everyLate(t *testing.T, race func(*fixture, *late)) {
	for insertAt := range steps {
		for commitAt := insertAt; commitAt < steps; commitAt++ {
			t.Run(fmt.Sprintf("inserted at %d, committed at %d", insertAt, commitAt), func(t *testing.T) {
				t.Parallel()
				f := newFixture(t)
				w := &late{writer: f.begin(), insertAt: insertAt, commitAt: commitAt}
				w.do("select 1")
				race(f, w)
			})
		}
	}
}

// next is the next step.
func (w *late) next() {
	w.f.Helper()
	if w.step == w.insertAt {
		w.writes("t", "a", "late")
	}
	if w.step == w.commitAt {
		w.commit()
	}
	w.step++
}

// goesIn works until nothing waits, as relays do, and checks in which order key a is delivered.
func (f *fixture) goesIn(want ...int64) {
	f.Helper()
	var order []int64
	for round := 0; len(order) < len(want); round++ {
		if round > 50 {
			f.Fatalf("delivered %v, want %v; the events are %s", order, want, f.states())
		}
		f.due()
		f.turn(1000)
		c, err := f.store.Claim(f.Context(), relay.Limits{Worker: "host:1:aaaa/0", Shards: 64, Events: 64_000})
		if err != nil {
			f.Fatal(err)
		}
		if c == nil {
			continue
		}
		b := c.Batch()
		s := &relay.Settlement{}
		for i := range b.Events {
			e := &b.Events[i]
			if h := heldBy(b, e); h != nil {
				s.Parked = append(s.Parked, relay.Park{ID: e.ID, Shard: e.Shard, HoldID: h.ID})
				continue
			}
			s.Delivered = append(s.Delivered, e.ID)
			order = append(order, e.ID)
		}
		if len(s.Delivered) > 0 {
			// Whatever was let through proves its holds.
			rows := value[[]int64](f, `select coalesce(array_agg(hold_id), '{}') from postrider.outbox_hold`)
			s.Proven = rows
		}
		f.settle(c, s)
	}
	if !slices.Equal(order, want) {
		f.Errorf("delivered %v, want %v", order, want)
	}
	for round := 0; f.holds() > 0; round++ {
		if round > 50 {
			f.Fatal("a hold does not end")
		}
		f.turn(1000)
	}
	f.nothing()
}

// TestLateInsertWhileItsKeyIsParked: event 1 fails and is parked; event 2 comes before the claim, between
// claim and settling, while the settling commits, or afterwards.
func TestLateInsertWhileItsKeyIsParked(t *testing.T) {
	t.Parallel()
	everyLate(t, func(f *fixture, w *late) {
		f.insert("a")
		g := f.closeGate("pending", "parked")
		w.next() // 0
		c := f.claim()
		w.next() // 1
		settled := f.settling(c, parkAll(c, keyHold("a", time.Hour)))
		g.reached()
		w.next() // 2
		g.open()
		f.done(<-settled)
		w.next() // 3
		c, err := f.store.Claim(f.Context(), relay.Limits{Worker: "w/0", Shards: 64, Events: 1000})
		f.done(err)
		if c != nil { // the late one, when the park did not take it
			if got := free(c); len(got) > 0 {
				f.Errorf("%v may go although the key is held", got)
			}
			c.Abandon()
		}
		f.goesIn(1, 2)
	})
}

// TestLateInsertWhileTheLastComesBack: event 1 was parked and comes back, and with it the hold ends; event 2
// comes before that, while it commits, or afterwards.
func TestLateInsertWhileTheLastComesBack(t *testing.T) {
	t.Parallel()
	everyLate(t, func(f *fixture, w *late) {
		f.insert("a")
		f.hold(keyHold("a", 0))
		f.exec(`update postrider.outbox_hold set draining = true`)
		g := f.closeGate("parked", "pending")
		w.next() // 0
		returned := f.returning(f.store, time.Second)
		g.reached()
		w.next()    // 1
		f.nothing() // the shard is in work, for the late one too
		w.next()    // 2
		g.open()
		if got := <-returned; got != (relay.Returned{Events: 1, Holds: 1}) {
			f.Errorf("returned %+v", got)
		}
		w.next() // 3
		c := f.claim()
		if got := c.Batch().Events; got[0].ID != 1 || len(got) != 2 || got[1].ID != 2 {
			f.Errorf("claimed %v, want 1 and then 2", claimed(c))
		}
		c.Abandon()
		f.goesIn(1, 2)
	})
}

// TestLateInsertAfterItsHoldEnded: the writer drew its id before everything else and commits in the middle,
// or when the hold is gone and the low-water marks have risen. It is not lost.
func TestLateInsertAfterItsHoldEnded(t *testing.T) {
	t.Parallel()
	for commitAt := range steps {
		t.Run(fmt.Sprint("committed at ", commitAt), func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			w := &late{writer: f.begin(), insertAt: -1, commitAt: commitAt}
			w.writes("t", "a", "late") // event 1
			f.insert("a", "a")
			f.hold(keyHold("a", 0))
			w.next() // 0: held
			f.turn(1000)
			w.next() // 1: the probe is on its way
			c := f.claim()
			f.settle(c, &relay.Settlement{Delivered: free(c), Proven: []int64{1}})
			w.next() // 2: it drains
			for f.holds() > 0 {
				if got := f.turn(1000); got == (relay.Returned{}) {
					// What may go does, so that the rest comes.
					c := f.claim()
					f.settle(c, &relay.Settlement{Delivered: free(c)})
				}
			}
			f.exec(`insert into postrider.outbox_event (topic) select 't' from generate_series(1, $1::int)`, raiseAfter+100)
			f.exec(`update postrider.outbox_event set state = 'published', updated_at = now() where key is null`)
			f.raise()
			w.next() // 3: it has ended
			if n := value[int](f, `select count(*) from postrider.outbox_event where id = 1`); n != 1 {
				t.Fatal("the late event was not committed")
			}
			for round := 0; value[bool](f, `select exists (select from postrider.outbox_event where state <> 'published')`); round++ {
				if round > 50 {
					t.Fatalf("what waits does not go: %s", value[string](f, `select string_agg(id || ' ' || state, ', ') from postrider.outbox_event where state <> 'published'`))
				}
				f.turn(1000)
				if c, err := f.store.Claim(t.Context(), relay.Limits{Worker: "w/0", Shards: 64, Events: 1000}); err != nil {
					t.Fatal(err)
				} else if c != nil {
					f.settle(c, &relay.Settlement{Delivered: free(c)})
				}
			}
		})
	}
}

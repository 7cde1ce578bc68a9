package postgres

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/relay"
)

// TestNoDeadlocks lets eight relays claim, park, prove, renew and return around the same few holds, and
// takes no error for an answer. At the end everything must come back and be delivered once.
func TestNoDeadlocks(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	const relays, rounds = 8, 25
	delivered := make([][]int64, relays)
	var wg sync.WaitGroup
	for n := range relays {
		store, pool := f.open(Options{MaxConns: 3}, StoreOptions{})
		rng := rand.New(rand.NewPCG(7, uint64(n)))
		wg.Go(func() {
			for range rounds {
				sql := `insert into postrider.outbox_event (topic, key) select (array['t', 'u'])[1 + i % 2], ('key ' || i % 7)::bytea from generate_series(1, 6) i`
				if _, err := pool.Exec(t.Context(), sql); err != nil {
					t.Error(err)
				}
				c, err := store.Claim(t.Context(), relay.Limits{Worker: fmt.Sprintf("w%d/0", n), First: rng.IntN(64), Shards: 1 + rng.IntN(8), Events: 64})
				if err != nil {
					t.Error(err)
				}
				if c != nil {
					s := decide(rng, c)
					if err := c.Settle(t.Context(), s); err != nil {
						t.Errorf("settle: %v", err)
					}
					delivered[n] = append(delivered[n], s.Delivered...)
				}
				if _, err := store.Return(t.Context(), 1+rng.IntN(5), time.Millisecond); err != nil {
					t.Errorf("return: %v", err)
				}
			}
		})
	}
	wg.Wait()

	f.exec(`update postrider.outbox_hold set draining = true, next_probe_at = now()`)
	for n := 0; value[bool](f, `select exists (select from postrider.outbox_event where state <> 'published')`); n++ {
		if n == 1000 {
			t.Fatalf("stuck: %s", f.states())
		}
		f.turn(1000)
		if value[bool](f, `select exists (select from postrider.outbox_event where state = 'pending')`) {
			c := f.claim()
			if got := free(c); len(got) != len(claimed(c)) {
				t.Fatalf("of %v only %v may go, though every hold drains", claimed(c), got)
			}
			delivered[0] = append(delivered[0], claimed(c)...)
			f.settle(c, &relay.Settlement{Delivered: claimed(c)})
		}
	}
	times := map[int64]int{}
	for _, ids := range delivered {
		for _, id := range ids {
			times[id]++
		}
	}
	for id, n := range times {
		if n != 1 {
			t.Errorf("event %d was delivered %d times", id, n)
		}
	}
	if len(times) != relays*rounds*6 {
		t.Errorf("%d events were delivered, want %d", len(times), relays*rounds*6)
	}
}

// decide gives the events of a claim that may go random outcomes, as a plan would.
func decide(rng *rand.Rand, c relay.Claim) *relay.Settlement {
	s := &relay.Settlement{}
	b := c.Batch()
	renewed, seen := map[string]int{}, map[int64]bool{}
	failing := rng.IntN(3) // 0: t fails, 1: u fails, 2: none does
	for i := range b.Events {
		e := &b.Events[i]
		if h := heldBy(b, e); h != nil {
			s.Parked = append(s.Parked, relay.Park{ID: e.ID, Shard: e.Shard, HoldID: h.ID})
			continue
		}
		if (failing == 0) == (e.Topic == "t") && failing < 2 {
			at, known := renewed[e.Topic]
			if !known {
				at = len(s.Holds)
				renewed[e.Topic] = at
				h := topicHold(e.Topic, time.Duration(rng.IntN(3))*time.Millisecond)
				s.Holds = append(s.Holds, h)
			}
			s.Parked = append(s.Parked, relay.Park{ID: e.ID, Shard: e.Shard, Hold: at})
			continue
		}
		s.Delivered = append(s.Delivered, e.ID)
		for id := range int64(20) { // any of the holds there may be, most of them not the event's
			if !seen[id] && rng.IntN(8) == 0 {
				seen[id] = true
				s.Proven = append(s.Proven, id)
			}
		}
	}
	return s
}

// TestProofsDoNotWait: one relay renews the hold of one topic and proves that of another, a second one
// the other way round. If proving waited for renewing, they would wait for each other.
func TestProofsDoNotWait(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.exec(`insert into postrider.outbox_hold (scope, topic, cause, next_probe_at) values ('topic', 't', 'route', now()), ('topic', 'u', 'route', now())`)
	var txs []pgx.Tx
	for _, topic := range []string{"t", "u"} {
		tx, err := f.relay.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer tx.Rollback(t.Context())
		if _, err := tx.Exec(t.Context(), upsertHolds, holdArgs([]relay.HoldChange{topicHold(topic, time.Hour)})...); err != nil {
			t.Fatal(err)
		}
		txs = append(txs, tx)
	}
	for n, other := range []int64{2, 1} {
		if _, err := txs[n].Exec(t.Context(), proveHolds, []int64{other}); err != nil {
			t.Fatalf("relay %d: %v", n, err)
		}
	}
	for _, tx := range txs {
		if err := tx.Commit(t.Context()); err != nil {
			t.Error(err)
		}
	}
	if n := value[int](f, `select count(*) from postrider.outbox_hold where draining`); n != 0 {
		t.Errorf("%d holds drain although they were just renewed", n)
	}
}

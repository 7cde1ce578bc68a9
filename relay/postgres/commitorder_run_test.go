package postgres

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/relay"
)

// inCommitOrder are settings by which the topic o is in commit order.
func inCommitOrder(topic string) relay.TopicSettings {
	return relay.TopicSettings{CommitOrder: topic == "o"}
}

func commitOrderOn(c *relay.Config) { c.CommitOrder = true }

// TestCommittedLaterWithASmallerID: 10 is committed after 11 and published before it; another topic's events
// do not wait, also those of the same shard.
func TestCommittedLaterWithASmallerID(t *testing.T) {
	t.Parallel()
	for _, end := range []string{"commit", "rollback", "rollback to s"} {
		t.Run(end, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			b := &memory{}
			f.exec(`select setval(pg_get_serial_sequence('postrider.outbox_event', 'id'), 9)`)
			early := f.begin()
			early.do("savepoint s")
			if id := early.writes("o", "k", "10"); id != 10 {
				t.Fatalf("the first id is %d", id)
			}
			f.writes("o", "k", "11")
			f.writes("p", "k", "a")
			f.run(b, inCommitOrder, commitOrderOn)
			f.held(relay.CauseCommitOrder)
			// Every one that waits is out of the way, in whichever shard, also where the hold has none yet.
			f.writes("o", "elsewhere", "x")
			f.waitFor(`select count(*) = 2 from postrider.outbox_event where topic = 'o' and state = 'parked'`)
			beside := "" // the same shard as o's key
			for n := 0; beside == ""; n++ {
				if k := fmt.Sprint(n); shardOf("p", k) == shardOf("o", "k") {
					beside = k
				}
			}
			f.writes("p", beside, "b")
			f.waitFor(`select count(*) = 2 from postrider.outbox_event where topic = 'p' and state = 'published'`)
			if got := b.arrived("o"); got != "" {
				t.Errorf("%s arrived before the transaction ended", got)
			}
			early.do(end)
			f.drained()
			want := "10 11"
			if end != "commit" {
				want = "11"
			}
			if got := b.arrived("o", "k"); got != want {
				t.Errorf("the key arrived as %s, want %s", got, want)
			}
		})
	}
}

// TestCommitOrderThatWasSwitchedOff: what was parked for it comes back, though the relay's claims do not ask
// for commit order any more.
func TestCommitOrderThatWasSwitchedOff(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	b := &memory{}
	early := f.begin()
	early.writes("o", "k", "1")
	f.writes("o", "k", "2", "3")
	stop := f.run(b, inCommitOrder, commitOrderOn)
	f.waitFor(`select count(*) = 2 from postrider.outbox_event where state = 'parked'`)
	stop()
	f.run(b, relay.ForAll(relay.TopicSettings{}), nil)
	early.commit()
	f.drained()
	if got := b.arrived("o"); got != "1 2 3" {
		t.Errorf("arrived %s", got)
	}
}

// TestCommitOrderOfManyWriters: writers that share keys and no lock, overlapping, some of them rolled back;
// two relays. Per key, events must arrive by id.
func TestCommitOrderOfManyWriters(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	b := &memory{}
	f.run(b, inCommitOrder, commitOrderOn)
	f.run(b, inCommitOrder, commitOrderOn)
	var wg sync.WaitGroup
	for n := range 6 {
		conn, rng := f.db.Conn(t), rand.New(rand.NewPCG(uint64(n), 1))
		wg.Go(func() {
			for round := range 25 {
				if err := overlap(t.Context(), conn, rng, fmt.Sprintf("%d/%d", n, round)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	f.drained()
	ids := map[string]int64{}
	rows, err := f.pool.Query(t.Context(), `select event_id::text, id from postrider.outbox_event`)
	if err != nil {
		t.Fatal(err)
	}
	var event string
	var id int64
	if _, err := pgx.ForEachRow(rows, []any{&event, &id}, func() error { ids[event] = id; return nil }); err != nil {
		t.Fatal(err)
	}
	last := map[string]int64{}
	log := b.arrivals()
	for i := range log {
		m := &log[i]
		if id := ids[m.ID.EventID.String()]; id <= last[string(m.Key)] {
			t.Errorf("event %d of key %s arrived after %d", id, m.Key, last[string(m.Key)])
		} else {
			last[string(m.Key)] = id
		}
	}
	if len(log) != len(ids) || len(ids) < 100 {
		t.Errorf("%d of %d events arrived", len(log), len(ids))
	}
}

// overlap is a transaction that writes some events with pauses between them; now and then a long one.
func overlap(ctx context.Context, conn *pgx.Conn, rng *rand.Rand, value string) error {
	tx, err := conn.Begin(ctx)
	if err != nil {
		return err
	}
	pause := rng.Float64() * 0.01
	if rng.IntN(25) == 0 {
		pause = 0.4
	}
	for range 1 + rng.IntN(3) {
		if _, err := tx.Exec(ctx, `insert into postrider.outbox_event (topic, key, payload) values ('o', $1, $2)`,
			fmt.Appendf(nil, "k%d", rng.IntN(3)), []byte(value)); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, `select pg_sleep($1)`, pause); err != nil {
			return err
		}
	}
	if rng.IntN(6) == 0 {
		return tx.Rollback(ctx)
	}
	return tx.Commit(ctx)
}

// TestFenceAgeGrowsWhileSomebodyIsOpen.
func TestFenceAgeGrowsWhileSomebodyIsOpen(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.insert("a")
	if _, _, age, err := f.store.order.final(t.Context(), f.store.pool); err != nil || age != 0 {
		t.Errorf("nobody is open: %v, %v", age, err)
	}
	w := f.begin()
	w.writes("t", "a", "2")
	var last time.Duration
	for range 3 {
		_, _, age, err := f.store.order.final(t.Context(), f.store.pool)
		if err != nil || age <= last {
			t.Errorf("the age is %v after %v, %v", age, last, err)
		}
		last = age
	}
	c := f.claimBy(f.store, relay.Limits{CommitOrder: true})
	if b := c.Batch(); b.Final != 1 || b.FenceAge <= last {
		t.Errorf("the claim says final up to %d for %v", b.Final, b.FenceAge)
	}
	c.Abandon()
	w.commit()
	if _, _, age, err := f.store.order.final(t.Context(), f.store.pool); err != nil || age != 0 {
		t.Errorf("nobody is open any more: %v, %v", age, err)
	}
}

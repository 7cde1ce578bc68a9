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

// writer is a transaction of a service.
type writer struct {
	pgx.Tx
	f *fixture
}

func (f *fixture) begin() *writer {
	f.Helper()
	tx, err := f.db.Conn(f.T).Begin(f.Context())
	if err != nil {
		f.Fatal(err)
	}
	return &writer{tx, f}
}

func (w *writer) do(sql string, args ...any) {
	w.f.Helper()
	if _, err := w.Exec(w.f.Context(), sql, args...); err != nil {
		w.f.Fatalf("%s: %v", sql, err)
	}
}

func (w *writer) writes(topic, key, value string) (id int64) {
	w.f.Helper()
	if err := w.QueryRow(w.f.Context(), `insert into postrider.outbox_event (topic, key, payload) values ($1, $2, $3) returning id`,
		topic, []byte(key), []byte(value)).Scan(&id); err != nil {
		w.f.Fatal(err)
	}
	return id
}

func (w *writer) commit() { w.do("commit") }

// final asks a store up to which id everything is final. The first look opens a fence, the second may find
// it closed.
func (f *fixture) final(s *Store) (through int64) {
	f.Helper()
	for range 2 {
		var err error
		if through, _, err = s.order.final(f.Context(), f.relay); err != nil {
			f.Fatal(err)
		}
	}
	return through
}

func (f *fixture) wantFinal(when string, want int64) {
	f.Helper()
	if got := f.final(f.store); got != want {
		f.Errorf("%s: final up to %d, want %d", when, got, want)
	}
}

func TestFinalIsBelowOpenTransactions(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.wantFinal("an empty outbox", 0)
	f.insert("a", "a")
	f.wantFinal("nobody writes", 2)
	early := f.begin()
	early.writes("t", "a", "3")
	late := f.begin()
	late.writes("t", "a", "4")
	late.commit()
	f.wantFinal("3 is open, 4 is committed", 2)
	reader := f.begin()
	reader.do("select count(*) from postrider.outbox_event")
	early.commit()
	f.wantFinal("only a reader is left", 4)
	reader.commit()

	// Whoever began later than the fence does not keep it.
	early = f.begin()
	early.writes("t", "a", "5")
	f.wantFinal("5 is open", 4)
	late = f.begin()
	late.writes("t", "a", "6")
	early.commit()
	f.wantFinal("6 is open, 5 is committed", 5)
	late.do("rollback")
	f.wantFinal("6 is rolled back", 6)
}

func TestFinalBesideSavepoints(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	w := f.begin()
	w.do("savepoint s")
	w.writes("t", "a", "1")
	f.insert("a")
	f.wantFinal("1 is in a savepoint", 0)
	w.do("release s")
	f.wantFinal("the savepoint is released, the transaction is open", 0)
	w.do("savepoint s")
	w.writes("t", "a", "3")
	w.do("rollback to s")
	f.wantFinal("what is open is 1, not 3", 0)
	w.commit()
	f.wantFinal("the end", 3)

	w = f.begin()
	w.do("savepoint s")
	w.writes("t", "a", "4")
	w.do("rollback to s")
	f.insert("a")
	f.wantFinal("4 will never come, though its transaction is open", 5)
	w.writes("t", "a", "6")
	f.insert("a")
	f.wantFinal("the same transaction wrote again", 5)
	w.commit()
	f.wantFinal("and committed", 7)
}

// TestFinalBesidePreparedTransactions: they have left their session, and their events may come yet.
func TestFinalBesidePreparedTransactions(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	if n := value[int](f, `select current_setting('max_prepared_transactions')::int`); n == 0 {
		t.Fatal("the test server takes no prepared transactions: start it with max_prepared_transactions = 50")
	}
	names := 0
	prepare := func(w *writer) (end func(how string)) {
		names++
		name := fmt.Sprintf("'%s-%d'", f.db.Name, names)
		w.do("prepare transaction " + name)
		ended := false
		end = func(how string) {
			ended = true
			f.exec(how + " prepared " + name)
		}
		t.Cleanup(func() {
			if !ended { // or the database could not be removed
				conn, err := pgx.Connect(context.Background(), f.db.URL)
				if err == nil {
					_, _ = conn.Exec(context.Background(), "rollback prepared "+name)
					_ = conn.Close(context.Background())
				}
			}
		})
		return end
	}
	w := f.begin()
	w.writes("t", "a", "1")
	end := prepare(w)
	f.insert("a")
	f.wantFinal("prepared before anybody looked", 0)
	end("commit")
	f.wantFinal("it is committed", 2)

	w = f.begin()
	w.writes("t", "a", "3")
	f.insert("a")
	f.wantFinal("open", 2)
	end = prepare(w)
	f.wantFinal("prepared under a fence that knew it by another name", 2)
	end("rollback")
	f.wantFinal("it is rolled back", 4)
}

// TestFinalAfterARestore: the ids begin again below what was final before. Nothing may count as final for
// having been so.
func TestFinalAfterARestore(t *testing.T) {
	t.Parallel()
	const rewind = `select setval(pg_get_serial_sequence('postrider.outbox_event', 'id'), 2)`
	for _, when := range []string{"with no fence", "under a fence"} {
		t.Run(when, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			f.insert("a", "a", "a", "a", "a", "a", "a", "a", "a")
			f.wantFinal("before", 9)
			var other *writer
			if when == "under a fence" {
				other = f.begin()
				other.writes("u", "x", "10")
				f.wantFinal("another writer is open", 9)
			}
			f.exec(`delete from postrider.outbox_event where id > 2`)
			f.exec(rewind)
			early := f.begin()
			early.writes("t", "a", "3")
			f.insert("a")
			if other != nil {
				other.do("rollback")
			}
			if got := f.final(f.store); got >= 3 {
				t.Errorf("3 is open, and %d is final", got)
			}
			early.commit()
			f.wantFinal("afterwards", 4)
		})
	}
}

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
	if _, age, err := f.store.order.final(t.Context(), f.relay); err != nil || age != 0 {
		t.Errorf("nobody is open: %v, %v", age, err)
	}
	w := f.begin()
	w.writes("t", "a", "2")
	var last time.Duration
	for range 3 {
		_, age, err := f.store.order.final(t.Context(), f.relay)
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
	if _, age, err := f.store.order.final(t.Context(), f.relay); err != nil || age != 0 {
		t.Errorf("nobody is open any more: %v, %v", age, err)
	}
}

//go:build unix

package postgres

import (
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/relay"
	"github.com/postrider/postrider/relay/postgres/pooler/pgbouncer"
)

// behindPooler is a fixture whose store works through a pooler with few sessions.
func behindPooler(t *testing.T) *fixture {
	t.Helper()
	f := newFixture(t)
	pool, err := NewPool(t.Context(), pgbouncer.Start(t, f.db.URL, 4), Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if !t.Failed() {
			pool.Close()
		}
	})
	f.relay, f.store = pool, NewStore(pool, StoreOptions{})
	return f
}

// TestDeadDoorbell: behind a pooler in transaction mode listening succeeds and nothing is heard. The relay
// finds out, says so once with what to do, and looks again.
func TestDeadDoorbell(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	ears := f.listener() // to PostgreSQL itself: it hears every try
	d := f.hang(pgbouncer.Start(t, f.db.URL, 4), DoorbellOptions{patience: 300 * time.Millisecond, lookAgain: 20 * time.Millisecond})
	d.until("unheard", func() bool { return strings.Contains(d.log.String(), "notifications do not arrive") })
	for tries := 0; tries < 4; { // that are noticed and not logged again
		tries += len(f.notices(ears))
	}
	if d.Alive() || d.Armed() {
		t.Error("it says that it works")
	}
	if said := d.log.String(); strings.Count(said, "\n") != 1 || !strings.Contains(said, "outbox.doorbell") {
		t.Errorf("it said:\n%s", said)
	}
}

// TestSettingsBehindAPooler: each transaction of the relay has its settings, and no session keeps them.
func TestSettingsBehindAPooler(t *testing.T) {
	t.Parallel()
	f := behindPooler(t)
	const want = "off off off off 23s 1min 10s"
	const ask = `select concat_ws(' ', current_setting('jit'), current_setting('enable_seqscan'), current_setting('enable_sort'),
		current_setting('enable_hashjoin'), current_setting('idle_in_transaction_session_timeout'), current_setting('statement_timeout'), current_setting('lock_timeout'))`
	var got string
	if err := f.store.pool.QueryRow(t.Context(), ask).Scan(&got); err != nil || got != want {
		t.Errorf("a statement runs with %s, %v, want %s", got, err, want)
	}
	err := pgx.BeginTxFunc(t.Context(), f.store.pool, pgx.TxOptions{}, func(tx pgx.Tx) error { return tx.QueryRow(t.Context(), ask).Scan(&got) })
	if err != nil || got != want {
		t.Errorf("a transaction runs with %s, %v, want %s", got, err, want)
	}
	f.insert("a")
	c := f.claim()
	if err := c.(*claim).conn.QueryRow(t.Context(), ask).Scan(&got); err != nil || got != want {
		t.Errorf("a claim runs with %s, %v, want %s", got, err, want)
	}
	c.Abandon()
	if err := f.relay.QueryRow(t.Context(), ask).Scan(&got); err != nil || got == want {
		t.Errorf("a session of the pooler keeps %s, %v", got, err)
	}
	// A statement that fails leaves a connection that can be used, and no transaction.
	for range 10 {
		if _, err := f.store.pool.Exec(t.Context(), "select 1/$1::int", 0); err == nil || !strings.Contains(err.Error(), "22012") {
			t.Errorf("a failure is reported as %v", err)
		}
		if err := f.store.pool.QueryRow(t.Context(), "select 1 where $1 = 2", 1).Scan(&got); err != pgx.ErrNoRows {
			t.Errorf("no row is reported as %v", err)
		}
	}
	f.waitFor(`select not exists (select from pg_stat_activity where datname = current_database() and state like 'idle in transaction%')`)
}

// TestStoreBehindAPooler goes all the ways an event can take.
func TestStoreBehindAPooler(t *testing.T) {
	t.Parallel()
	f := behindPooler(t)
	f.insert("a", "a", "b", "-", "c")
	c := f.claim()
	if err := c.Mark(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n, err := c.CountAttempt(t.Context(), 5); n != 1 || err != nil {
		t.Errorf("CountAttempt() = %d, %v", n, err)
	}
	f.settle(c, &relay.Settlement{
		Delivered: []int64{3},
		Scheduled: []relay.Schedule{{ID: 4, In: time.Millisecond, Failure: failure(4, 1)}},
		Exhausted: []relay.Failure{*failure(5, 5)},
		Holds:     []relay.HoldChange{keyHold("a", time.Hour)},
		Parked: []relay.Park{
			{ID: 1, Shard: value[int16](f, `select shard from postrider.outbox_event where id = 1`), Failure: failure(1, 1)},
			{ID: 2, Shard: value[int16](f, `select shard from postrider.outbox_event where id = 2`)}},
	})
	f.wantStates("1:parked(1) 2:parked 3:published 4:scheduled(1) 5:exhausted(5)")
	letters, err := f.store.ClaimLetters(t.Context(), toDLQ, 10)
	if err != nil || len(letters.Events()) != 1 {
		t.Fatalf("ClaimLetters: %v, %v", letters, err)
	}
	if err := letters.Settle(t.Context(), sent(nil, 5)); err != nil {
		t.Fatal(err)
	}
	f.due()
	for value[bool](f, `select exists (select from postrider.outbox_event where state = 'scheduled')`) || value[int](f, `select count(*) from postrider.outbox_event where state = 'parked'`) == 2 {
		f.turn(100)
	}
	f.wantStates("1:pending(1) 2:parked 3:published 4:pending(1) 5:dead_lettered(5)")
	c = f.claim()
	hold := value[int64](f, `select hold_id from postrider.outbox_hold`)
	f.settle(c, &relay.Settlement{Delivered: claimed(c), Proven: []int64{hold}})
	for value[int](f, `select count(*) from postrider.outbox_hold`) > 0 {
		f.turn(100)
	}
	c = f.claim()
	f.settle(c, &relay.Settlement{Delivered: claimed(c)})
	f.nothing()
	if st, err := f.store.Status(t.Context()); err != nil || st.Pending+st.Parked+st.Scheduled != 0 || st.DeadLettered != 1 {
		t.Errorf("status %+v, %v", st, err)
	}
}

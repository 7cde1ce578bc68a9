//go:build unix

package postgres

import (
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/relay"
	"github.com/postrider/postrider/internal/testenv/pgbouncer"
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

// TestDeadNotifier: behind a pooler in transaction mode listening succeeds and nothing is heard. The relay
// finds out, says so once with what to do, and looks again.
func TestDeadNotifier(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	ears := f.listener() // to PostgreSQL itself: it hears every try
	d := f.hang(pgbouncer.Start(t, f.db.URL, 4), NotifierOptions{patience: 300 * time.Millisecond, lookAgain: 20 * time.Millisecond})
	d.until("unheard", func() bool { return strings.Contains(d.log.String(), "notifications do not arrive") })
	for tries := 0; tries < 4; { // that are noticed and not logged again
		tries += len(f.notices(ears))
	}
	if d.Alive() || d.Armed() {
		t.Error("it says that it works")
	}
	if said := d.log.String(); strings.Count(said, "\n") != 1 || !strings.Contains(said, "outbox.notifier") {
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
	f.exhaust("a")
	c := f.letters(1)
	if err := c.(*letterClaim).conn.QueryRow(t.Context(), ask).Scan(&got); err != nil || got != want {
		t.Errorf("a claim runs with %s, %v, want %s", got, err, want)
	}
	c.Abandon()
	f.letGo(f.term)
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

// TestStoreBehindAPooler goes all the ways an event can take, with a leadership that goes from session to session.
func TestStoreBehindAPooler(t *testing.T) {
	t.Parallel()
	f := behindPooler(t)
	f.store.renewEach = 20 * time.Millisecond
	d := f.leader()
	pid := f.session(d, 0)
	f.insert("a", "a", "b", "-", "c")
	h := f.keyHold("a", time.Hour)
	f.pass(relay.Receipt{Holds: []relay.HoldChange{h}, Exceptions: append(append(parked(h.ID, 1, 2), exhausted(5)...), relay.Exception{ID: 4, State: relay.Scheduled, In: 1})})
	f.wantStates("1:parked 2:parked 3:published 4:scheduled 5:exhausted(5)")
	f.buried(5)
	f.session(d, pid) // it leads in another
	if f.leads(f.store) || !d.Sure() {
		t.Error("two lead")
	}
	f.equal("taken", f.take(5, h.ID), 1, 2)
	f.equal("due", f.take(5), 4)
	f.change(relay.Receipt{Gone: []int64{1, 2, 4}, Ended: []int64{h.ID}})
	if l, err := d.Look(t.Context()); err != nil || l.Last != 5 || len(l.Holders) != 0 {
		t.Errorf("a look: %+v, %v", l, err)
	}
	if st, err := f.store.Status(t.Context()); err != nil || st.Pending+st.Parked+st.Scheduled != 0 || st.DeadLettered != 1 {
		t.Errorf("status %+v, %v", st, err)
	}
	if got := f.purge(relay.PurgePublished, 10); got.Rows != 4 { // the fifth was given up
		t.Errorf("purged %+v", got)
	}
	d.End(t.Context())
	if got := value[string](f, `select note from postrider.outbox_receipt order by number desc limit 1`); got != "ended" {
		t.Errorf("the last receipt is %s", got)
	}
	f.freed()
	if !f.leads(f.store) {
		t.Error("no relay leads")
	}
	f.freed()
	// A session that is cut ends the term, behind a pooler too. Where the term has gone on in another one by then, that one
	// is cut next.
	d = f.lead()
	for lost := false; !lost; {
		f.exec(`select pg_terminate_backend($1)`, f.session(d, 0))
		select {
		case <-d.Lost():
			lost = true
		case <-time.After(5 * time.Second):
		}
	}
	f.fails(d.Settle(t.Context(), []*relay.Receipt{{}}), relay.ErrNotLeading)
}

package postgres

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/postrider/postrider/internal/pooler"
	"github.com/postrider/postrider/internal/relay"
	"github.com/postrider/postrider/internal/testenv/pgproxy"
	"github.com/postrider/postrider/internal/testenv/pgtest"
)

// leads reports whether a store begins a term now, which ends at once without handing over.
func (f *fixture) leads(s *Store) bool {
	f.Helper()
	l, err := s.Lead(f.Context(), "host:9:zzzz")
	f.done(err)
	if l != nil {
		f.letGo(l.(*leadership))
	}
	return l != nil
}

// session waits for the backend that holds a term, another than the one before, and returns it.
func (f *fixture) session(d *leadership, before int) (pid int) {
	f.Helper()
	for pid == 0 {
		select {
		case <-d.lost:
			f.Fatal("the term is over")
		default:
		}
		pid = value[int](f, `select coalesce((select pid from pg_locks where locktype = 'advisory' and objsubid = 1 and granted and mode = 'ShareLock'
			and (classid::bigint << 32 | objid::bigint) = $1 and pid <> $2 and database = (select oid from pg_database where datname = current_database()) limit 1), 0)`,
			d.nonce, before)
	}
	return pid
}

// freed waits until no session holds a term: the server learns after the client that a session has ended, and behind a pooler
// later still.
func (f *fixture) freed() {
	f.Helper()
	for value[bool](f, `select exists (select from pg_locks where locktype = 'advisory' and objsubid = 1 and granted and mode = 'ShareLock'
		and database = (select oid from pg_database where datname = current_database()))`) {
		time.Sleep(10 * time.Millisecond)
	}
}

// TestRule6OneLeads: if many try to lead at once, one begins a term, and no other does until that term ends.
func TestRule6OneLeads(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for round := range 40 {
		var wg sync.WaitGroup
		var mu sync.Mutex
		var leaders []*leadership
		for n := range 8 {
			wg.Go(func() {
				l, err := f.store.Lead(t.Context(), fmt.Sprintf("host:%d:x", n))
				if err != nil {
					t.Error(err)
				}
				if l != nil {
					mu.Lock()
					leaders = append(leaders, l.(*leadership))
					mu.Unlock()
				}
			})
		}
		wg.Wait()
		if len(leaders) != 1 {
			t.Fatalf("%d lead", len(leaders))
		}
		if d := leaders[0]; d.Began().Term != int64(round+1) || !d.Sure() || f.leads(f.store) {
			t.Errorf("the term is %+v, sure %v", d.Began(), d.Sure())
		}
		leaders[0].End(t.Context())
	}
}

// TestRule6ACutSessionMakesWayAtOnce.
func TestRule6ACutSessionMakesWayAtOnce(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.store.silence = 2 * time.Second // and so pings come soon
	d := f.lead()
	pid := f.session(d, 0)
	f.exec(`select pg_terminate_backend($1)`, pid)
	f.waitFor(`select not exists (select from pg_stat_activity where pid = $1)`, pid)
	other, _ := f.open(Options{}, StoreOptions{})
	next := f.leadBy(other, "host:2:bbbb")
	if next.Began().Term != 2 {
		t.Errorf("the next term is %d", next.Began().Term)
	}
	<-d.Lost()
	if d.Sure() {
		t.Error("the one that was cut off is sure")
	}
}

// TestRule6AFrozenLeaderIsNotSureBeforeAnotherLeads: nothing comes back from the database. The relay stops sending at half
// of the time after which its session ends; then another leads.
func TestRule6AFrozenLeaderIsNotSureBeforeAnotherLeads(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.insert("a")
	proxy := pgproxy.Start(t, f.db.URL)
	pool, err := NewPool(t.Context(), proxy.URL(), Options{})
	f.done(err)
	t.Cleanup(pool.Close)
	store := NewStore(pool, StoreOptions{})
	store.silence = 4 * time.Second // the other needs less than half of it to begin
	d := f.leadBy(store, "host:1:aaaa")
	pid := f.session(d, 0)
	proxy.Freeze()
	other, _ := f.open(Options{}, StoreOptions{})
	for {
		sure := d.Sure() // asked before: it may end meanwhile
		l, err := other.Lead(t.Context(), "host:2:bbbb")
		f.done(err)
		if l == nil {
			continue
		}
		defer f.letGo(l.(*leadership))
		if sure || d.Sure() {
			t.Error("two are sure that they lead")
		}
		break
	}
	f.waitFor(`select not exists (select from pg_stat_activity where pid = $1)`, pid)
	<-d.Lost()
	// What it wrote from memory arrives now, and is refused.
	proxy.Thaw()
	err = d.Settle(t.Context(), []*relay.Receipt{{Position: 1, Events: relay.Ranges{{First: 1, Last: 1}}}})
	if err == nil {
		t.Error("a frozen leader settled")
	}
	if got := f.progress(); !strings.HasSuffix(got, " 2 0 {}") {
		t.Errorf("progress is %s", got)
	}
}

// TestRule6RenewalKeepsNoVacuumBack: where a pooler keeps no session, the locks go from transaction to transaction. None has a
// transaction id or a snapshot, and no standby leads in between.
func TestRule6RenewalKeepsNoVacuumBack(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.store, f.relay = f.open(Options{Pooler: pooler.Transaction}, StoreOptions{})
	f.store.renewEach = 5 * time.Millisecond
	d := f.lead()
	stop := make(chan struct{})
	var wg sync.WaitGroup
	standby, _ := f.open(Options{}, StoreOptions{})
	wg.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			if l, err := standby.Lead(t.Context(), "host:2:bbbb"); l != nil || err != nil {
				t.Errorf("another leads: %v, %v", l, err)
				return
			}
		}
	})
	pid := 0
	for range 40 {
		pid = f.session(d, pid)
	}
	close(stop)
	wg.Wait()
	if old := value[int](f, `select count(*) from pg_locks where locktype = 'advisory' and granted and objsubid = 2 and classid = $1 and objid = $2
		and database = (select oid from pg_database where datname = current_database())`, lockClass, lockLeader); old > 2 {
		t.Errorf("%d sessions have the leader's lock", old)
	}
	f.settle(d, &relay.Receipt{})
	f.letGo(d)
	// A session that was cut off while it took over is gone a moment later.
	f.waitFor(`select not exists (select from pg_locks where locktype = 'advisory' and objsubid = 2 and classid = $1
		and database = (select oid from pg_database where datname = current_database()))`, lockClass)
	f.store.renewEach, f.store.askEach = time.Second, 50*time.Millisecond // pings come often
	d, pid = f.lead(), 0
	for range 2 {
		pid = f.session(d, pid)
		for range 20 {
			f.exec(`select pg_sleep(0.01)`)
			if got := value[int](f, `select count(*) from pg_stat_activity where pid = $1 and state = 'idle in transaction' and (backend_xid is not null or backend_xmin is not null)`, pid); got != 0 {
				t.Error("the session that leads keeps vacuum back")
			}
		}
	}
}

// TestRule6TheSessionThatLeads has no transaction, and stays the same. When the relay lets
// go, it is one as any other.
func TestRule6TheSessionThatLeads(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.store, f.relay = f.open(Options{MaxConns: 2}, StoreOptions{LeaderSilence: 9 * time.Second})
	f.store.renewEach = time.Millisecond
	d := f.lead()
	pid := f.session(d, 0)
	for range 50 {
		if _, err := d.Glance(t.Context(), 0, true); err != nil {
			t.Fatal(err)
		}
		// Now and then it is seen while it answers.
		f.waitFor(`select concat_ws(' ', state, backend_xid, backend_xmin) = 'idle' from pg_stat_activity where pid = $1`, pid)
		if f.session(d, 0) != pid {
			t.Fatal("another session leads")
		}
	}
	through, _ := f.open(Options{Pooler: pooler.Transaction}, StoreOptions{})
	if f.leads(through) {
		t.Error("another leads, through a pooler")
	}
	settings := func(conn *pgxpool.Conn) (s string) {
		f.done(conn.QueryRow(t.Context(), `select concat_ws(' ', pg_backend_pid(), current_setting('idle_session_timeout'), current_setting('lock_timeout'),
			(select count(*) from pg_locks where locktype = 'advisory' and pid = pg_backend_pid()))`).Scan(&s))
		return s
	}
	f.letGo(d)
	var all []*pgxpool.Conn
	for range 2 {
		conn, err := f.relay.Acquire(t.Context())
		f.done(err)
		all = append(all, conn)
		if got, want := settings(conn), fmt.Sprintf("%d 0 10s 0", conn.Conn().PgConn().PID()); got != want {
			t.Errorf("a session that led, or did not, is %s, want %s", got, want)
		}
	}
	for _, conn := range all {
		conn.Release()
	}
	if !f.leads(through) || !f.leads(f.store) {
		t.Error("no relay leads")
	}
}

// TestRule6AZombieWritesNothing: once its session is gone, neither what it settles nor what it takes, gives up or hands over
// is written, whether another leads by then or not.
func TestRule6AZombieWritesNothing(t *testing.T) {
	t.Parallel()
	for _, led := range []bool{false, true} {
		t.Run(fmt.Sprintf("another leads %v", led), func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			f.insert("a", "b", "c")
			h := f.keyHold("a", 0)
			f.pass(relay.Receipt{Holds: []relay.HoldChange{h}, Exceptions: append(parked(h.ID, 1), relay.Exception{ID: 2, State: relay.Scheduled, In: 1})})
			f.exec(`insert into postrider.outbox_skip_request values (1, 'why')`)
			d := f.term
			f.exec(`select pg_terminate_backend($1)`, f.session(d, 0))
			<-d.Lost()
			if led {
				f.lead()
			}
			before := f.progress()
			f.fails(d.Settle(t.Context(), []*relay.Receipt{{Gone: []int64{1, 2}, Ended: []int64{h.ID}}}), relay.ErrNotLeading)
			_, err := d.Take(t.Context(), relay.Taking{Scheduled: 5, Holds: []relay.TakingHold{{ID: h.ID, Events: 5}}, Bytes: 100})
			f.fails(err, relay.ErrNotLeading)
			f.fails(d.ResolveSkips(t.Context()), relay.ErrNotLeading)
			d.End(t.Context())
			if after := f.progress(); after != before || value[int](f, `select count(*) from postrider.outbox_receipt where note = 'ended'`) != 0 {
				t.Errorf("progress was %s and is %s", before, after)
			}
			f.wantStates("1:parked 2:scheduled 3:published")
			if value[int](f, `select count(*) from postrider.outbox_exception where sending_since is not null`)+1-f.holds() != 0 {
				t.Error("something is in hand of no relay")
			}
		})
	}
}

// TestRule6ATermWaitsForTheOneBefore: a transaction of the term before, whose session is gone since, has found the leader
// alive and not written yet. The next term begins behind it: what it put in hand is free.
func TestRule6ATermWaitsForTheOneBefore(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.insert("a")
	h := f.keyHold("a", 0)
	f.pass(relay.Receipt{Holds: []relay.HoldChange{h}, Exceptions: parked(h.ID, 1)})
	d := f.term
	zombie := f.db.Conn(t)
	pgtest.Exec(t, zombie, `begin`)
	pgtest.Exec(t, zombie, `select postrider.outbox_assert_leader($1)`, d.nonce)
	f.exec(`select pg_terminate_backend($1)`, f.session(d, 0))
	<-d.Lost()
	began := make(chan *leadership, 1)
	go func() {
		l, err := f.store.Lead(f.Context(), "host:2:bbbb")
		if err != nil {
			f.Error(err)
			began <- nil
			return
		}
		began <- l.(*leadership)
	}()
	f.waitFor(`select exists (select from pg_stat_activity where datname = current_database() and wait_event = 'advisory')`)
	pgtest.Exec(t, zombie, `update postrider.outbox_exception set sending_since = now()`)
	pgtest.Exec(t, zombie, `commit`)
	f.term = <-began
	if f.term == nil {
		t.FailNow()
	}
	t.Cleanup(func() { f.letGo(f.term) })
	f.equal("taken by the next", f.take(5, h.ID), 1)
}

// TestRule7ManyAskAtOnce: a session that asks whether the leader lives is not taken for the leader.
func TestRule7ManyAskAtOnce(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	alive := f.lead()
	var wg sync.WaitGroup
	for range 8 {
		conn := f.db.Conn(t)
		wg.Go(func() {
			for range 200 {
				if _, err := conn.Exec(t.Context(), `select postrider.outbox_assert_leader($1)`, alive.nonce); err != nil {
					t.Errorf("the leader lives: %v", err)
					return
				}
				if err := notLeading(second(conn.Exec(t.Context(), `select postrider.outbox_assert_leader(7)`))); !errors.Is(err, relay.ErrNotLeading) {
					t.Errorf("no relay leads: %v", err)
					return
				}
			}
		})
	}
	wg.Wait()
}

func second[T any](_ T, err error) error { return err }

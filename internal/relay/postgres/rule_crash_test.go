//go:build unix

package postgres

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/migrations"
	"github.com/postrider/postrider/internal/pgserver"
	"github.com/postrider/postrider/internal/relay"
	"github.com/postrider/postrider/internal/testenv/pgtest"
)

// ownServer is a fixture on a server of its own, which the test may stop.
func ownServer(t *testing.T, settings map[string]string) (f *fixture, restart func()) {
	t.Helper()
	dir := t.TempDir()
	f = &fixture{T: t, db: &pgtest.DB{}}
	// If root starts PostgreSQL, it runs as another user, who must be let in.
	f.done(os.Chmod(filepath.Dir(dir), 0o755))
	all := map[string]string{"fsync": "off", "shared_buffers": "16MB"}
	for name, value := range settings {
		all[name] = value
	}
	var server *pgserver.Server
	start := func() {
		t.Helper()
		var err error
		server, err = pgserver.Start(t.Context(), pgserver.Options{Dir: dir, Settings: all})
		f.done(err)
		ours := server
		t.Cleanup(func() { _ = ours.Stop(context.Background()) }) // an earlier one is stopped by then
		f.db.URL = server.URL()
		f.pool = f.db.Pool(t)
		f.store, f.relay = f.open(Options{}, StoreOptions{})
		f.term = nil
	}
	start()
	list, err := migrations.All()
	f.done(err)
	_, err = migrations.New(f.db.Conn(t), list).Up(t.Context())
	f.done(err)
	return f, func() {
		t.Helper()
		f.pool.Close()
		f.done(server.Stop(t.Context()))
		start()
	}
}

// TestRule7NothingIsSettledFromMemoryAfterACrash: the server lost the last commits, its postmaster lives, and it draws their
// ids again. Events that were read before are not settled, and new events are read.
func TestRule7NothingIsSettledFromMemoryAfterACrash(t *testing.T) {
	t.Parallel()
	for range 6 {
		if nothingIsSettledFromMemory(t) {
			return
		}
	}
	t.Error("the server kept what it was to lose, each time: nothing was tested")
}

// nothingIsSettledFromMemory is false where the server wrote the commits or the ids to the disk before it crashed, as it may do
// on a busy machine.
func nothingIsSettledFromMemory(t *testing.T) bool {
	f, _ := ownServer(t, map[string]string{"wal_writer_delay": "10s", "wal_writer_flush_after": "1GB", "checkpoint_timeout": "1h", "autovacuum": "off"})
	f.many(900)
	f.pass(relay.Receipt{})
	f.exec(`checkpoint`)
	// The server writes whole pages of its log at once. From the beginning of a segment the ids that are drawn last share the
	// page of the commit, which it does not write yet.
	f.exec(`select pg_switch_wal()`)
	d := f.term
	started := value[time.Time](f, `select pg_postmaster_start_time()`)
	conn := f.db.Conn(t)
	pgtest.Exec(t, conn, `set synchronous_commit = off`)
	pgtest.Exec(t, conn, `insert into postrider.outbox_event (topic) select 't' from generate_series(1, 100)`)
	read := f.read(d, nil, 900)
	if len(read.Events) != 100 {
		t.Fatalf("%d events were read", len(read.Events))
	}
	f.done(syscall.Kill(int(conn.PgConn().PID()), syscall.SIGKILL))
	<-d.Lost()
	for { // until it is up again
		c, err := pgx.Connect(t.Context(), f.db.URL)
		if err == nil {
			_ = c.Close(t.Context())
			break
		}
	}
	f.pool.Reset()
	if now := value[time.Time](f, `select pg_postmaster_start_time()`); !now.Equal(started) {
		t.Fatal("the server was started anew: nothing was tested")
	}
	if lost := value[int64](f, `select max(id) from postrider.outbox_event`); lost != 900 {
		t.Logf("the server kept events up to %d", lost)
		return false
	}
	f.exec(`insert into postrider.outbox_event (topic) select 'new' from generate_series(1, 50)`)
	if again := value[int64](f, `select min(id) from postrider.outbox_event where topic = 'new'`); again > 1000 {
		t.Logf("ids go on with %d", again)
		return false
	}
	f.store.pool.Reset()
	f.fails(d.Settle(t.Context(), []*relay.Receipt{{Position: 1000, Events: relay.Ranges{{First: 901, Last: 1000}}}}), relay.ErrNotLeading)
	f.term = f.lead()
	if b := f.term.Began(); b.Position != 900 {
		t.Errorf("the next term begins at %d", b.Position)
	}
	if page := f.read(f.term, nil, 900); len(page.Events) != 50 {
		t.Errorf("%d of the new events are read", len(page.Events))
	}
	return true
}

// TestRule5PreparedTransactions fill gaps, too: also after a restart, where they are found under another name than before.
func TestRule5PreparedTransactions(t *testing.T) {
	t.Parallel()
	f, restart := ownServer(t, map[string]string{"max_prepared_transactions": "5"})
	const insert = `insert into postrider.outbox_event (topic, payload) values ('t', 'prepared')`
	open := f.locking(insert)
	f.writes("t", "k", "x")
	b := &memory{}
	w := &watched{Store: f.store}
	stop := f.run(b, nil, func(c *relay.Config) { c.Store = w })
	f.state(2, "published")
	for gaps, _ := w.asked(); len(gaps) > 0; gaps, _ = w.asked() {
		f.exec(`select pg_sleep(0.002)`)
	}
	open(`prepare transaction 'left over'`)
	look := func() relay.Look {
		t.Helper()
		l, err := (&leadership{log: f.store}).Look(t.Context())
		f.done(err)
		return l
	}
	before := look()
	if len(before.Holders) != 1 || before.Holders[0].XID == 0 {
		t.Errorf("prepared: %+v", before)
	}
	f.writes("t", "k", "y")
	f.waitFor(`select exists (select from postrider.v_outbox_event where id = 3 and state = 'published')`)
	if got := f.gaps(); got != "{[1,2)}" {
		t.Errorf("the gaps are %s", got)
	}
	stop()
	restart()
	if after := look(); len(after.Holders) != 1 || !after.Holders[0].Prepared || after.Holders[0].XID != before.Holders[0].XID {
		t.Errorf("after a restart: %+v, before: %+v", after, before)
	}
	f.run(b, nil, nil)
	f.exec(`commit prepared 'left over'`)
	f.waitFor(`select gaps = '{}' from postrider.outbox_progress`)
	if got := b.arrived("t"); got != "x y prepared" {
		t.Errorf("arrived %s", got)
	}
}

// TestRewound: a sequence below the position stops the relay by name, when it begins to lead and while it leads. What was
// silent without that: the rows are never read.
func TestRewound(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.many(10)
	f.pass(relay.Receipt{})
	d := f.term
	f.exec(`truncate postrider.outbox_event restart identity`)
	f.many(3)
	_, err := d.Read(t.Context(), relay.Question{Position: 10, Events: 5, Bytes: 5})
	f.fails(err, ErrRewound)
	f.letGo(d)
	_, err = f.store.Lead(t.Context(), "host:1:aaaa")
	f.fails(err, ErrRewound)
	var said *relay.StoreError
	if !errors.As(err, &said) {
		t.Errorf("the error is %T", err)
	}
	// As it says: what comes after is read; what came before stands below the position, and retention finds it.
	f.exec(`select setval(pg_get_serial_sequence('postrider.outbox_event', 'id'), 10)`)
	f.many(2)
	f.term = f.lead()
	if events := f.pass(relay.Receipt{}); len(events) != 2 || events[0].ID != 11 {
		t.Errorf("read %+v", events)
	}
	_, err = f.store.Purge(t.Context(), relay.PurgeLimits{Kind: relay.PurgePublished, Rows: 100})
	f.fails(err, relay.ErrMiscounted)
}

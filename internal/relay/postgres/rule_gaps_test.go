package postgres

import (
	"context"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/postrider/postrider/internal/relay"
	"github.com/postrider/postrider/internal/testenv/pgtest"
)

// paused returns a store whose reads stop behind their snapshot, before they have seen a row, as long as a session holds the
// advisory lock 42: its sessions find a function clock_timestamp that waits for it.
func (f *fixture) paused() *Store {
	f.Helper()
	f.exec(`create schema pause`)
	f.exec(`create function pause.clock_timestamp() returns timestamptz language plpgsql volatile as $$
		begin
			perform pg_catalog.pg_advisory_xact_lock_shared(42);
			return pg_catalog.clock_timestamp();
		end $$`)
	cfg, err := pgxpool.ParseConfig(f.db.URL)
	f.done(err)
	cfg.ConnConfig.RuntimeParams["search_path"] = "pause, pg_catalog"
	cfg.ConnConfig.RuntimeParams["application_name"] = "paused"
	pool, err := pgxpool.NewWithConfig(f.Context(), cfg)
	f.done(err)
	f.Cleanup(pool.Close)
	return NewStore(pool, StoreOptions{})
}

// TestRule4OneSnapshot forces the interleaving that breaks a reader of two statements: while it reads, an earlier event of
// a key is committed in a gap, and then, by a writer that waited for that, a later one behind the position.
func TestRule4OneSnapshot(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	commit := f.locking(`insert into postrider.outbox_event (topic, key) values ('t', 'a')`)
	f.insert("b")
	d := &leadership{log: f.paused()}
	gate := f.locking(`select pg_advisory_xact_lock(42)`)
	type result struct {
		page relay.Page
		err  error
	}
	q := relay.Question{Gaps: relay.Ranges{{First: 1, Last: 1}}, Position: 2, Events: 100, Bytes: 1 << 20}
	read := make(chan result, 1)
	go func() {
		page, err := d.Read(t.Context(), q)
		read <- result{page, err}
	}()
	f.waitFor(`select exists (select from pg_stat_activity where datname = current_database() and application_name = 'paused' and wait_event = 'advisory')`)
	commit("commit")
	f.insert("a")
	gate("rollback")
	got := <-read
	f.done(got.err)
	f.equal("beside the commits", idsOf(got.page))
	if got.page.Snapshot.Max == 0 {
		t.Error("the read does not say what it saw")
	}
	page, err := d.Read(t.Context(), q)
	f.done(err)
	f.equal("after them", idsOf(page), 1, 3)
	if page.Filled != 1 || !page.Complete || page.More {
		t.Errorf("the page is %+v", page)
	}
}

// TestRule4GapsFirst: when there may be more in gaps, nothing behind the position is read.
func TestRule4GapsFirst(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.many(20)
	d := f.leader()
	read := func(events int, bytes int64) relay.Page {
		t.Helper()
		page, err := d.Read(t.Context(), relay.Question{Gaps: relay.Ranges{{First: 1, Last: 2}, {First: 5, Last: 8}}, Position: 10, Events: events, Bytes: bytes})
		f.done(err)
		return page
	}
	for _, c := range []struct {
		events         int
		bytes          int64
		ids            []int64
		filled         int
		complete, more bool
	}{
		{5, 1 << 20, []int64{1, 2, 5, 6, 7}, 5, false, true},
		{6, 1 << 20, []int64{1, 2, 5, 6, 7, 8}, 6, false, true}, // there may be a seventh
		{7, 1 << 20, []int64{1, 2, 5, 6, 7, 8, 11, 12, 13, 14, 15, 16, 17}, 6, true, true},
		{100, 1 << 20, []int64{1, 2, 5, 6, 7, 8, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20}, 6, true, false},
		{100, 1, []int64{1}, 1, false, true}, // one in any case
		{100, 18, []int64{1, 2, 5, 6, 7, 8, 11, 12}, 6, true, true},
	} {
		page := read(c.events, c.bytes)
		if f.equal(fmt.Sprintf("%d events of %d bytes", c.events, c.bytes), idsOf(page), c.ids...); page.Filled != c.filled || page.Complete != c.complete || page.More != c.more {
			t.Errorf("%d events of %d bytes: %d filled, complete %v, more %v", c.events, c.bytes, page.Filled, page.Complete, page.More)
		}
	}
}

// TestRule5WhoCanFillAGap: a look finds every transaction that may commit an id, by the id that snapshots show, and none
// once it has ended.
func TestRule5WhoCanFillAGap(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	d := f.leader()
	const insert = `insert into postrider.outbox_event (topic) values ('t')`
	look := func() relay.Look {
		t.Helper()
		l, err := d.Look(t.Context())
		f.done(err)
		return l
	}
	f.exec(insert)
	if l := look(); l.Last != 1 || len(l.Holders) != 0 || l.Unknown.Code != "" {
		t.Errorf("no writer is open: %+v", l)
	}
	for name, statements := range map[string][]string{
		"plain":                   {insert},
		"in subtransactions":      {`savepoint a`, insert, `savepoint b`, insert, `release a`, insert},
		"rolled back to, later":   {`lock table postrider.outbox_event in row exclusive mode`, `savepoint a`, insert, `rollback to a`},
		"first in others":         {`create temporary table mine (n int)`, `savepoint a`, insert},
		"a thousand":              {`do $$ begin for i in 1..1000 loop begin insert into postrider.outbox_event (topic) values ('t'); exception when division_by_zero then null; end; end loop; end $$`},
		"by a function":           {`select postrider.outbox_publish('t', 'k', '{}'::jsonb)`},
		"without an id":           {`insert into postrider.outbox_event (topic) select 't' where false`},
		"with the table's lock":   {`lock table postrider.outbox_event in share row exclusive mode`},
		"serialised, exclusively": {`lock table postrider.outbox_event in exclusive mode`, insert},
	} {
		conn := f.db.Conn(t)
		pgtest.Exec(t, conn, `begin`)
		for _, sql := range statements {
			pgtest.Exec(t, conn, sql)
		}
		xid := pgtest.Value[uint64](t, conn, `select coalesce(pg_current_xact_id_if_assigned()::text::bigint, 0)`)
		l := look()
		if len(l.Holders) != 1 || l.Holders[0].XID != xid || l.Holders[0].Prepared || l.Last != value[int64](f, `select last_value from postrider.outbox_event_id_seq`) {
			t.Errorf("%s: %+v, want the transaction %d", name, l, xid)
		} else if s := f.read(d, nil, 0).Snapshot; xid != 0 && !s.Runs(xid) {
			t.Errorf("%s: a read does not show that it runs: %+v", name, s)
		}
		pgtest.Exec(t, conn, `rollback`)
		if l := look(); len(l.Holders) != 0 {
			t.Errorf("%s, ended: %+v", name, l)
		}
		if s := f.read(d, nil, 0).Snapshot; xid != 0 && s.Runs(xid) {
			t.Errorf("%s: a read shows that it runs after its end: %+v", name, s)
		}
	}
	// What was undone takes its lock with it: its ids never come.
	undone := f.locking(`savepoint a; ` + insert + `; rollback to a`)
	if l := look(); len(l.Holders) != 0 {
		t.Errorf("undone: %+v", l)
	}
	undone("rollback")
	// A session that only reads, and a session in another database, can fill no gap.
	reads := f.locking(`select from postrider.outbox_event`)
	other := newFixture(t)
	writes := other.locking(insert)
	if l := look(); len(l.Holders) != 0 {
		t.Errorf("readers and other databases: %+v", l)
	}
	reads("rollback")
	writes("rollback")
}

// TestRule5FullXID: ids of 32 bits count on, on both sides of where they begin anew.
func TestRule5FullXID(t *testing.T) {
	t.Parallel()
	const epoch = 1 << 32
	for _, c := range []struct {
		xid  uint32
		max  uint64
		want uint64
	}{
		{5, 10, 5}, {12, 10, 12}, {5, 3*epoch + 10, 3*epoch + 5},
		{math.MaxUint32, 3*epoch + 10, 3*epoch - 1}, // from before they began anew
		{3, 3*epoch - 5, 3*epoch + 3},               // begun since the snapshot
		{math.MaxUint32, math.MaxUint32, math.MaxUint32},
	} {
		if got := fullXID(c.xid, c.max); got != c.want {
			t.Errorf("fullXID(%d, %d) = %d, want %d", c.xid, c.max, got, c.want)
		}
	}
	s, err := parseSnapshot("10:20:12,15")
	if err != nil || s.Max != 20 || fmt.Sprint(s.Running) != "[12 15]" || !s.Runs(12) || s.Runs(13) || !s.Runs(20) || s.Runs(9) {
		t.Errorf("a snapshot is read as %+v, %v", s, err)
	}
	for _, text := range []string{"", "1:2", "a:b:c", "1:2:x"} {
		if _, err := parseSnapshot(text); err == nil {
			t.Errorf("%q is read as a snapshot", text)
		}
	}
}

// TestRule5OldGapsCostNothing: while a transaction is open for long, reads pass its gap over; when it commits the next read
// has it, and when it rolls back it is forgotten.
func TestRule5OldGapsCostNothing(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"commit", "rollback"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			b := &memory{}
			w := &watched{Store: f.store}
			conn := f.db.Conn(t)
			pgtest.Exec(t, conn, `begin`)
			pgtest.Exec(t, conn, `insert into postrider.outbox_event (topic, key, payload) values ('t', 'k', 'late'), ('t', 'k', 'later')`)
			f.writes("t", "k", "x")
			f.run(b, nil, func(c *relay.Config) { c.Store = w })
			f.state(3, "published")
			// Once a look has found who can fill it. The look may still have the locks of a writer that has committed: the
			// read that sees this is made again, and asks once more.
			w.passOver(f, 2)
			asking := w.asking.Load()
			if got := f.gaps(); got != "{[1,3)}" {
				t.Errorf("the gaps are %s", got)
			}
			f.writes("t", "k", "y")
			f.state(4, "published")
			w.passOver(f, 10)
			if n := w.asking.Load() - asking; n > 0 {
				t.Errorf("%d reads ask for the gap while the transaction runs", n)
			}
			pgtest.Exec(t, conn, how)
			f.waitFor(`select gaps = '{}' from postrider.outbox_progress`)
			want := "x y"
			forgotten := "{[1,3)}"
			if how == "commit" {
				want, forgotten = "x y late later", "{}"
			}
			if got := b.arrived("t"); got != want {
				t.Errorf("arrived %s, want %s", got, want)
			}
			if got := value[string](f, `select coalesce((select range_agg(g) from postrider.outbox_receipt r, unnest(r.forgotten) g), '{}')::text`); got != forgotten {
				t.Errorf("forgotten is %s, want %s", got, forgotten)
			}
		})
	}
}

func (f *fixture) gaps() string {
	f.Helper()
	return value[string](f, `select gaps::text from postrider.outbox_progress`)
}

// TestRule5NothingIsLostOrForgottenTooEarly: writers that open, wait, use subtransactions, roll back and commit in any order,
// beside relays that come and go. Whatever was committed arrives.
func TestRule5NothingIsLostOrForgottenTooEarly(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	b := &memory{}
	stop := f.run(b, nil, nil)
	const writers, rounds = 6, 25
	done := make(chan error, writers)
	for n := range writers {
		go func() { done <- unevenWriter(f.Context(), f.db.URL, n, rounds) }()
	}
	for ended := 0; ended < writers; {
		select {
		case err := <-done:
			f.done(err)
			ended++
		default:
			stop() // the next one begins with the gaps of this one
			stop = f.run(b, nil, nil)
			f.exec(`select pg_sleep(0.05)`)
		}
	}
	f.waitFor(`select gaps = '{}' and position = (select max(id) from postrider.outbox_event) from postrider.outbox_progress`)
	stop()
	want := pgtest.Column[string](t, f.pool, `select convert_from(payload, 'UTF8') from postrider.outbox_event order by 1`)
	got := map[string]int{}
	for _, m := range b.arrivals() {
		got[string(m.Value)]++
	}
	for _, v := range want {
		if got[v] != 1 {
			t.Errorf("%s arrived %d times", v, got[v])
		}
		delete(got, v)
	}
	if len(got) > 0 || len(want) < writers*rounds/2 {
		t.Errorf("of %d events these were never committed: %v", len(want), got)
	}
}

func unevenWriter(ctx context.Context, url string, n, rounds int) error {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return err
	}
	defer conn.Close(context.Background())
	for i := range rounds {
		sql := []string{"begin", fmt.Sprintf("insert into postrider.outbox_event (topic, key, payload) values ('t', '%d', '%d/%d a')", n, n, i)}
		if i%3 == 0 {
			sql = append(sql, "savepoint s", fmt.Sprintf("insert into postrider.outbox_event (topic, payload) values ('t', '%d/%d b')", n, i), []string{"release s", "rollback to s"}[i%2])
		}
		sql = append(sql, fmt.Sprintf("select pg_sleep(%f)", float64((n*7+i*13)%20)/1000), []string{"commit", "commit", "rollback"}[(n+i)%3])
		if _, err := conn.Exec(ctx, strings.Join(sql, "; ")); err != nil {
			return err
		}
	}
	return nil
}

package postgres

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/postrider/postrider/migrations/pgtest"
	"github.com/postrider/postrider/relay"
)

// buffers is how many pages a claim of everything reads.
func (f *fixture) buffers() (n int) {
	f.Helper()
	k := f.store.water.known()
	known := fmt.Sprintf(", '{%s}'::bigint[], '{%s}'::bigint[])", commas(k.epochs), commas(k.marks))
	err := pgx.BeginFunc(f.Context(), f.relay, func(tx pgx.Tx) error {
		for _, q := range []struct {
			sql  string
			args string
		}{{lockShards, "(0, 64" + known}, {claimEvents, "(1000, 67108864" + known}, {claimCrashes, fmt.Sprintf("('w', %d)", f.store.markers.gone.Load())}} {
			if _, err := tx.Exec(f.Context(), "prepare counted as "+q.sql); err != nil {
				return err
			}
			var text []byte
			if err := tx.QueryRow(f.Context(), "explain (analyze, buffers, timing off, format json) execute counted"+q.args).Scan(&text); err != nil {
				return err
			}
			var plans []struct {
				Plan struct {
					Hit  int `json:"Shared Hit Blocks"`
					Read int `json:"Shared Read Blocks"`
				}
			}
			if err := json.Unmarshal(text, &plans); err != nil {
				return err
			}
			n += plans[0].Plan.Hit + plans[0].Plan.Read
			if _, err := tx.Exec(f.Context(), "deallocate counted"); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		f.Fatalf("count the pages of a claim: %v", err)
	}
	return n
}

// commas are the numbers of an array.
func commas(of []int64) string {
	return strings.Trim(strings.ReplaceAll(fmt.Sprint(of), " ", ","), "[]")
}

// snapshot holds one open, as a report or a dump would, until it is ended.
func (f *fixture) snapshot() (end func()) {
	f.Helper()
	tx, err := f.pool.BeginTx(f.Context(), pgx.TxOptions{IsoLevel: pgx.RepeatableRead})
	if err == nil {
		_, err = tx.Exec(f.Context(), `select count(*) from postrider.outbox_event`)
	}
	if err != nil {
		f.Fatal(err)
	}
	return func() { _ = tx.Rollback(f.Context()) }
}

// pass looks now for markers that are gone, twice: the second look believes the first.
func (f *fixture) pass() {
	f.Helper()
	for range 2 {
		f.store.markers.looked = time.Time{}
		f.store.water.looked = time.Time{}
		if err := f.store.raiseMarks(f.Context()); err != nil {
			f.Fatal(err)
		}
	}
}

// TestFault27DeadRows: somebody's snapshot, or an autovacuum that is off, keeps the dead entries of tens of
// thousands of settled events in the claim index. A claim costs what it costs in an empty outbox.
func TestFault27DeadRows(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.exec(`alter table postrider.outbox_event set (autovacuum_enabled = off)`)
	f.raise()
	f.insert("a")
	empty := f.buffers()
	f.settle(f.claim(), &relay.Settlement{Delivered: []int64{1}})
	defer f.snapshot()()
	worst := 0
	for range 4 {
		f.many(10_000)
		f.insert("a")
		worst = max(worst, f.buffers())
		f.raise()
		if n := f.buffers(); n > 3*empty+200 {
			t.Errorf("a claim reads %d pages beside dead rows, and %d without", n, empty)
		}
		c := f.claim()
		f.settle(c, &relay.Settlement{Delivered: claimed(c)})
	}
	t.Logf("pages of a claim: %d in an empty outbox, up to %d before the marks rise", empty, worst)
	if worst < 10*empty {
		t.Errorf("even without the marks a claim reads only %d pages, %d in an empty outbox: nothing was tested", worst, empty)
	}
}

// TestFault27DeadMarkers: every batch has its marker, every mark that rises a row, and beside a snapshot all their dead
// rows stay. A claim costs what it costs in an empty outbox.
func TestFault27DeadMarkers(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for _, table := range []string{"outbox_batch", "outbox_shard"} {
		f.exec(`alter table postrider.` + table + ` set (autovacuum_enabled = off)`)
	}
	f.insert("a")
	empty := f.buffers()
	defer f.snapshot()()
	for range 20 { // 20,000 batches
		f.exec(`insert into postrider.outbox_batch (worker, shards, first_id, last_id, events) select 'w', '{1,2,3}', n, n, 1 from generate_series(1, 1000) n`)
		f.exec(`delete from postrider.outbox_batch`)
	}
	worst := f.buffers()
	f.pass()
	if n := f.buffers(); n > empty+50 {
		t.Errorf("a claim reads %d pages beside dead markers, and %d without", n, empty)
	}
	if worst < empty+200 {
		t.Errorf("even before it is known which are gone a claim reads only %d pages, %d in an empty outbox: nothing was tested", worst, empty)
	}
}

// deadMarks leaves so many dead rows in the table of the shards, which the statistics know.
func (f *fixture) deadMarks(rounds int) (rows int) {
	f.Helper()
	conn := f.db.Conn(f.T)
	for range rounds {
		pgtest.Exec(f.T, conn, `update postrider.outbox_shard set low_water = low_water`)
	}
	pgtest.Exec(f.T, conn, `select pg_stat_force_next_flush()`)
	return pgtest.Value[int](f.T, conn, `select pg_stat_get_dead_tuples('postrider.outbox_shard'::regclass)`)
}

// TestFault27DeadMarks: each rise of the marks leaves dead rows that claims walk over as well. Beside a snapshot they
// rise over as many ids as there are dead rows, and over 64 times as many while what is known needs no mark.
func TestFault27DeadMarks(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.exec(`alter table postrider.outbox_shard set (autovacuum_enabled = off)`)
	f.many(raiseAfter + 500)
	f.raise()
	before := f.lowest()
	defer f.snapshot()()
	if n := f.deadMarks(100); n < 3*raiseAfter {
		t.Fatalf("%d dead rows are known: nothing was tested", n)
	}
	f.exec(`update postrider.outbox_shard set epoch = -epoch`)
	f.many(raiseAfter + 500)
	if f.raise(); f.lowest() != before {
		t.Errorf("the marks rose over %d ids beside three times as many dead rows", f.lowest()-before)
	}
	f.many(4 * raiseAfter)
	if f.raise(); f.lowest() == before {
		t.Error("the marks do not rise over more ids than there are dead rows")
	}
	before = f.lowest()
	f.many(10 * raiseAfter)
	if f.raise(); f.lowest() != before {
		t.Errorf("the marks rose over %d ids although they are known without", f.lowest()-before)
	}
	if got := slices.Min(f.store.water.known().marks); got <= before {
		t.Errorf("known is %d, what is written is %d", got, before)
	}
}

// TestFault27ManyDeadRows: where the marks do not rise, because their own dead rows would be in the way, a claim knows
// how far the shards are settled. It costs what it costs in an empty outbox, and finds what comes.
func TestFault27ManyDeadRows(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for _, table := range []string{"outbox_event", "outbox_shard"} {
		f.exec(`alter table postrider.` + table + ` set (autovacuum_enabled = off)`)
	}
	f.raise()
	defer f.snapshot()()
	f.deadMarks(20)
	f.insert("a")
	empty, worst := f.buffers(), 0
	f.settle(f.claim(), &relay.Settlement{Delivered: []int64{1}})
	for range 3 {
		f.many(10_000)
		f.insert("a")
		worst = max(worst, f.buffers())
		f.raise()
		if n := f.buffers(); n > empty+200 {
			t.Errorf("a claim reads %d pages beside dead rows, and %d without", n, empty)
		}
		c := f.claim()
		f.settle(c, &relay.Settlement{Delivered: claimed(c)})
	}
	if n := f.lowest(); n > 0 {
		t.Errorf("the marks were written, up to %d: nothing was tested", n)
	}
	if worst < empty+2000 {
		t.Errorf("even before it is known what is settled a claim reads only %d pages, %d in an empty outbox: nothing was tested", worst, empty)
	}
}

// TestLateMarkerIsFound: a marker that was committed when all of its time were taken for gone is found a minute later.
func TestLateMarkerIsFound(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.insert("a")
	slow, err := f.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer slow.Rollback(t.Context())
	mark := func(q interface {
		Exec(context.Context, string, ...any) (pgconn.CommandTag, error)
	}) {
		t.Helper()
		if _, err := q.Exec(t.Context(), `insert into postrider.outbox_batch (worker, shards, first_id, last_id, events) select 'dead', array_agg(s), 1, 1, 1 from generate_series(0, 63) s`); err != nil {
			t.Fatal(err)
		}
	}
	mark(slow)
	mark(f.pool)
	f.exec(`delete from postrider.outbox_batch`)
	f.pass()
	if err := slow.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	deaths := func() int {
		c := f.claim()
		defer c.Abandon()
		return c.Batch().Crashes
	}
	if n := deaths(); n != 0 {
		t.Fatalf("%d deaths are counted before anybody looked: nothing was tested", n)
	}
	f.store.markers.swept = time.Time{}
	f.pass()
	if n := deaths(); n != 1 {
		t.Errorf("%d deaths are counted, want that of the late marker", n)
	}
}

// TestMarkersNumberedAnew: after a crash of the database its unlogged tables are empty, and batches are numbered from one.
func TestMarkersNumberedAnew(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.insert("a")
	for range 10 {
		f.claimAs("host:1:aaaa/0").Abandon()
	}
	f.pass()
	if n := f.store.markers.gone.Load(); n < 10 {
		t.Fatalf("markers are known to be gone up to %d: nothing was tested", n)
	}
	f.exec(`truncate postrider.outbox_batch restart identity`)
	f.die(f.claimAs("host:1:aaaa/0"))
	f.pass()
	c := f.claimAs("host:2:bbbb/0")
	defer c.Abandon()
	f.wantCrashes(c, 1, 1, 1)
}

// TestMarksStayWhereIDsComeInBlocks: a session that has drawn a block of ids uses it in transactions that
// nobody can see coming. So there the marks do not rise.
func TestMarksStayWhereIDsComeInBlocks(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.exec(`alter table postrider.outbox_event alter column id set cache 100`)
	conn := f.db.Conn(t)
	if _, err := conn.Exec(t.Context(), `insert into postrider.outbox_event (topic) values ('t')`); err != nil {
		t.Fatal(err)
	}
	f.many(raiseAfter + 500)
	f.raise()
	if _, err := conn.Exec(t.Context(), `insert into postrider.outbox_event (topic, key) values ('t', 'late')`); err != nil {
		t.Fatal(err)
	}
	c := f.claim()
	defer c.Abandon()
	if n := len(c.Batch().Events); n != 1 {
		t.Errorf("claimed %d events, want the one with an id below the others", n)
	}
}

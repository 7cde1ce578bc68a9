package postgres

import (
	"encoding/json"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/relay"
)

// buffers is how many pages a claim of everything reads.
func (f *fixture) buffers() (n int) {
	f.Helper()
	err := pgx.BeginFunc(f.Context(), f.relay, func(tx pgx.Tx) error {
		for _, q := range []struct {
			sql  string
			args string
		}{{lockShards, "(0, 64)"}, {claimEvents, "(1000, 67108864)"}} {
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
	reader, err := f.pool.BeginTx(t.Context(), pgx.TxOptions{IsoLevel: pgx.RepeatableRead})
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Rollback(t.Context())
	if _, err := reader.Exec(t.Context(), `select count(*) from postrider.outbox_event`); err != nil {
		t.Fatal(err)
	}
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

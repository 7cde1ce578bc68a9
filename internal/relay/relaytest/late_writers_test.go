package relaytest

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/testenv/pgtest"
)

// begin begins a writer's transaction that is rolled back at the end of the test, unless it ended before.
func (r *rig) begin() pgx.Tx {
	r.Helper()
	tx, err := r.pool.Begin(r.Context())
	if err != nil {
		r.Fatal(err)
	}
	r.Cleanup(func() { _ = tx.Rollback(context.Background()) })
	return tx
}

func (r *rig) in(tx pgx.Tx, sql string, args ...any) {
	r.Helper()
	if _, err := tx.Exec(r.Context(), sql, args...); err != nil {
		r.Fatal(err)
	}
}

// TestBulkTransactionRollsBack: a transaction writes 200,000 events and rolls back in the end, while others write. These
// do not wait for it, and afterwards its ids are forgotten: they are no gap that is read for ever.
func TestBulkTransactionRollsBack(t *testing.T) {
	t.Parallel()
	const bulk = 200_000
	r := newRig(t)
	topic, dlq := r.broker.Topic(t, 2, nil), r.broker.Topic(t, 1, nil)
	l := r.newLedger(topic)
	l.write(topic, 20, 10)
	r.start(dlq)
	tx := r.begin()
	const chunks = 4
	for range chunks {
		r.in(tx, `insert into postrider.outbox_event (topic, key, payload) select $1, convert_to('bulk' || n % 100, 'UTF8'), 'never|' from generate_series(1, $2::int) n`, topic, bulk/chunks)
		l.write(topic, 20, 10) // among its ids
		r.until(drained)
	}
	r.until(`(select sum(upper(g) - lower(g)) = $1 from postrider.outbox_progress p, unnest(p.gaps) g)`, bulk)
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.until(`(select isempty(gaps) from postrider.outbox_progress)`)
	r.until(`(select sum(upper(g) - lower(g)) = $1 from postrider.outbox_receipt r, unnest(r.forgotten) g)`, bulk)
	l.write(topic, 20, 10)
	r.until(drained)
	l.wantOnce(dlq)
}

// TestWriterIdleInTransaction: a writer has written an event and does nothing more. Nothing waits for it but its own
// event, and what it has not written is not forgotten. The session of the relay that leads keeps no vacuum back.
func TestWriterIdleInTransaction(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	topic, dlq := r.broker.Topic(t, 2, nil), r.broker.Topic(t, 1, nil)
	l := r.newLedger(topic)
	r.start(dlq)
	r.start(dlq)
	l.write(topic, 10, 10)
	r.until(drained)
	r.exec(`create table dead with (autovacuum_enabled = off) as select n from generate_series(1, 10000) n`)
	r.exec(`delete from dead`)
	// A statement that happens to run has a snapshot, for as long as it runs.
	r.until(`exists (select from pg_locks l join pg_stat_activity a using (pid) where a.datname = current_database() and a.state = 'idle'
		and a.backend_xid is null and a.backend_xmin is null and l.locktype = 'advisory' and l.classid = 1349481332 and l.objid = 2 and l.granted)`)
	for deadline := time.Now().Add(3 * time.Minute); ; {
		r.exec(`vacuum dead`)
		if pgtest.Value[int64](t, r.pool, `select pg_relation_size('dead')`) == 0 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("a vacuum beside the relays removes nothing")
		}
	}

	tx := r.begin()
	r.in(tx, `insert into postrider.outbox_event (topic, key, payload) values ($1, 'idle', 'idle|')`, topic)
	for range 10 {
		l.write(topic, 10, 10)
		r.until(drained)
	}
	r.until(`pg_sleep(1.5) is not null`) // transactions are looked at once a second
	if gaps := pgtest.Value[string](t, r.pool, `select gaps::text from postrider.outbox_progress`); gaps != "{[101,102)}" {
		t.Errorf("the gaps are %s, want the one event of the idle writer", gaps)
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.until(`(select isempty(gaps) from postrider.outbox_progress)`)
	r.until(drained)
	if n := len(r.broker.ReadAll(t, topic, 1101)); n != 1101 {
		t.Errorf("%d records, want 1101", n)
	}
}

// TestLateCommitsOfInterleavedIDs: two transactions draw 2,000 ids each in turns with each other and with writers that
// commit at once, and commit late, one after a relay took over from another. Each arrives complete, and in order per key.
func TestLateCommitsOfInterleavedIDs(t *testing.T) {
	t.Parallel()
	const rounds = 400
	r := newRig(t)
	topic, dlq := r.broker.Topic(t, 3, nil), r.broker.Topic(t, 1, nil)
	l := r.newLedger(topic)
	first := r.start(dlq)
	late := []pgx.Tx{r.begin(), r.begin()}
	for n := range rounds {
		for i, tx := range late {
			r.in(tx, `insert into postrider.outbox_event (topic, key, payload)
				select $1, convert_to($2 || k, 'UTF8'), convert_to($3::int::text, 'UTF8') from generate_series(1, 5) k`, topic, fmt.Sprintf("late%d/", i), n)
		}
		l.write(topic, 2, 1)
	}
	r.until(drained)
	commit := func(i, arrived int) {
		t.Helper()
		if err := late[i].Commit(t.Context()); err != nil {
			t.Fatal(err)
		}
		r.until(drained)
		next := map[string]int{}
		records := r.broker.ReadAll(t, topic, arrived)
		for _, rec := range records {
			if key := string(rec.Key); key[0] == 'l' {
				if want := fmt.Sprint(next[key]); string(rec.Value) != want {
					t.Fatalf("%s of %s is where %s should be", rec.Value, key, want)
				}
				next[key]++
			}
		}
		if len(records) != arrived || len(next) != 5*(i+1) {
			t.Errorf("%d records of %d late keys, want %d of %d", len(records), len(next), arrived, 5*(i+1))
		}
	}
	commit(0, 2*rounds+5*rounds)
	r.start(dlq)
	first.halt()
	r.until(`(select max(term) from postrider.outbox_receipt) = 2`)
	commit(1, 2*rounds+10*rounds)
	r.until(`(select isempty(gaps) from postrider.outbox_progress)`)
}

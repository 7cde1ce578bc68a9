package postgres

import (
	"testing"

	"github.com/jackc/pgx/v5"
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
		if through, _, _, err = s.order.final(f.Context(), sessions{f.relay}); err != nil {
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

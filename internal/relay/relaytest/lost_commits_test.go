package relaytest

import (
	"strings"
	"testing"
	"time"

	"github.com/postrider/postrider/internal/relay"
	"github.com/postrider/postrider/internal/testenv/pgtest"
)

// TestFault22CommitsLostInACrash: writers commit with synchronous_commit off, their events go, and the server crashes
// before either is on its disk. Kafka then has records whose transactions do not exist any more, and their ids are drawn
// again. But every event that is committed when the server is back is sent, once and in order, whatever its id.
func TestFault22CommitsLostInACrash(t *testing.T) {
	t.Parallel()
	s := newServer(t, map[string]string{"wal_writer_delay": "10s"})
	r := onServer(t, s)
	topic, dlq := r.broker.Topic(t, 2, nil), r.broker.Topic(t, 1, nil)
	l := r.newLedger(topic)
	e := r.startWith(dlq, options{engine: func(c *relay.Config) { c.BatchSize = 20 }})
	l.write(topic, 5, 3)
	r.until(drained)
	// The server may write for a reason of its own: not every crash loses something.
	for deadline := time.Now().Add(2 * time.Minute); ; {
		tx := r.begin()
		r.in(tx, `set local synchronous_commit = off`)
		r.in(tx, `insert into postrider.outbox_event (topic, key, payload) select $1, 'unsynced', 'lost|' from generate_series(1, 10)`, topic)
		if err := tx.Commit(t.Context()); err != nil {
			t.Fatal(err)
		}
		before := pgtest.Value[int](t, r.pool, `select count(*) from postrider.outbox_event where key = 'unsynced'`)
		r.until(drained)
		s.crash()
		r.untilSome(e, "postrider_outbox_cycle_errors_total", "loop", "lead")
		s.start()
		r.pool.Reset()
		lost := before - pgtest.Value[int](t, r.pool, `select count(*) from postrider.outbox_event where key = 'unsynced'`)
		l.write(topic, 5, 3)
		r.until(drained)
		l.wantCommitted(dlq, "lost")
		if lost > 0 || t.Failed() {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal("no commit was lost: nothing was tested")
		}
	}
}

// wantCommitted is wantAll for a topic that also has records named other, whose transactions were lost.
func (l *ledger) wantCommitted(dlq, other string) {
	l.Helper()
	v := l.verdict(dlq)
	var phantoms []string
	for _, id := range v.Phantoms {
		if id != other {
			phantoms = append(phantoms, id)
		}
	}
	if len(phantoms)+len(v.Lost)+len(v.Reordered) > 0 {
		l.Errorf("%s: phantoms %s", v, strings.Join(phantoms, " "))
	}
}

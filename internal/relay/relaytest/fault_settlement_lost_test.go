package relaytest

import (
	"testing"
	"time"

	"github.com/postrider/postrider/internal/relay"
)

// TestFault17SettlementLost: the server crashes with settlements that were committed and not yet on its disk.
// Their events are pending again and go a second time: no one is lost, no key out of order.
func TestFault17SettlementLost(t *testing.T) {
	t.Parallel()
	// The maximum: a commit that does not wait for its WAL reaches the disk as late as possible.
	s := newServer(t, map[string]string{"wal_writer_delay": "10s"})
	r := onServer(t, s)
	topic, dlq := r.broker.Topic(t, 2, nil), r.broker.Topic(t, 1, nil)
	l := r.newLedger(topic)
	e := r.startWith(dlq, options{engine: func(c *relay.Config) { c.BatchSize = 20 }})
	// The server may write for a reason of its own: not every crash loses something.
	for deadline := time.Now().Add(3 * time.Minute); ; {
		l.write(topic, 5, 3)
		r.until(drained)
		s.crash()
		r.untilSome(e, "postrider_outbox_cycle_errors_total", "loop", "lead")
		s.start()
		r.pool.Reset()
		r.until(drained)
		if l.wantAll(dlq).Duplicates > 0 || t.Failed() {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal("no settlement was lost: nothing was tested")
		}
	}
}

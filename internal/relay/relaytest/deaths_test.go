package relaytest

import (
	"net"
	"syscall"
	"testing"
	"time"

	"github.com/postrider/postrider/internal/relay"
	"github.com/postrider/postrider/internal/testenv/pgtest"
)

// TestKilledInTurnOverABacklog: 20,000 events wait, and three relays in turn are killed over them. The fourth begins with
// small batches, because one of the events may be what kills, and has full ones again soon: no event is what kills.
func TestKilledInTurnOverABacklog(t *testing.T) {
	t.Parallel()
	const batch = 200
	r := newRig(t)
	topic, dlq := r.broker.Topic(t, 2, nil), r.broker.Topic(t, 1, nil)
	l := r.newLedger(topic)
	l.write(topic, 200, 100)
	for range 3 {
		child := r.startChild(dlq, childConfig{Hesitate: time.Hour, BatchSize: batch})
		child.said("hesitating")
		child.signal(syscall.SIGKILL)
		_ = child.end()
	}
	last := r.startChild(dlq, childConfig{BatchSize: batch})
	last.said("relays died while these events were on their way")
	last.said("batches have their full size again")
	if !last.works(r, drained) {
		t.Fatalf("the last relay ended with %v", last.err)
	}
	last.finish()
	l.wantAll(dlq)
	if n := r.receipts(); n > 20_000/batch+10 {
		t.Errorf("%d receipts for 20,000 events in batches of %d", n, batch)
	}
	if n := pgtest.Value[int](t, r.pool, `select count(*) from postrider.outbox_receipt where trying is not null`); n != 0 {
		t.Errorf("%d events were tried alone after three deaths", n)
	}
}

// TestFlappingDatabaseWithSlowBrokers: each answer of the brokers takes 400 ms. Of two relays that live all the while, the
// session of the leader is ended ten times. No relay has died: batches stay full, and nothing is lost.
func TestFlappingDatabaseWithSlowBrokers(t *testing.T) {
	t.Parallel()
	const batch = 500
	r := newRig(t)
	topic, dlq := r.broker.Topic(t, 2, nil), r.broker.Topic(t, 1, nil)
	l := r.newLedger(topic)
	l.write(topic, 200, 25)
	var relays []*running
	for range 2 {
		slow := &hesitation{}
		slow.pause.Store(int64(400 * time.Millisecond))
		relays = append(relays, r.startWith(dlq, options{engine: func(c *relay.Config) {
			c.BatchSize, c.PublishTimeout = batch, 5*time.Second
			slow.Publisher = c.Publisher
			c.Publisher = slow
		}}))
	}
	for term := 1; term <= 10; term++ {
		r.until(`(select max(term) from postrider.outbox_receipt) >= $1`, term)
		r.exec(`select pg_terminate_backend(l.pid) from pg_locks l where l.locktype = 'advisory' and l.database = (select oid from pg_database where datname = current_database())`)
	}
	r.until(`(select max(term) from postrider.outbox_receipt) > 10`)
	receipts, left := r.receipts(), pgtest.Value[int](t, r.pool, `select 5000 - position::int from postrider.outbox_progress`)
	r.until(drained)
	if n := r.receipts() - receipts; n > left/batch+5 {
		t.Errorf("%d receipts for %d events in batches of %d", n, left, batch)
	}
	for _, e := range relays {
		if e.metric(t, "postrider_outbox_careful") != 0 {
			t.Error("batches are small although no relay died")
		}
	}
	l.wantAll(dlq)
}

// TestKilledWhileNoBrokerAnswers: a relay is killed twelve times while its brokers take connections and say nothing. No
// event is charged with that, and when a broker answers all of them go, none of them alone for long.
func TestKilledWhileNoBrokerAnswers(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	topic, dlq := r.broker.Topic(t, 2, nil), r.broker.Topic(t, 1, nil)
	l := r.newLedger(topic)
	l.write(topic, 50, 40)
	hole, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = hole.Close() })
	connected := make(chan net.Conn, 100)
	go func() {
		for {
			conn, err := hole.Accept()
			if err != nil {
				return
			}
			connected <- conn
		}
	}()
	for range 12 {
		child := r.startChild(dlq, childConfig{Brokers: []string{hole.Addr().String()}})
		child.said("msg=leading")
		select {
		case conn := <-connected:
			defer conn.Close()
		case <-time.After(3 * time.Minute):
			t.Fatal("the relay does not ask its brokers")
		}
		child.signal(syscall.SIGKILL)
		_ = child.end()
	}
	last := r.startChild(dlq, childConfig{})
	if !last.works(r, drained) {
		t.Fatalf("the last relay ended with %v", last.err)
	}
	last.finish()
	if v := l.wantOnce(dlq); v.DeadLettered != 0 {
		t.Errorf("%d events were given up", v.DeadLettered)
	}
	if n := r.receipts(); n > 2000/200+20 {
		t.Errorf("%d receipts for 2,000 events in batches of 200", n)
	}
}

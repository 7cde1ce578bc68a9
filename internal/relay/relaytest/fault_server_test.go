package relaytest

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/postrider/postrider/internal/relay"
	"github.com/postrider/postrider/internal/testenv/kafkatest"
	"github.com/postrider/postrider/internal/testenv/pgtest"
)

// onServer makes a rig on a server of the test's own.
func onServer(t testing.TB, s *server) *rig {
	t.Helper()
	return newRigOn(t, s.URL(), kafkatest.Kfake(t, kfake.NumBrokers(3)))
}

// moveTo lets the test itself look at another server.
func (r *rig) moveTo(s *server) {
	r.Helper()
	pool, err := pgxpool.New(r.Context(), s.URL())
	if err != nil {
		r.Fatal(err)
	}
	r.Cleanup(pool.Close)
	r.pool = pool
}

// TestFault17Restart crashes the server under a working relay, again and again. It recovers, and the relay
// goes on by itself.
func TestFault17Restart(t *testing.T) {
	t.Parallel()
	s := newServer(t, nil)
	r := onServer(t, s)
	topic, dlq := r.broker.Topic(t, 2, nil), r.broker.Topic(t, 1, nil)
	l := r.newLedger(topic)
	e := r.startWith(dlq, options{engine: func(c *relay.Config) { c.BatchSize = 20 }})
	for range 3 {
		l.write(topic, 20, 30)
		r.until(`exists (select from postrider.v_outbox_event where state = 'published')`)
		s.crash()
		r.untilSome(e, "postrider_outbox_cycle_errors_total", "loop", "lead")
		s.start()
		r.pool.Reset()
		l.write(topic, 20, 2)
		r.until(drained)
	}
	l.wantAll(dlq)
}

// TestFault17Failover: the address names a standby first and the primary second. The relay never works on
// the standby; when the primary is gone it waits, and when the standby is promoted it goes on there.
//
// The standby lags behind, so the failover loses commits (row 22): events that were published vanish
// from the table, and their ids are given to others. The header postrider-event-id still tells them apart.
func TestFault17Failover(t *testing.T) {
	t.Parallel()
	primary := newServer(t, nil)
	r := onServer(t, primary)
	topic, dlq := r.broker.Topic(t, 2, nil), r.broker.Topic(t, 1, nil)
	l := r.newLedger(topic)
	l.write(topic, 5, 4)
	first := r.startWith(dlq, options{url: primary.URL()})
	r.until(drained)
	first.halt()
	primary.stop()
	standby := primary.copied()
	standby.start()
	primary.start()
	r.pool.Reset()

	e := r.startWith(dlq, options{url: bothURL(t, standby, primary)})
	l.write(topic, 5, 4)
	r.until(drained)
	var lost int64
	if err := r.pool.QueryRow(t.Context(), `select max(id) from postrider.outbox_event`).Scan(&lost); err != nil {
		t.Fatal(err)
	}
	primary.crash()
	r.untilSome(e, "postrider_outbox_database_errors_total", "class", "transient", "code", "READ_ONLY_SERVER")
	r.moveTo(standby)
	r.exec(`select pg_promote()`)
	l.write(topic, 5, 6)
	r.until(drained)
	l.wantAll(dlq)
	var reused int
	if err := r.pool.QueryRow(t.Context(), `select count(*) from postrider.outbox_event where id between 21 and $1`, lost).Scan(&reused); err != nil || reused == 0 {
		t.Errorf("no id was given twice, %v: nothing was tested", err)
	}
	names := map[string]bool{}
	for _, rec := range r.broker.ReadAll(t, topic, 0) {
		for _, h := range rec.Headers {
			if h.Key == "postrider-event-id" {
				names[string(h.Value)] = true
			}
		}
	}
	if len(names) != len(l.committed) {
		t.Errorf("%d events have %d names", len(l.committed), len(names))
	}
}

// TestFault23IDsRewound: the table was restored with ids that begin anew, below the position. The relay that starts then
// says so and what to do, and leads nothing; once the ids are put behind the position it goes on, and what was written
// meanwhile below it is found by the count of retention.
func TestFault23IDsRewound(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	topic, dlq := r.broker.Topic(t, 2, nil), r.broker.Topic(t, 1, nil)
	before := r.newLedger(topic)
	before.write(topic, 100, 20)
	e := r.start(dlq)
	r.until(drained)
	e.halt()
	before.wantOnce(dlq)
	r.exec(`truncate postrider.outbox_event restart identity`)
	r.exec(`insert into postrider.outbox_event (topic, key, payload) values ($1, 'k0', 'below|')`, topic)
	e = r.start(dlq)
	r.untilTrue("the relay says that the ids were rewound", func() bool {
		return strings.Contains(r.log.String(), "the ids of outbox_event stand at 1, below the position 2000")
	})
	if n := e.metric(t, "postrider_outbox_leading"); n != 0 {
		t.Error("the relay leads a log that was rewound")
	}
	var advice string
	if _, after, found := strings.Cut(r.log.String(), "run `"); found {
		advice, _, _ = strings.Cut(after, "`")
	}
	r.exec(strings.ReplaceAll(advice, `\`, ""))
	l := r.newLedger(topic)
	for subject, n := range before.next {
		l.next[subject] = n
	}
	l.write(topic, 100, 2)
	r.until(`(select position >= 2200 from postrider.outbox_progress)`)
	r.until(`(select count(*) = 200 from postrider.v_outbox_event where id > 2000 and state = 'published')`)
	for id, e := range before.committed {
		l.committed[id] = e
	}
	l.wantOnce(dlq)
	if _, err := r.pool.Exec(t.Context(), `select * from postrider.outbox_purge_events('0', 10000)`); err == nil || !strings.Contains(err.Error(), "PR002") {
		t.Errorf("retention says of an event that was passed over: %v", err)
	}
}

// TestFault24PreparedTransaction: a prepared transaction with an event in it is left over. The keys of others
// go on, its id stays a gap, and when the transaction is committed the event goes.
func TestFault24PreparedTransaction(t *testing.T) {
	t.Parallel()
	s := newServer(t, map[string]string{"max_prepared_transactions": "5"})
	r := onServer(t, s)
	topic, dlq := r.broker.Topic(t, 2, nil), r.broker.Topic(t, 1, nil)
	l := r.newLedger(topic)
	r.start(dlq)
	conn, err := r.pool.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, sql := range []string{`begin`,
		`insert into postrider.outbox_event (topic, key, payload) values ('` + topic + `', 'late', 'late|')`,
		`prepare transaction 'forgotten'`} {
		if _, err := conn.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	conn.Release()
	l.write(topic, 100, 30)
	r.until(drained)
	// The relay looks at transactions once a second; by now it has had its chance.
	r.until(`pg_sleep(1.5) is not null`)
	if gaps := pgtest.Value[string](t, r.pool, `select gaps::text from postrider.outbox_progress`); gaps != "{[1,2)}" {
		t.Errorf("the gaps are %s, and 1 may still come", gaps)
	}
	r.exec(`commit prepared 'forgotten'`)
	r.until(drained)
	if n := len(r.broker.ReadAll(t, topic, 3001)); n != 3001 {
		t.Errorf("%d records, want 3001", n)
	}
	r.until(`(select isempty(gaps) from postrider.outbox_progress)`)
}

// TestFault24LongTransaction: a writer's transaction stays open, with a lock on its aggregate and an event
// in it, while others write. They do not wait for it, and its event is not lost when it comes late.
// It is also row 43: the event is ten minutes old when it can first be seen.
func TestFault24LongTransaction(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	topic, dlq := r.broker.Topic(t, 2, nil), r.broker.Topic(t, 1, nil)
	l := r.newLedger(topic)
	e := r.startWith(dlq, options{engine: func(c *relay.Config) { c.PublishTimeout = 20 * time.Second }})
	tx, err := r.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(context.Background())
	if _, err := tx.Exec(t.Context(), `insert into postrider.outbox_event (topic, key, payload, created_at, available_at)
		values ($1, 'late', 'late|', now() - interval '10 minutes', now() - interval '10 minutes')`, topic); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		l.write(topic, 100, 10)
		r.until(drained)
	}
	r.until(`pg_sleep(1.2) is not null`)
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.until(drained)
	if n := len(r.broker.ReadAll(t, topic, 3001)); n != 3001 {
		t.Errorf("%d records, want 3001", n)
	}
	if n := e.metric(t, "postrider_outbox_publish_total", "class", string(relay.Delivered)); n != 3001 {
		t.Errorf("%v events were delivered, want 3001", n)
	}
	for _, bad := range []relay.Class{relay.Infrastructure, relay.Route, relay.Record, relay.Permanent} {
		if n := e.metric(t, "postrider_outbox_publish_total", "class", string(bad)); n != 0 {
			t.Errorf("%v events were %s, for their age", n, bad)
		}
	}
}

package relaytest

import (
	"strings"
	"testing"
	"time"

	"github.com/postrider/postrider/internal/relay"
	"github.com/postrider/postrider/internal/relay/postgres"
)

// TestFault44Partitions cuts or freezes the network between a relay and its database, its brokers, or both,
// under load, and heals it. All arrives; meanwhile the number of events in flight stays within its bound.
func TestFault44Partitions(t *testing.T) {
	t.Parallel()
	const batch = 50
	for name, c := range map[string]struct {
		begin, end func(r *rig, w *wire)
		sign       string // a metric that shows that the relay noticed; the publish loop's errors otherwise
	}{
		"database cut":    {func(r *rig, w *wire) { r.proxy.Down() }, func(r *rig, w *wire) { r.proxy.Up() }, "postrider_outbox_database_errors_total"},
		"database frozen": {func(r *rig, w *wire) { r.proxy.Freeze() }, func(r *rig, w *wire) { r.proxy.Thaw() }, ""},
		"brokers cut":     {func(r *rig, w *wire) { w.setDown(true) }, func(r *rig, w *wire) { w.setDown(false) }, "postrider_outbox_brokers_away"},
		"brokers frozen":  {func(r *rig, w *wire) { w.freeze("", true) }, func(r *rig, w *wire) { w.freeze("", false) }, "postrider_outbox_brokers_away"},
		"both cut": {func(r *rig, w *wire) { w.setDown(true); r.proxy.Down() }, func(r *rig, w *wire) { r.proxy.Up(); w.setDown(false) },
			"postrider_outbox_database_errors_total"},
		"both frozen": {func(r *rig, w *wire) { w.freeze("", true); r.proxy.Freeze() }, func(r *rig, w *wire) { r.proxy.Thaw(); w.freeze("", false) }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			w := newWire(t)
			topic, dlq := r.broker.Topic(t, 3, nil), r.broker.Topic(t, 1, nil)
			l := r.newLedger(topic)
			e := r.startWith(dlq, options{kafka: w.use, engine: func(c *relay.Config) { c.BatchSize = batch }})
			for range 2 {
				l.write(topic, 20, 20)
				r.until(`exists (select from postrider.v_outbox_event where state = 'published')`)
				c.begin(r, w)
				l.write(topic, 20, 10)
				if c.sign != "" {
					r.untilSome(e, c.sign)
				} else {
					r.until(`pg_sleep(1) is not null`)
				}
				if n := e.metric(t, "postrider_outbox_in_flight_events"); n > batch {
					t.Errorf("%v events are in flight, the bound is %d", n, batch)
				}
				c.end(r, w)
				r.until(drained)
			}
			l.wantAll(dlq)
		})
	}
}

// TestFault44OneRelayCutOff: one relay of two loses the database with batches in hand, half-open. The server
// ends its sessions in their time, and the other relay carries everything. The first finds its sessions
// gone when the network is back, and is a relay like any other.
func TestFault44OneRelayCutOff(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	topic, dlq := r.broker.Topic(t, 2, nil), r.broker.Topic(t, 1, nil)
	l := r.newLedger(topic)
	hesitate := &hesitation{}
	hesitate.pause.Store(int64(300 * time.Millisecond))
	first := r.startWith(dlq, options{store: postgres.StoreOptions{LeaderSilence: 2 * time.Second},
		session: map[string]string{"idle_in_transaction_session_timeout": "1s"}, engine: func(c *relay.Config) {
			hesitate.Publisher = c.Publisher
			c.Publisher = hesitate
		}})
	l.write(topic, 20, 5)
	r.untilSome(first, "postrider_outbox_in_flight_events")
	r.proxy.Freeze()
	other := r.startWith(dlq, options{url: r.pool.Config().ConnString()})
	l.write(topic, 20, 5)
	r.until(drained)
	other.halt()
	hesitate.pause.Store(0)
	r.proxy.Thaw()
	l.write(topic, 20, 5)
	r.until(drained)
	if !strings.Contains(r.log.String(), "its session is gone") {
		t.Error("the first relay never noticed")
	}
	l.wantAll(dlq)
}

// TestFault44SlowLink: everything passes in small pieces, to the database and to the brokers.
func TestFault44SlowLink(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	w := newWire(t)
	topic, dlq := r.broker.Topic(t, 2, nil), r.broker.Topic(t, 1, nil)
	l := r.newLedger(topic)
	r.proxy.Slow(997, 200*time.Microsecond)
	w.slow(499, 200*time.Microsecond)
	r.startWith(dlq, options{kafka: w.use, engine: func(c *relay.Config) { c.PublishTimeout = 5 * time.Second }})
	l.writePadded(topic, 10, 10, 500)
	l.poison(topic, "k0", maxMessageBytes)
	l.writePadded(topic, 10, 10, 500)
	r.until(drained)
	l.wantOnce(dlq)
}

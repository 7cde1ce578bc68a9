package relaytest

import (
	"testing"

	"github.com/postrider/postrider/internal/relay"
	"github.com/postrider/postrider/internal/relay/kafka"
)

// TestFault14SlowBroker: one of three brokers answers nothing any more. Topics that the others lead go on, although their
// events share batches with events for the slow broker. The number of events in flight stays within its bound.
func TestFault14SlowBroker(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	w := newWire(t)
	addrs := r.broker.Cluster.ListenAddrs()
	slow, dlq := r.broker.Topic(t, 1, nil), r.broker.Topic(t, 1, nil)
	good := []string{r.broker.Topic(t, 1, nil), r.broker.Topic(t, 1, nil)}
	for node, topic := range []string{slow, good[0], good[1], dlq} {
		if err := r.broker.Cluster.MoveTopicPartition(topic, 0, int32(node%3)); err != nil {
			t.Fatal(err)
		}
	}
	l := r.newLedger(slow, good[0], good[1])
	for _, topic := range l.topics {
		l.write(topic, 5, 2)
	}
	const batch = 50
	e := r.startWith(dlq, options{kafka: w.use, engine: func(c *relay.Config) { c.BatchSize = batch }})
	r.until(drained)
	w.freeze(addrs[0], true)
	for range 5 {
		l.write(slow, 5, 20)
		for _, topic := range good {
			l.write(topic, 5, 20)
		}
		for _, topic := range good {
			r.until(gone, topic)
		}
		if n := e.metric(t, "postrider_outbox_in_flight_events"); n > batch {
			t.Errorf("%v events are in flight, the bound is %d", n, batch)
		}
	}
	r.until(held, slow, kafka.CodeUnknownOutcome)
	w.freeze(addrs[0], false)
	r.until(drained)
	l.wantAll(dlq)
}

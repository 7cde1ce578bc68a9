package relaytest

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// TestHealthyTopicsGoOn: one topic is missing and another has a partition without a leader, for all of the time that two
// healthy ones are written to, in the same transactions. What waits comes when it can.
func TestHealthyTopicsGoOn(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	healthy, other, half, dlq := r.broker.Topic(t, 2, nil), r.broker.Topic(t, 1, nil), r.broker.Topic(t, 2, nil), r.broker.Topic(t, 1, nil)
	missing := healthy + "-missing"
	leaderless := r.broker.Cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: half, Partitions: []int32{1}, Err: kerr.LeaderNotAvailable, Count: -1})
	l := r.newLedger(healthy, other, half, missing)
	e := r.start(dlq)
	for range 10 {
		for _, topic := range l.topics {
			l.write(topic, 20, 10)
		}
		r.until(gone, healthy)
		r.until(gone, other)
	}
	r.until(held, missing, "UNKNOWN_TOPIC_OR_PARTITION")
	r.until(`exists (select from postrider.outbox_hold where topic = $1 and scope = 'partition' and partition = 1)
		and not exists (select from postrider.outbox_hold where topic = $1 and scope = 'topic')`, half)
	leaderless.Remove()
	r.broker.CreateTopic(t, missing, 2, nil)
	r.until(drained)
	if n := e.metric(t, "postrider_outbox_dead_lettered_total"); n != 0 {
		t.Errorf("%v events became dead letters", n)
	}
	l.wantOnce(dlq)
}

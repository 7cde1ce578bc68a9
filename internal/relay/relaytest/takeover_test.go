package relaytest

import (
	"syscall"
	"testing"
	"time"

	"github.com/postrider/postrider/internal/testenv/pgtest"
)

// TestTakeoverFromALeaderThatIsKilled: the leader dies by kill -9 with a batch in hand. A standby leads, and everything
// arrives.
func TestTakeoverFromALeaderThatIsKilled(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	topic, dlq := r.broker.Topic(t, 2, nil), r.broker.Topic(t, 1, nil)
	l := r.newLedger(topic)
	leader := r.startChild(dlq, childConfig{Name: "first", Hesitate: time.Hour})
	leader.said("msg=leading")
	standby := r.start(dlq)
	l.write(topic, 20, 10)
	leader.said("hesitating")
	leader.signal(syscall.SIGKILL)
	_ = leader.end()
	l.write(topic, 20, 10)
	r.until(drained)
	if n := standby.metric(t, "postrider_outbox_leading"); n != 1 {
		t.Errorf("the standby leads: %v", n)
	}
	l.wantOnce(dlq)
}

// TestTakeoverFromALeaderThatEnds: leaders end by SIGTERM in the middle of the work, one after the other. Each hands over
// by a receipt that says so, the next is no heir of a death, and nothing is sent twice.
func TestTakeoverFromALeaderThatEnds(t *testing.T) {
	t.Parallel()
	const terms = 5
	r := newRig(t)
	topic, dlq := r.broker.Topic(t, 2, nil), r.broker.Topic(t, 1, nil)
	l := r.newLedger(topic)
	leader := r.startChild(dlq, childConfig{BatchSize: 50})
	for range terms {
		leader.said("msg=leading")
		next := r.startChild(dlq, childConfig{BatchSize: 50})
		next.said("relay started")
		l.write(topic, 100, 20)
		r.until(`(select note is null from postrider.outbox_receipt order by number desc limit 1)`)
		leader.finish()
		leader = next
	}
	r.until(drained)
	leader.finish()
	l.wantOnce(dlq)
	if n := pgtest.Value[int](t, r.pool, `select count(distinct term) from postrider.outbox_receipt where note = 'ended'`); n != terms+1 {
		t.Errorf("%d terms handed over, want %d", n, terms+1)
	}
}

package relaytest

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/postrider/postrider/internal/relay"
)

// TestFault37RightsTakenAway: in the middle of the day the rights to write are taken away, of the topic and of the
// dead letters' alike. Hundreds of events of many keys meet that: not one is given up, another topic goes on, and
// after the rights are back everything arrives in order.
func TestFault37RightsTakenAway(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	closed, open, dlq := r.broker.Topic(t, 2, nil), r.broker.Topic(t, 2, nil), r.broker.Topic(t, 1, nil)
	l := r.newLedger(closed, open)
	l.write(closed, 20, 20)
	e := r.start(dlq)
	r.until(gone, closed)
	var faults []*kfake.FaultHandle
	for _, topic := range []string{closed, dlq} {
		faults = append(faults, r.broker.Cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: topic, Err: kerr.TopicAuthorizationFailed, Count: -1}))
	}
	l.write(closed, 20, 20)
	l.write(open, 20, 20)
	r.until(held, closed, "TOPIC_AUTHORIZATION_FAILED")
	r.until(gone, open)
	r.until(`not exists (select from postrider.v_outbox_event where topic = $1 and state not in ('parked', 'published'))`, closed)
	for _, f := range faults {
		f.Remove()
	}
	r.until(drained)
	if n := e.metric(t, "postrider_outbox_dead_lettered_total"); n != 0 {
		t.Errorf("%v events became dead letters for want of rights", n)
	}
	l.wantOnce(dlq)
}

// TestFault37BadDeploy: a deploy writes events that no topic of theirs takes, beside good ones of other keys, and is
// rolled back. By the shipped settings a hundred of them become dead letters and then a circuit breaker keeps the rest, so
// that the next hour's work is not given up; another topic goes on. The kept events go when the topic takes them again.
func TestFault37BadDeploy(t *testing.T) {
	t.Parallel()
	const keys, rounds = 50, 12
	r := newRig(t)
	bad, good, dlq := r.broker.Topic(t, 1, nil), r.broker.Topic(t, 1, nil), r.broker.Topic(t, 1, nil)
	fault := r.broker.Cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: bad, Err: kerr.InvalidRecord, Count: -1})
	r.exec(`insert into postrider.outbox_event (topic, key, payload)
		select t, convert_to('k' || k, 'UTF8'), convert_to(n::text, 'UTF8') from generate_series(1, $1::int) n, generate_series(1, $2::int) k, unnest($3::text[]) t order by n`,
		rounds, keys, []string{bad, good})
	e := r.startWith(dlq, options{topic: func(s *relay.TopicSettings) { s.BreakerEvents, s.BreakerWindow = 0, 0 }})
	r.until(`exists (select from postrider.outbox_hold where topic = $1 and scope = 'failure' and cause = 'circuit_breaker')
		and not exists (select from postrider.v_outbox_event where topic = $1 and state not in ('parked', 'dead_lettered'))`, bad)
	r.until(gone, good)
	letters := e.metric(t, "postrider_outbox_dead_lettered_total")
	if letters != 100 {
		t.Errorf("%v of %d events became dead letters, want a hundred", letters, keys*rounds)
	}
	fault.Remove()
	r.exec(`update postrider.outbox_hold set next_probe_at = clock_timestamp() where cause = 'circuit_breaker'`) // its pause is 30 s
	r.until(drained)
	if n := len(r.broker.ReadAll(t, bad, keys*rounds-int(letters))); n != keys*rounds-int(letters) {
		t.Errorf("%d events arrived, want %d", n, keys*rounds-int(letters))
	}
}

package relaytest

import (
	"fmt"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// TestFaultsStayWhereTheyAre: as long as one topic is missing, refused, without a leader or silent, the other
// topics get their events. When the fault ends, the topic's own backlog arrives in order, nothing given up.
func TestFaultsStayWhereTheyAre(t *testing.T) {
	t.Parallel()
	for name, err := range map[string]*kerr.Error{
		"missing":          nil,
		"refused":          kerr.TopicAuthorizationFailed,
		"without a leader": kerr.LeaderNotAvailable,
		"not replicated":   kerr.NotEnoughReplicas,
		"silent":           kerr.RequestTimedOut,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			good, dlq := r.broker.Topic(t, 2, nil), r.broker.Topic(t, 1, nil)
			bad := good + "-bad"
			heal := func() { r.broker.CreateTopic(t, bad, 2, nil) }
			if err != nil {
				heal()
				heal = r.broker.Cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: bad, Err: err, Count: -1}).Remove
			}
			const rounds, keys = 20, 3
			insert := func(round int) {
				for k := range keys {
					r.exec(`insert into postrider.outbox_event (topic, key, payload) values ($1, $3, $4), ($2, $3, $4)`, bad, good,
						fmt.Appendf(nil, "k%d", k), fmt.Appendf(nil, "%03d", round))
				}
			}
			insert(0)
			r.start(dlq)
			r.start(dlq)
			for round := 1; round < rounds; round++ {
				insert(round)
			}
			r.until(`not exists (select from postrider.v_outbox_event where topic = $1 and state <> 'published')`, good)
			r.until(`exists (select from postrider.outbox_hold where topic = $1 and scope in ('topic', 'partition'))`, bad)
			r.until(`not exists (select from postrider.v_outbox_event where topic = $1 and state = 'published')`, bad)
			heal()
			r.until(drained)
			if n := len(r.broker.ReadAll(t, dlq, 0)); n != 0 {
				t.Errorf("%d events were given up for a fault that was not theirs", n)
			}
			for _, topic := range []string{good, bad} {
				next := map[string]int{}
				for _, rec := range r.broker.ReadAll(t, topic, rounds*keys) {
					if want := fmt.Sprintf("%03d", next[string(rec.Key)]); string(rec.Value) == want {
						next[string(rec.Key)]++
					} else if string(rec.Value) > want {
						t.Errorf("%s: %s of %s came before %s", topic, rec.Value, rec.Key, want)
					}
				}
				for key, n := range next {
					if n != rounds {
						t.Errorf("%s has %d records of %s, want %d", topic, n, key, rounds)
					}
				}
				if len(next) != keys {
					t.Errorf("%s has %d keys", topic, len(next))
				}
			}
		})
	}
}

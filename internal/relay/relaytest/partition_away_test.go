package relaytest

import (
	"fmt"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/postrider/postrider/internal/relay/kafka"
)

// TestOnePartitionAway: one partition of a topic has no leader, or too few replicas, or does not answer. Its keys
// wait, in order. Keys of the other partitions, and events without a key, arrive meanwhile.
func TestOnePartitionAway(t *testing.T) {
	t.Parallel()
	for name, err := range map[string]*kerr.Error{
		"without a leader": kerr.LeaderNotAvailable,
		"not replicated":   kerr.NotEnoughReplicas,
		"silent":           kerr.RequestTimedOut,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			const partitions, rounds, keys = 4, 10, 12
			topic, dlq := r.broker.Topic(t, partitions, nil), r.broker.Topic(t, 1, nil)
			f := r.broker.Cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: topic, Partitions: []int32{1}, Err: err, Count: -1})
			place, away := &kafka.Publisher{}, map[string]bool{}
			for k := range keys {
				key := fmt.Sprintf("k%d", k)
				away[key] = place.Partition([]byte(key), partitions) == 1
			}
			r.start(dlq)
			r.start(dlq)
			for round := range rounds {
				for key := range away {
					r.exec(`insert into postrider.outbox_event (topic, key, payload) values ($1, $2, $3)`, topic, []byte(key), fmt.Appendf(nil, "%03d", round))
				}
				r.exec(`insert into postrider.outbox_event (topic, payload) values ($1, 'no key')`, topic)
			}
			stays := 0
			for _, a := range away {
				if a {
					stays += rounds
				}
			}
			if stays == 0 || stays == keys*rounds {
				t.Fatalf("%d of %d keyed events are on the partition that is away", stays, keys*rounds)
			}
			// An event without a key may wait only if it was on its way to that partition at the beginning.
			r.until(`(select count(*) from postrider.v_outbox_event where state = 'published' and key is not null) = $1`, keys*rounds-stays)
			r.until(`(select count(*) from postrider.outbox_hold where scope = 'partition' and partition = 1 and partitions = 4) = 1
				and not exists (select from postrider.outbox_hold where scope = 'topic')`)
			for range rounds { // the first ones may all have been on their way there
				r.exec(`insert into postrider.outbox_event (topic, payload) values ($1, 'no key')`, topic)
			}
			r.until(`exists (select from postrider.v_outbox_event where state = 'published' and key is null)`)
			f.Remove()
			r.until(drained)
			next := map[string]int{}
			unkeyed := map[string]bool{}
			for _, rec := range r.broker.ReadAll(t, topic, rounds*(keys+2)) {
				key := string(rec.Key)
				if rec.Key == nil {
					for _, h := range rec.Headers {
						if h.Key == "postrider-event-id" {
							unkeyed[string(h.Value)] = true
						}
					}
					continue
				}
				if want := fmt.Sprintf("%03d", next[key]); string(rec.Value) == want {
					next[key]++
				} else if string(rec.Value) > want {
					t.Errorf("%s of %s came before %s", rec.Value, key, want)
				}
			}
			for key := range away {
				if next[key] != rounds {
					t.Errorf("%s has %d of %d", key, next[key], rounds)
				}
			}
			if len(unkeyed) != 2*rounds {
				t.Errorf("%d events without a key arrived, want %d", len(unkeyed), 2*rounds)
			}
			if n := len(r.broker.ReadAll(t, dlq, 0)); n != 0 {
				t.Errorf("%d events were given up", n)
			}
		})
	}
}

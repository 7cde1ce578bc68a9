package relaytest

import (
	"bytes"
	"fmt"
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/postrider/postrider/internal/relay/kafka"
)

// gone waits until all events of a topic are published.
const gone = `not exists (select from postrider.v_outbox_event where topic = $1 and state <> 'published')`

// held waits for a hold of a topic, or of partitions of it, with this code.
const held = `exists (select from postrider.outbox_hold where topic = $1 and scope in ('topic', 'partition') and error_code = $2)`

// TestFault07RollingRestart takes one broker after the other away and brings it back, under load.
func TestFault07RollingRestart(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	topic, dlq := r.broker.Topic(t, 6, nil), r.broker.Topic(t, 1, nil)
	l := r.newLedger(topic)
	r.start(dlq)
	r.start(dlq)
	for node := range int32(3) {
		l.write(topic, 12, 3)
		if err := r.broker.Cluster.RemoveNode(node); err != nil {
			t.Fatal(err)
		}
		l.write(topic, 12, 3)
		r.until(gone, topic)
		if _, _, err := r.broker.Cluster.AddNode(node, 0); err != nil {
			t.Fatal(err)
		}
		r.broker.Cluster.ShufflePartitionLeaders()
	}
	l.write(topic, 12, 3)
	r.until(drained)
	r.broker.Addrs = r.broker.Cluster.ListenAddrs()
	l.wantAll(dlq)
}

// TestFault09LimitLowered lowers a topic's max.message.bytes while the relay is at work. Events that are too large now are
// given up. Their neighbours in batch and key are not, nor is anything written before.
func TestFault09LimitLowered(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	topic, dlq := r.broker.Topic(t, 2, nil), r.broker.Topic(t, 1, nil)
	l := r.newLedger(topic)
	l.writePadded(topic, 4, 5, 6000)
	r.start(dlq)
	r.until(gone, topic)
	limit := "3000"
	if _, err := r.broker.Admin(t).AlterTopicConfigs(t.Context(), []kadm.AlterConfig{{Op: kadm.SetConfig, Name: "max.message.bytes", Value: &limit}}, topic); err != nil {
		t.Fatal(err)
	}
	l.writePadded(topic, 4, 20, 100) // more than the limit in sum, none of them alone
	l.poison(topic, "k1", 6000)
	l.writePadded(topic, 4, 20, 100)
	l.poison(topic, "k3", 6000)
	l.writePadded(topic, 4, 5, 100)
	r.until(drained)
	l.wantOnce(dlq)
}

// refuseValue makes the broker refuse each batch with this text in it.
func refuseValue(r *rig, topic string, partitions int, text string, err *kerr.Error) *kfake.FaultHandle {
	var faults []kfake.Fault
	for p := range int32(partitions) {
		faults = append(faults, kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: topic, Partitions: []int32{p}, Err: err, Count: -1,
			When: func(req kmsg.Request) bool {
				for _, t := range req.(*kmsg.ProduceRequest).Topics {
					for _, rp := range t.Partitions {
						if rp.Partition == p && bytes.Contains(rp.Records, []byte(text)) {
							return true
						}
					}
				}
				return false
			}})
	}
	return r.broker.Cluster.Fault(faults...)
}

// TestFault10RecordRefused: the broker refuses the batches that one record is in. That record alone is
// given up, after its attempts or at once, and only it.
func TestFault10RecordRefused(t *testing.T) {
	t.Parallel()
	for _, err := range []*kerr.Error{kerr.InvalidTimestamp, kerr.CorruptMessage, kerr.InvalidRecord} {
		t.Run(err.Message, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			topic, dlq := r.broker.Topic(t, 2, nil), r.broker.Topic(t, 1, nil)
			l := r.newLedger(topic)
			l.write(topic, 5, 10)
			bad := l.poison(topic, "k2", 10)
			l.write(topic, 5, 10)
			refuseValue(r, topic, 2, bad, err)
			r.start(dlq)
			r.until(drained)
			l.wantOnce(dlq)
			var attempts int
			if e := r.pool.QueryRow(t.Context(), `select attempts from postrider.v_outbox_event where state = 'dead_lettered' and last_error_code = $1`, err.Message).Scan(&attempts); e != nil {
				t.Fatal(e)
			}
			if want := map[bool]int{true: 1, false: 3}[err == kerr.InvalidRecord]; attempts != want {
				t.Errorf("it was given up after %d attempts, want %d", attempts, want)
			}
		})
	}
}

// TestFault10CompressionRefused: a broker that takes no batch of this kind is not the fault of any record:
// the topic is held, nothing is given up, and all arrives once it does take them.
func TestFault10CompressionRefused(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	topic, other, dlq := r.broker.Topic(t, 2, nil), r.broker.Topic(t, 1, nil), r.broker.Topic(t, 1, nil)
	l := r.newLedger(topic, other)
	f := r.broker.Cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: topic, Err: kerr.UnsupportedCompressionType, Count: -1})
	l.write(topic, 5, 10)
	l.write(other, 5, 10)
	r.startWith(dlq, options{kafka: func(c *kafka.Config) { c.Compression = "zstd" }})
	r.until(held, topic, "UNSUPPORTED_COMPRESSION_TYPE")
	r.until(gone, other)
	f.Remove()
	r.until(drained)
	l.wantOnce(dlq)
}

// TestFault11PartitionsAdded: keys move to other partitions, as the documentation says, once a client has
// learned of them, which may take it minutes. Nothing is lost or sent twice, and within each partition
// every key stays in order.
func TestFault11PartitionsAdded(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	topic, dlq := r.broker.Topic(t, 2, nil), r.broker.Topic(t, 1, nil)
	old := r.start(dlq)
	const keys, rounds = 20, 10
	insert := func(from int) {
		for n := range rounds {
			r.exec(`insert into postrider.outbox_event (topic, key, payload) select $1, convert_to('k' || k, 'UTF8'), convert_to($2::int::text, 'UTF8') from generate_series(1, $3) k`, topic, from+n, keys)
		}
	}
	insert(0)
	if _, err := r.broker.Admin(t).CreatePartitions(t.Context(), 4, topic); err != nil {
		t.Fatal(err)
	}
	insert(rounds)
	r.until(drained)
	old.halt()
	r.start(dlq) // its clients know all partitions
	insert(2 * rounds)
	r.until(drained)
	partitions, last, seen := map[int32]bool{}, map[string]int{}, map[string]bool{}
	for _, rec := range r.broker.ReadAll(t, topic, keys*3*rounds) {
		partitions[rec.Partition] = true
		var n int
		if _, err := fmt.Sscan(string(rec.Value), &n); err != nil {
			t.Fatal(err)
		}
		place, name := fmt.Sprintf("%s in %d", rec.Key, rec.Partition), fmt.Sprintf("%s %d", rec.Key, n)
		if n < last[place] {
			t.Errorf("%d of %s comes after %d", n, place, last[place])
		}
		if seen[name] {
			t.Errorf("%s is there twice", name)
		}
		last[place], seen[name] = n, true
	}
	if len(seen) != keys*3*rounds || len(partitions) != 6 {
		t.Errorf("%d events in %d partitions, want %d in 6", len(seen), len(partitions), keys*3*rounds)
	}
}

// TestFault11TopicRecreated: the topic is deleted and created again, twice, while events wait for it. Events that were not
// acknowledged before arrive in the new topic, in order, and another topic is not affected.
func TestFault11TopicRecreated(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	topic, other, dlq := r.broker.Topic(t, 2, nil), r.broker.Topic(t, 1, nil), r.broker.Topic(t, 1, nil)
	r.start(dlq)
	r.start(dlq)
	for range 2 {
		before := r.newLedger(topic, other)
		before.write(topic, 6, 5)
		before.write(other, 6, 5)
		r.until(drained)
		if err := r.broker.Cluster.DeleteTopic(topic); err != nil {
			t.Fatal(err)
		}
		l := r.newLedger(topic)
		for subject, n := range before.next {
			l.next[subject] = n
		}
		l.write(topic, 6, 5)
		r.until(`exists (select from postrider.outbox_hold where topic = $1)`, topic)
		before.write(other, 6, 5)
		r.until(gone, other)
		r.broker.CreateTopic(t, topic, 2, nil)
		l.write(topic, 6, 5)
		r.until(drained)
		l.wantAll(dlq)
		r.exec(`delete from postrider.outbox_event`) // the next round has the same payloads
		if err := r.broker.Cluster.DeleteTopic(other); err != nil {
			t.Fatal(err)
		}
		r.broker.CreateTopic(t, other, 1, nil)
	}
}

// TestFault15RepliesLost loses answers of brokers, cuts requests in the middle, and lets connections go
// half-open for a while, under load. Copies may come of it, nothing else.
func TestFault15RepliesLost(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	w := newWire(t)
	topics, dlq := []string{r.broker.Topic(t, 3, nil), r.broker.Topic(t, 1, nil)}, r.broker.Topic(t, 1, nil)
	l := r.newLedger(topics...)
	r.startWith(dlq, options{kafka: w.use})
	r.startWith(dlq, options{kafka: w.use})
	for round := range 8 {
		for _, topic := range topics {
			l.write(topic, 8, 5)
		}
		switch round % 3 {
		case 0:
			w.lose(2, 0)
		case 1:
			w.lose(0, 2)
		case 2:
			w.freeze("", true)
			r.until(`pg_sleep(1.2) is not null`) // longer than the relays wait for an answer
			w.freeze("", false)
		}
		r.until(drained)
	}
	if w.broken() == 0 {
		t.Error("nothing was cut")
	}
	l.wantAll(dlq)
	if ids := slices.Sorted(slices.Values(r.missingIDs(topics...))); len(ids) > 0 {
		t.Errorf("%d records have no event id", len(ids))
	}
}

// missingIDs are the values of records without an event id of a row.
func (r *rig) missingIDs(topics ...string) (values []string) {
	r.Helper()
	for _, topic := range topics {
		for _, rec := range r.broker.ReadAll(r, topic, 0) {
			var there bool
			for _, h := range rec.Headers {
				if h.Key == "postrider-event-id" {
					if err := r.pool.QueryRow(r.Context(), `select exists (select from postrider.outbox_event where event_id = $1::uuid and payload = $2)`, string(h.Value), rec.Value).Scan(&there); err != nil {
						r.Fatal(err)
					}
				}
			}
			if !there {
				values = append(values, string(rec.Value))
			}
		}
	}
	return values
}

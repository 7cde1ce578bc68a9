package kafka

import (
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/google/uuid"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/postrider/postrider/internal/relay"
	"github.com/postrider/postrider/internal/testenv/kafkatest"
	"github.com/postrider/postrider/message"
)

// show makes bytes comparable and tells null from empty.
func show(b []byte) string {
	if b == nil {
		return "null"
	}
	return fmt.Sprintf("%q", b)
}

func showRecord(key, value []byte, headers []kgo.RecordHeader) string {
	s := show(key) + " " + show(value)
	for _, h := range headers {
		s += fmt.Sprintf(" %q=%s", h.Key, show(h.Value))
	}
	return s
}

// TestExactly: every byte arrives, and null is not empty.
func TestExactly(t *testing.T) {
	t.Parallel()
	kafkatest.Each(t, func(t *testing.T, b *kafkatest.Broker) {
		topic := b.Topic(t, 1, nil)
		header := func(name string, value []byte) message.Header { return message.Header{Name: name, Value: value} }
		ms := []relay.Message{
			{Key: []byte("k"), Value: []byte(`{"a": 1}`)},
			{Key: []byte("k"), Value: nil},      // a tombstone
			{Key: []byte("k"), Value: []byte{}}, // not a tombstone
			{Key: []byte{}, Value: []byte("empty key")},
			{Key: nil, Value: []byte("no key")},
			{Key: nil, Value: nil},
			{Key: []byte{0, 0xff, '\n'}, Value: []byte{0, 0xfe, 0}},
			{Value: []byte("headers"), Headers: []message.Header{header("b", []byte("1")), header("a", nil),
				header("b", []byte{}), header("", []byte("no name")), header("b", []byte("1")), header("é", []byte{0xff})}},
		}
		var want []string
		for i := range ms {
			m := &ms[i]
			m.ID, m.Topic = relay.MessageID{EventID: uuid.New()}, topic
			want = append(want, showRecord(m.Key, m.Value, record(m).Headers))
		}
		wantAll(t, publish(t, newPublisher(t, b, nil), ms...), relay.Delivered)
		var got []string
		for _, r := range b.ReadAll(t, topic, len(ms)) {
			got = append(got, showRecord(r.Key, r.Value, r.Headers))
		}
		if !slices.Equal(got, want) {
			t.Errorf("the topic holds\n%q\nwant\n%q", got, want)
		}
	})
}

// TestOrder: over several calls, several clients and all partitions, each key keeps its order.
func TestOrder(t *testing.T) {
	t.Parallel()
	kafkatest.Each(t, func(t *testing.T, b *kafkatest.Broker) {
		topic := b.Topic(t, 7, nil)
		p := newPublisher(t, b, nil)
		ms := messages(topic, 50, keys(20)...)
		batches := slices.Collect(slices.Chunk(ms, 100))
		useClients(t, p, len(batches), func(n int) {
			wantAll(t, publish(t, p, batches[n]...), relay.Delivered)
		})
		wantTopic(t, b, topic, ms...)
	})
}

// TestAtOnce: calls at the same time, with keys of their own, do not disturb each other.
func TestAtOnce(t *testing.T) {
	t.Parallel()
	kafkatest.Each(t, func(t *testing.T, b *kafkatest.Broker) {
		topic := b.Topic(t, 3, nil)
		p := newPublisher(t, b, nil)
		var wg sync.WaitGroup
		var all []relay.Message
		for i := range 6 {
			ms := messages(topic, 100, fmt.Sprintf("a%d", i), fmt.Sprintf("b%d", i))
			all = append(all, ms...)
			wg.Go(func() {
				for batch := range slices.Chunk(ms, 20) {
					wantAll(t, publish(t, p, batch...), relay.Delivered)
				}
			})
		}
		wg.Wait()
		wantTopic(t, b, topic, all...)
	})
}

// TestPartitions: a key goes where the Java client sends it. The hashes are taken from the tests
// that Kafka's own clients have for murmur2.
func TestPartitions(t *testing.T) {
	t.Parallel()
	kafkatest.Each(t, func(t *testing.T, b *kafkatest.Broker) {
		const partitions = 11
		topic := b.Topic(t, partitions, nil)
		want := map[string]int32{
			"21":                         -973932308,
			"foobar":                     -790332482,
			"a-little-bit-long-string":   -985981536,
			"a-little-bit-longer-string": -1486304829,
			"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
			"abc": 479470107,
		}
		var ms []relay.Message
		for key := range want {
			ms = append(ms, messageOf(topic, key, key))
		}
		wantAll(t, publish(t, newPublisher(t, b, nil), ms...), relay.Delivered)
		for _, r := range b.ReadAll(t, topic, len(ms)) {
			if p := want[string(r.Key)] & 0x7fffffff % partitions; r.Partition != p {
				t.Errorf("%q is in partition %d, the Java client sends it to %d", r.Key, r.Partition, p)
			}
		}
	})
}

// TestEmptyKeyIsAKey: an event with an empty key has an order, so all of them must share a partition.
func TestEmptyKeyIsAKey(t *testing.T) {
	t.Parallel()
	b := kafkatest.Kfake(t)
	topic := b.Topic(t, 16, nil)
	p := newPublisher(t, b, nil)
	used := map[int32]bool{}
	for i := range 20 {
		m := messageOf(topic, "", fmt.Sprint(i))
		m.Key = []byte{}
		wantAll(t, publish(t, p, m), relay.Delivered)
	}
	for _, r := range b.ReadAll(t, topic, 20) {
		used[r.Partition] = true
	}
	if len(used) != 1 {
		t.Errorf("records with an empty key are in %d partitions", len(used))
	}
}

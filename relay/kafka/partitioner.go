package kafka

import (
	"math/rand/v2"

	"github.com/twmb/franz-go/pkg/kgo"
)

// hasher puts a key on the partition that the Java client would choose: murmur2.
var hasher = kgo.StickyKeyPartitioner(nil).ForTopic("")

// Partition implements relay.Publisher.
func (p *Publisher) Partition(key []byte, n int32) int32 {
	return int32(hasher.Partition(&kgo.Record{Key: key}, int(n)))
}

// partitioner puts keys where the Java client puts them, and the records of a batch that have no key on
// one partition chosen for the batch. The client would only avoid partitions without a leader; this one
// avoids those that owe an answer, whatever the reason.
type partitioner struct{ p *Publisher }

// ForTopic implements kgo.Partitioner.
func (x partitioner) ForTopic(topic string) kgo.TopicPartitioner {
	return &topicPartitioner{p: x.p, topic: topic}
}

// topicPartitioner is used for one record at a time.
type topicPartitioner struct {
	p     *Publisher
	topic string
	batch *batch // whose records without a key go to pick
	pick  int
}

// RequiresConsistency implements kgo.TopicPartitioner: the choice is always among all partitions, so that
// it is a partition's number.
func (*topicPartitioner) RequiresConsistency(*kgo.Record) bool { return true }

// Partition implements kgo.TopicPartitioner, and tells the record's place what it chose.
func (t *topicPartitioner) Partition(r *kgo.Record, n int) int {
	at, ours := placeOf(r)
	pick := 0
	switch {
	case r.Key != nil:
		pick = hasher.Partition(r, n)
	case !ours:
		pick = rand.IntN(n)
	default:
		if t.batch != at.b || t.pick >= n {
			t.batch, t.pick = at.b, t.p.stuck.choose(t.topic, n)
		}
		pick = t.pick
	}
	if ours {
		at.partition, at.partitions = int32(pick), int32(n)
	}
	return pick
}

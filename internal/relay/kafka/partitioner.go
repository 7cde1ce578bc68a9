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
// one partition chosen for the batch. The client would only avoid partitions without a leader; this
// partitioner avoids partitions that owe an answer, whatever the reason.
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
	view  view
}

// view is the number of partitions among which the records of a batch are put, and whether they may be.
type view struct {
	batch   int64 // its number: the client may keep this for long
	n       int
	changes int64 // of Publisher.sizes when it was asked
	ok      bool
}

// current reports whether the records of a batch may be put among n partitions. A batch has one number only: if
// the records of a key went to two partitions, the later ones could arrive without the earlier ones.
func (t *topicPartitioner) current(b *batch, n int) bool {
	v, changes := &t.view, t.p.sizes.changes.Load()
	switch {
	case v.batch != b.number || v.n == 0:
		*v = view{b.number, n, changes, t.p.maySend(t.topic, n)}
	case v.n != n:
		v.ok = false
	case v.changes != changes:
		v.changes, v.ok = changes, v.ok && t.p.maySend(t.topic, n)
	}
	return v.ok
}

// RequiresConsistency implements kgo.TopicPartitioner: the choice is always among all partitions, so that
// it is a partition's number.
func (*topicPartitioner) RequiresConsistency(*kgo.Record) bool { return true }

// Partition implements kgo.TopicPartitioner, and tells the record's reference what it chose. A negative number fails
// the record.
func (t *topicPartitioner) Partition(r *kgo.Record, n int) int {
	at, ours := recordRefOf(r)
	if ours && !t.current(at.b, n) {
		at.partitionsChanged = true
		return -1
	}
	pick := 0
	switch {
	case ours && at.chosen != nil:
		if pick = int(*at.chosen); pick >= n { // the broker knows more partitions than this client: see noSuchPartition
			at.partitionsChanged = true
			return -1
		}
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

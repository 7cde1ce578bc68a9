package kafka

import (
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/postrider/postrider/internal/relay"
	"github.com/postrider/postrider/internal/testenv/kafkatest"
)

// The client gives the error of a batch to every record that it holds for the partition. An error
// that one record causes must end as the fault of that record alone.

// without returns the messages except the ones at these places, which are in order.
func without(ms []relay.Message, places ...int) []relay.Message {
	ms = slices.Clone(ms)
	for _, i := range slices.Backward(places) {
		ms = slices.Delete(ms, i, i+1)
	}
	return ms
}

// TestTooLargeForTheTopic: the topic takes less than the client thinks.
func TestTooLargeForTheTopic(t *testing.T) {
	t.Parallel()
	kafkatest.Each(t, func(t *testing.T, b *kafkatest.Broker) {
		topic := b.Topic(t, 2, map[string]string{"max.message.bytes": "2000"})
		other := b.Topic(t, 1, nil)
		p := newPublisher(t, b, nil)
		ms := append(messages(topic, 30, keys(10)...), messages(other, 3, "k")...)
		for _, i := range []int{7, 150} {
			ms[i].Value = append(ms[i].Value, make([]byte, 2000)...)
		}
		out := publishOn(t, p, ms...)
		wantAll(t, out, relay.Delivered, 7, 150)
		wantOutcomes(t, []relay.Outcome{out[7], out[150]}, "permanent MESSAGE_TOO_LARGE", "permanent MESSAGE_TOO_LARGE")
		wantTopic(t, b, topic, without(ms, 7, 150)...)
		wantTopic(t, b, other, ms[300:]...)
	})
}

// TestSmallRecordsTooLargeTogether: no record is too large, only what the client makes of them.
func TestSmallRecordsTooLargeTogether(t *testing.T) {
	t.Parallel()
	b := kafkatest.Kfake(t)
	topic := b.Topic(t, 1, map[string]string{"max.message.bytes": "1000"})
	ms := messages(topic, 30, keys(10)...)
	wantAll(t, publish(t, newPublisher(t, b, nil), ms...), relay.Delivered)
	wantTopic(t, b, topic, ms...)
}

// TestErrorOnce: an error that does not repeat is no record's fault.
func TestErrorOnce(t *testing.T) {
	t.Parallel()
	for err, class := range classes {
		if !suspect(class) {
			continue
		}
		t.Run(err.Message, func(t *testing.T) {
			t.Parallel()
			b := kafkatest.Kfake(t)
			topic := b.Topic(t, 2, nil)
			fault(b, kmsg.Produce, topic, err, 1)
			ms := messages(topic, 10, keys(5)...)
			wantAll(t, publish(t, newPublisher(t, b, nil), ms...), relay.Delivered)
			wantTopic(t, b, topic, ms...)
		})
	}
}

// TestInvalidRecord: one record is refused whenever it is sent. It is given up, and its key goes on when
// the caller knows.
func TestInvalidRecord(t *testing.T) {
	t.Parallel()
	b := kafkatest.Kfake(t)
	topic := b.Topic(t, 3, nil)
	ms := messages(topic, 20, keys(10)...)
	for _, bad := range []int{0, 55, len(ms) - 1} {
		refuse(b, topic, 3, string(ms[bad].Value), kerr.InvalidRecord)
	}
	p := newPublisher(t, b, nil)
	first := publish(t, p, ms[0], ms[10], ms[20], ms[1])
	wantOutcomes(t, first, "permanent INVALID_RECORD", "withheld", "withheld", "delivered")
	out := append(first[:1:1], first[3])
	out = append(out, publishOn(t, p, ms[2:]...)...)
	wantAll(t, out, relay.Delivered, 0, 55, len(ms)-1)
	for _, bad := range []int{0, 55, len(ms) - 1} {
		wantOutcomes(t, out[bad:bad+1], "permanent INVALID_RECORD")
	}
	wantTopic(t, b, topic, without(ms, 0, 55, len(ms)-1)...)
}

// TestRecordThatMayPass: one record is refused for a reason that may pass. The rest of its key waits,
// other keys do not, and all of it goes in order when the record does.
func TestRecordThatMayPass(t *testing.T) {
	t.Parallel()
	for err, class := range classes {
		if class != relay.Record {
			continue
		}
		t.Run(err.Message, func(t *testing.T) {
			t.Parallel()
			b := kafkatest.Kfake(t)
			topic := b.Topic(t, 3, nil)
			p := newPublisher(t, b, nil)
			ms := messages(topic, 5, keys(4)...)
			behind := []int{9, 13, 17} // the bad one and what follows it, all of key k1
			f := refuse(b, topic, 3, string(ms[9].Value), err)
			out := publish(t, p, ms...)
			wantAll(t, out, relay.Delivered, behind...)
			var rest []relay.Message // what a relay tries again
			for _, i := range behind {
				rest = append(rest, ms[i])
			}
			wantOutcomes(t, []relay.Outcome{out[9], out[13], out[17]}, "record "+err.Message, "withheld", "withheld")
			wantOutcomes(t, publish(t, p, rest...), "record "+err.Message, "withheld", "withheld")
			f.Remove()
			wantAll(t, publish(t, p, rest...), relay.Delivered)
			wantTopic(t, b, topic, ms...)
		})
	}
}

// TestWithoutAKey: records without a key have no order, so none waits for another.
func TestWithoutAKey(t *testing.T) {
	t.Parallel()
	b := kafkatest.Kfake(t)
	topic := b.Topic(t, 1, nil)
	ms := messages(topic, 9, "")
	refuse(b, topic, 1, string(ms[3].Value), kerr.CorruptMessage)
	refuse(b, topic, 1, string(ms[6].Value), kerr.InvalidRecord)
	out := publish(t, newPublisher(t, b, nil), ms...)
	wantAll(t, out, relay.Delivered, 3, 6)
	wantOutcomes(t, []relay.Outcome{out[3], out[6]}, "record CORRUPT_MESSAGE", "permanent INVALID_RECORD")
}

// TestNullKeyInACompactedTopic is how a real broker comes to refuse single records.
func TestNullKeyInACompactedTopic(t *testing.T) {
	t.Parallel()
	b := kafkatest.OnlyReal(t) // kfake takes such records
	topic := b.Topic(t, 1, map[string]string{"cleanup.policy": "compact"})
	ms := messages(topic, 5, "k0", "k1", "")
	out := publish(t, newPublisher(t, b, nil), ms...)
	wantAll(t, out, relay.Delivered, 2, 5, 8, 11, 14)
	wantOutcomes(t, out[14:], "permanent INVALID_RECORD")
	wantTopic(t, b, topic, without(ms, 2, 5, 8, 11, 14)...)
}

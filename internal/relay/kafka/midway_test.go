package kafka

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/postrider/postrider/internal/relay"
	"github.com/postrider/postrider/internal/testenv/kafkatest"
)

// What a client learns of its topics on the side, between batches and in the middle of one.

// learn makes the free clients ask the broker about their topics.
func learn(p *Publisher) {
	p.mu.Lock()
	for _, c := range p.idle {
		c.ForceMetadataRefresh()
	}
	p.mu.Unlock()
	time.Sleep(100 * time.Millisecond)
}

// TestTopicErrorWhileIdle: a client that has sent to a topic learns of trouble with it before it is asked
// to send more. Making it forget the topic lost records: the client numbered them from 0 again, and the
// broker took the next for a copy of the first, which it acknowledged and did not write.
func TestTopicErrorWhileIdle(t *testing.T) {
	t.Parallel()
	for _, err := range brokerErrors() {
		t.Run(err.Message, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b := kafkatest.Virtual(t)
				topic := b.Topic(t, 1, nil)
				p := newPublisher(t, b, nil)
				ms := messages(topic, 3, "k")
				wantAll(t, publish(t, p, ms[0]), relay.Delivered)
				f := fault(b, kmsg.Metadata, topic, err, 0)
				learn(p)
				out := publish(t, p, ms[1])
				f.Remove()
				time.Sleep(time.Second)
				if out[0].Class != relay.Delivered { // some errors a client that knows the topic does not mind
					wantAll(t, publish(t, p, ms[1]), relay.Delivered)
				} else if _, ok := classes[err]; ok && !kerr.IsRetriable(err) {
					t.Error("the error did not reach the client")
				}
				wantAll(t, publish(t, p, ms[2]), relay.Delivered)
				wantTopic(t, b, topic, ms...)
			})
		})
	}
}

// pause stops the client when it is handed a record, or when it queues it for a partition.
type pause struct {
	handed, queued string // the value of the record
	do             func()
}

func (h *pause) OnProduceRecordBuffered(r *kgo.Record) {
	if string(r.Value) == h.handed {
		h.handed = ""
		h.do()
	}
}

func (h *pause) OnProduceRecordPartitioned(r *kgo.Record, _ int32) {
	if string(r.Value) == h.queued {
		h.queued = ""
		h.do()
	}
}

// TestTopicErrorMidway: the topic fails while a batch is handed to the client, and works again before it
// is whole. The second half must not go without the first.
func TestTopicErrorMidway(t *testing.T) {
	t.Parallel()
	for _, err := range []*kerr.Error{kerr.TopicAuthorizationFailed, kerr.UnknownServerError, kerr.InvalidReplicationFactor} {
		for name, known := range map[string]bool{"new topic": false, "known topic": true} {
			t.Run(name+" "+err.Message, func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) { testTopicErrorMidway(t, err, known) })
			})
		}
	}
}

func testTopicErrorMidway(t *testing.T, err *kerr.Error, known bool) {
	b := kafkatest.Virtual(t)
	topic, other := b.Topic(t, 2, nil), b.Topic(t, 1, nil)
	var h pause
	p := newPublisher(t, b, func(c *Config) { c.Options = append(c.Options, kgo.WithHooks(&h)) })
	var before []relay.Message
	if known {
		before = messages(topic, 1, "k0")
		before[0].Value = []byte("before")
		wantAll(t, publish(t, p, before...), relay.Delivered)
	}
	f := fault(b, kmsg.Metadata, topic, err, 0)
	learn(p)
	ms := append(messages(topic, 10, keys(4)...), messages(other, 1, "k")...)
	h = pause{handed: string(ms[20].Value), do: func() {
		time.Sleep(100 * time.Millisecond) // the first half fails
		f.Remove()
		time.Sleep(time.Second) // the topic works again
	}}
	out := publish(t, p, ms...)
	class, _ := classify(err)
	if suspect(class) {
		class = relay.Infrastructure // none was sent, so none can be to blame
	}
	for _, o := range out[:40] {
		wantOutcomes(t, []relay.Outcome{o}, string(class)+" "+err.Message)
	}
	wantAll(t, out[40:], relay.Delivered)
	wantAll(t, publish(t, p, ms[0]), relay.Delivered) // as many records as before, see TestTopicErrorWhileIdle
	wantAll(t, publish(t, p, ms[1:40]...), relay.Delivered)
	wantTopic(t, b, topic, append(before, ms...)...)
	wantTopic(t, b, other, ms...)
}

// TestWholeBeforeSent: the client fails with a bad record what it holds for the partition, and only that.
// So it must hold all of a batch before it sends any.
func TestWholeBeforeSent(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := kafkatest.Virtual(t)
		topic := b.Topic(t, 1, nil)
		var h pause
		p := newPublisher(t, b, func(c *Config) { c.Options = append(c.Options, kgo.WithHooks(&h)) })
		sent := b.Cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Count: -1, Observe: true})
		ms := messages(topic, 300, "k")
		for batch := range 3 { // the first on a client that does not know the topic yet
			part := ms[100*batch:][:100]
			before, during := sent.Hits(), 0
			h = pause{handed: string(part[99].Value), do: func() {
				time.Sleep(time.Minute)
				during = sent.Hits()
			}}
			wantAll(t, publishFor(t, p, time.Hour, part...), relay.Delivered)
			if during != before {
				t.Errorf("batch %d: %d requests before the batch was whole", batch, during-before)
			}
		}
		wantTopic(t, b, topic, ms...)
	})
}

// TestWholeBeforeSentToANewTopic: the client looks the topic up on the side and queues the records then.
// Told to flush before, it sends the first of them while it queues the rest.
func TestWholeBeforeSentToANewTopic(t *testing.T) {
	t.Parallel()
	b := kafkatest.Kfake(t, kfake.NumBrokers(2))
	topic := b.Topic(t, 2, nil)
	for p := range int32(2) {
		if err := b.Cluster.MoveTopicPartition(topic, p, p); err != nil {
			t.Fatal(err)
		}
	}
	ms := messages(topic, 20, keys(8)...)
	b.Cluster.Fault(
		kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: topic, Partitions: []int32{0}, Err: kerr.MessageTooLarge},
		kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: topic, Partitions: []int32{1}, Err: kerr.MessageTooLarge})
	refused := make(refusal, len(ms))
	h := pause{queued: string(ms[80].Value), do: func() {
		select {
		case <-refused: // the other partition's first half, too early
		case <-time.After(200 * time.Millisecond):
		}
	}}
	p := newPublisher(t, b, func(c *Config) { c.Options = append(c.Options, kgo.WithHooks(&h, refused)) })
	wantAll(t, publish(t, p, ms...), relay.Delivered)
	wantTopic(t, b, topic, ms...)
}

// refusal tells of records that failed, as far as it has room.
type refusal chan error

func (h refusal) OnProduceRecordUnbuffered(_ *kgo.Record, err error) {
	select {
	case h <- err:
	default:
	}
}

// TestLookupTakesTooLong: one topic cannot be looked up. It is not sent to, and the others go.
func TestLookupTakesTooLong(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := kafkatest.Virtual(t)
		topic, other := b.Topic(t, 1, nil), b.Topic(t, 1, nil)
		p := newPublisher(t, b, nil)
		f := fault(b, kmsg.Metadata, topic, kerr.LeaderNotAvailable, 0) // for the whole topic, as while it is created
		ms := append(messages(topic, 2, "a"), messages(other, 2, "b")...)
		const away = "infrastructure BROKER_UNREACHABLE"
		wantOutcomes(t, publish(t, p, ms...), away, away, "delivered", "delivered")
		wantOutcomes(t, publishFor(t, p, time.Second, ms[:2]...), away, away)
		f.Remove()
		wantAll(t, publish(t, p, ms[:2]...), relay.Delivered)
		wantTopic(t, b, topic, ms...)
		wantTopic(t, b, other, ms...)
	})
}

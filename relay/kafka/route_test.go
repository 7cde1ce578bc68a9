package kafka

import (
	"testing"
	"testing/synctest"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/postrider/postrider/relay"
	"github.com/postrider/postrider/relay/kafka/kafkatest"
)

// TestMissingTopic: it is nobody's fault but the topic's, and heals when somebody creates it.
func TestMissingTopic(t *testing.T) {
	t.Parallel()
	kafkatest.Each(t, func(t *testing.T, b *kafkatest.Broker) {
		topic := b.Topic(t, 2, nil)
		missing := topic + "-missing"
		p := newPublisher(t, b, nil)
		ms := append(messages(missing, 3, "a", "b"), messages(topic, 3, "c", "d")...)
		out := publish(t, p, ms...)
		wantAll(t, out[:6], relay.Route)
		wantAll(t, out[6:], relay.Delivered)
		wantOutcomes(t, out[:1], "route UNKNOWN_TOPIC_OR_PARTITION")
		b.CreateTopic(t, missing, 2, nil)
		wantAll(t, publish(t, p, ms[:6]...), relay.Delivered)
		wantTopic(t, b, missing, ms...)
		wantTopic(t, b, topic, ms...)
	})
}

func TestAllowTopicCreation(t *testing.T) {
	t.Parallel()
	b := kafkatest.Kfake(t, kfake.AllowAutoTopicCreation())
	ms := messages("created", 3, "a", "b")
	p := newPublisher(t, b, func(c *Config) { c.AllowTopicCreation = true })
	wantAll(t, publish(t, p, ms...), relay.Delivered)
	wantTopic(t, b, "created", ms...)
	// Without the setting the broker's leave does not count.
	wantOutcomes(t, publish(t, newPublisher(t, b, nil), message("not-created", "k", "v")), "route UNKNOWN_TOPIC_OR_PARTITION")
}

// TestRecreatedTopic: a client that knew the topic before fails with it for ever. One failure must be
// enough for all clients, because each costs the topic a longer hold.
func TestRecreatedTopic(t *testing.T) {
	t.Parallel()
	kafkatest.Each(t, func(t *testing.T, b *kafkatest.Broker) {
		topic := b.Topic(t, 2, nil)
		p := newPublisher(t, b, nil)
		useClients(t, p, 5, func(n int) {
			wantAll(t, publish(t, p, messages(topic, 2, keys(4)...)...), relay.Delivered)
		})
		recreate(t, b, topic)
		ms := messages(topic, 2, keys(4)...)
		out := publish(t, p, ms...)
		wantAll(t, out, relay.Route)
		wantOutcomes(t, out[:1], "route UNKNOWN_TOPIC_ID")
		useClients(t, p, 5, func(n int) {
			if n == 0 {
				wantAll(t, publish(t, p, ms...), relay.Delivered)
				wantTopic(t, b, topic, ms...)
			} else {
				wantAll(t, publish(t, p, messages(topic, 2, keys(4)...)...), relay.Delivered)
			}
		})
	})
}

// useClients calls use n times, each time with another client of the publisher free and no other.
func useClients(t *testing.T, p *Publisher, n int, use func(n int)) {
	t.Helper()
	var taken []*kgo.Client
	for i := range n {
		use(i)
		c, err := p.take()
		if err != nil {
			t.Fatal(err)
		}
		taken = append(taken, c)
	}
	for _, c := range taken {
		p.giveBack(c)
	}
}

func recreate(t *testing.T, b *kafkatest.Broker, topic string) {
	t.Helper()
	admin := b.Admin(t)
	before, err := admin.ListTopics(t.Context(), topic)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := admin.DeleteTopic(t.Context(), topic); err != nil {
		t.Fatal(err)
	}
	b.CreateTopic(t, topic, len(before[topic].Partitions), nil)
}

// TestUnauthorised: whoever may not write to one topic may write to the others.
func TestUnauthorised(t *testing.T) {
	t.Parallel()
	b := kafkatest.Kfake(t)
	closed, open := b.Topic(t, 2, nil), b.Topic(t, 2, nil)
	p := newPublisher(t, b, nil)
	ms := append(messages(closed, 5, "a", "b"), messages(open, 5, "c", "d")...)
	for _, request := range []kmsg.Key{kmsg.Produce, kmsg.Metadata} {
		f := fault(b, request, closed, kerr.TopicAuthorizationFailed, 0)
		out := publish(t, p, ms...)
		wantAll(t, out[:10], relay.Route)
		wantAll(t, out[10:], relay.Delivered)
		wantOutcomes(t, out[9:10], "route TOPIC_AUTHORIZATION_FAILED")
		wantTopic(t, b, open, ms...)
		ms = append(ms[:10:10], messages(open, 5, "e", "f")...)
		open = b.Topic(t, 2, nil)
		for i := range ms[10:] {
			ms[10+i].Topic = open
		}
		f.Remove()
	}
	wantAll(t, publish(t, p, ms...), relay.Delivered)
	wantTopic(t, b, closed, ms...)
}

// TestTopicErrorWhileIdle: a client that learns of the topic's trouble before it is asked to send, and
// has sent to it before. Making it forget the topic lost records: the client numbered them from 0 again
// and the broker took the next for a copy of the first, which it acknowledged and did not write.
func TestTopicErrorWhileIdle(t *testing.T) {
	t.Parallel()
	for err, class := range classes {
		if class != relay.Route {
			continue
		}
		t.Run(err.Message, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b := kafkatest.Virtual(t)
				topic := b.Topic(t, 1, nil)
				p := newPublisher(t, b, nil)
				ms := messages(topic, 3, "k")
				wantAll(t, publish(t, p, ms[0]), relay.Delivered)
				f := fault(b, kmsg.Metadata, topic, err, 0)
				p.idle[0].ForceMetadataRefresh()
				synctest.Wait()
				first := publish(t, p, ms[1])
				f.Remove()
				if first[0].Class != relay.Delivered { // some errors the client does not mind
					first = publish(t, p, ms[1])
				}
				wantAll(t, first, relay.Delivered)
				wantAll(t, publish(t, p, ms[2]), relay.Delivered)
				wantTopic(t, b, topic, ms...)
			})
		})
	}
}

// midway stops the client in the middle of a batch until its first half has failed.
type midway struct {
	halt, failed string
	done         chan struct{}
}

func (m *midway) OnProduceRecordBuffered(r *kgo.Record) {
	if string(r.Value) == m.halt {
		<-m.done
	}
}

func (m *midway) OnProduceRecordUnbuffered(r *kgo.Record, err error) {
	if string(r.Value) == m.failed && err != nil {
		close(m.done)
	}
}

// TestTopicErrorMidway: the topic fails while the batch is handed to the client, and works again before
// it is whole. The second half must not go without the first.
func TestTopicErrorMidway(t *testing.T) {
	t.Parallel()
	for _, err := range []*kerr.Error{kerr.TopicAuthorizationFailed, kerr.UnknownServerError, kerr.InvalidReplicationFactor} {
		t.Run(err.Message, func(t *testing.T) {
			t.Parallel()
			b := kafkatest.Kfake(t)
			topic, other := b.Topic(t, 2, nil), b.Topic(t, 1, nil)
			ms := append(messages(topic, 10, keys(4)...), messages(other, 1, "k")...)
			hook := &midway{failed: string(ms[18].Value), halt: string(ms[20].Value), done: make(chan struct{})}
			p := newPublisher(t, b, func(c *Config) { c.Options = append(c.Options, kgo.WithHooks(hook)) })
			fault(b, kmsg.Metadata, topic, err, 1)
			out := publish(t, p, ms...)
			class, _ := classify(err)
			if suspect(class) {
				class = relay.Infrastructure // none was sent, so none can be to blame
			}
			for _, o := range out[:40] {
				wantOutcomes(t, []relay.Outcome{o}, string(class)+" "+err.Message)
			}
			wantAll(t, out[40:], relay.Delivered)
			hook.failed, hook.halt = "", ""
			wantAll(t, publish(t, p, ms[:40]...), relay.Delivered)
			wantTopic(t, b, topic, ms...)
			wantTopic(t, b, other, ms...)
		})
	}
}

package kafka

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/postrider/postrider/internal/relay"
	"github.com/postrider/postrider/internal/testenv/kafkatest"
)

// TestMissingTopic: only the topic is at fault, and the fault ends when the topic is created.
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
	wantOutcomes(t, publish(t, newPublisher(t, b, nil), messageOf("not-created", "k", "v")), "route UNKNOWN_TOPIC_OR_PARTITION")
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

// TestTopicThatCannotBe: the broker refuses a topic for good, whether it says so when it is looked up or when it is
// written to. Its messages are given up, each after it failed alone, and others go.
func TestTopicThatCannotBe(t *testing.T) {
	t.Parallel()
	for _, request := range []kmsg.Key{kmsg.Produce, kmsg.Metadata} {
		t.Run(request.Name(), func(t *testing.T) {
			t.Parallel()
			b := kafkatest.Kfake(t)
			bad, good := b.Topic(t, 2, nil), b.Topic(t, 2, nil)
			p := newPublisher(t, b, nil)
			fault(b, request, bad, kerr.InvalidTopicException, 0)
			ms := append(messages(bad, 3, "a", ""), messages(good, 5, "c", "d")...)
			out := publish(t, p, ms...)
			wantAll(t, out[6:], relay.Delivered)
			// Later messages of a key wait until the caller has noted that the first is given up.
			const refused = "permanent INVALID_TOPIC_EXCEPTION"
			wantOutcomes(t, out[:6], refused, refused, "withheld", refused, "withheld", refused)
			for _, o := range publishOn(t, p, ms[:6]...) {
				wantOutcomes(t, []relay.Outcome{o}, refused)
			}
			wantTopic(t, b, good, ms...)
		})
	}
}

// TestRefusedLookupOnce: when the broker takes the refusal back as the first message is tried alone, none is given up.
func TestRefusedLookupOnce(t *testing.T) {
	t.Parallel()
	b := kafkatest.Kfake(t)
	topic := b.Topic(t, 1, nil)
	fault(b, kmsg.Metadata, topic, kerr.InvalidTopicException, 1)
	ms := messages(topic, 5, "a", "b")
	wantAll(t, publishOn(t, newPublisher(t, b, nil), ms...), relay.Delivered)
	wantTopic(t, b, topic, ms...)
}

// TestUnauthorised: a publisher that may not write to one topic may write to the others.
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

package kafka

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/postrider/postrider/internal/relay"
	"github.com/postrider/postrider/internal/testenv/kafkatest"
)

// TestRemember: what was delivered and could not be settled is not sent again, while what follows is.
func TestRemember(t *testing.T) {
	t.Parallel()
	b := kafkatest.Kfake(t)
	topic := b.Topic(t, 1, nil)
	p := newPublisher(t, b, nil)
	ms := messages(topic, 4, "a", "b")
	for range 2 { // settling may fail again
		wantAll(t, publish(t, p, ms[:4]...), relay.Delivered)
		p.Remember(ms[:4])
	}
	wantAll(t, publish(t, p, ms...), relay.Delivered)
	wantTopic(t, b, topic, ms...)
	if len(p.pending) > 0 {
		t.Errorf("%d outcomes are still remembered", len(p.pending))
	}
}

// TestRememberIsByMessage: the same event goes to its topic and, given up, to the dead-letter topic, and
// again after a redrive; and a copy of its database is another source with the same event id. None of these stands for
// another.
func TestRememberIsByMessage(t *testing.T) {
	t.Parallel()
	b := kafkatest.Kfake(t)
	topic := b.Topic(t, 1, nil)
	p := newPublisher(t, b, nil)
	event := messageOf(topic, "k", "event")
	letter, redriven, copied := event, event, event
	letter.ID.Letter, letter.Value = true, []byte("letter")
	redriven.ID.Episode, redriven.Value = 1, []byte("redriven")
	copied.ID.Source, copied.Value = "copy", []byte("of another source")
	p.Remember([]relay.Message{event})
	wantAll(t, publish(t, p, letter, redriven, copied, event), relay.Delivered)
	wantTopic(t, b, topic, letter, redriven, copied)
}

// TestForgetting: outcomes that no call asks for go after a while, counted from the time when they were known.
// Records without an outcome stay.
func TestForgetting(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := kafkatest.Virtual(t)
		landing, silent := b.Topic(t, 1, nil), b.Topic(t, 1, nil)
		p := newPublisher(t, b, nil)
		f := fault(b, kmsg.Produce, landing, kerr.NotLeaderForPartition, 0)
		fault(b, kmsg.Produce, silent, kerr.NotLeaderForPartition, 0)
		ms := append(messages(landing, 1, "k"), messages(silent, 1, "k")...)
		wantAll(t, publish(t, p, ms...), relay.Infrastructure)

		remembered := messages(landing, 70, "r")
		p.Remember(remembered)
		time.Sleep(rememberFor + time.Minute)
		f.Remove()
		time.Sleep(time.Minute) // one of the two lands, long after it was sent
		p.Remember(messages(landing, 1, "r"))
		if len(p.pending) != 3 {
			t.Errorf("%d of 73 are remembered, want the new one, the one that just landed and the one that is away", len(p.pending))
		}
		wantOutcomes(t, publish(t, p, ms...), "delivered", "infrastructure UNKNOWN_OUTCOME")
		wantTopic(t, b, landing, ms...)
	})
}

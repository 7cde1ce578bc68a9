package kafka

import (
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/postrider/postrider/internal/relay"
	"github.com/postrider/postrider/internal/testenv/kafkatest"
)

// TestFlushBeforeTheQueuesAreFound: a topic is new to the client, which puts the records into their queues and lets
// flushes find these only after the last. The first queue's linger is over by then.
func TestFlushBeforeTheQueuesAreFound(t *testing.T) {
	t.Parallel()
	b := kafkatest.Kfake(t, kfake.NumBrokers(2)) // a broker's loop sends the records of all of its queues
	topic := b.Topic(t, 2, nil)
	for p := range int32(2) {
		if err := b.Cluster.MoveTopicPartition(topic, p, p); err != nil {
			t.Fatal(err)
		}
	}
	var h pause
	p := newPublisher(t, b, func(c *Config) { c.Options = append(c.Options, kgo.WithHooks(&h)) })
	key := func(partition int32) string {
		for i := 0; ; i++ {
			if k := fmt.Sprint("k", i); p.Partition([]byte(k), 2) == partition {
				return k
			}
		}
	}
	ms := []relay.Message{messageOf(topic, key(0), "first"), messageOf(topic, key(1), "second"), messageOf(topic, key(1), "third")}
	h = pause{queued: "second", do: func() {
		time.Sleep(50 * time.Millisecond)
		h.queued, h.do = "third", func() { time.Sleep(50 * time.Millisecond) }
	}}
	wantAll(t, publish(t, p, ms...), relay.Delivered)
	wantTopic(t, b, topic, ms...)
}

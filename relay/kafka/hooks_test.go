package kafka

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/postrider/postrider/relay"
	"github.com/postrider/postrider/relay/kafka/kafkatest"
)

// around puts a context of its own around that of each record, as hooks do that make spans.
type around struct{}

func (a around) OnProduceRecordBuffered(r *kgo.Record) {
	r.Context = context.WithValue(r.Context, a, "a span")
}

// TestContextsOfHooks: a batch finds its records behind the contexts of others. Otherwise it would take none of them for
// queued, wait, and send nothing.
func TestContextsOfHooks(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := kafkatest.Virtual(t)
		topic, without := b.Topic(t, 4, nil), b.Topic(t, 4, nil)
		p := newPublisher(t, b, func(c *Config) { c.Options = append(c.Options, kgo.WithHooks(around{})) })
		ms := messages(topic, 20, keys(4)...)
		n := len(ms)
		ms = append(ms, messages(without, 20, "")...)
		began := time.Now()
		out := publish(t, p, ms...)
		wantAll(t, out, relay.Delivered)
		if took := time.Since(began); took >= lookupTimeout {
			t.Errorf("it took %v", took)
		}
		wantTopic(t, b, topic, ms...)
		for i, o := range out {
			switch {
			case o.Partitions != 4:
				t.Errorf("outcome %d is of %d partitions", i, o.Partitions)
			case i < n && o.Partition != p.Partition(ms[i].Key, 4):
				t.Errorf("the key %s is on partition %d", ms[i].Key, o.Partition)
			case i >= n && o.Partition != out[n].Partition:
				t.Errorf("records without a key are on the partitions %d and %d", out[n].Partition, o.Partition)
			}
		}
	})
}

package kafka

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/postrider/postrider/internal/relay"
	"github.com/postrider/postrider/internal/testenv/kafkatest"
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
		wantAll(t, publish(t, p, ms...), relay.Delivered)
		if took := time.Since(began); took >= lookupTimeout {
			t.Errorf("it took %v", took)
		}
		wantTopic(t, b, topic, ms...)
		keyless := map[int32]bool{}
		for _, r := range b.ReadAll(t, topic, n) {
			if want := p.Partition(r.Key, 4); r.Partition != want {
				t.Errorf("the key %s is on partition %d, want %d", r.Key, r.Partition, want)
			}
		}
		for _, r := range b.ReadAll(t, without, len(ms)-n) {
			keyless[r.Partition] = true
		}
		if len(keyless) != 1 {
			t.Errorf("the records of one batch without a key are on %d partitions", len(keyless))
		}
	})
}

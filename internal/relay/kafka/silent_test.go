package kafka

import (
	"context"
	"io"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/postrider/postrider/internal/relay"
	"github.com/postrider/postrider/internal/testenv/kafkatest"
)

// silent makes the brokers for which is is true take connections and say nothing.
func silent(t *testing.T, b *kafkatest.Broker, is func(addr string) bool) func(*Config) {
	dial := dialer(t, b)
	return func(c *Config) {
		c.Options = []kgo.Opt{kgo.Dialer(func(ctx context.Context, network, addr string) (net.Conn, error) {
			if !is(addr) {
				return dial(ctx, network, addr)
			}
			near, far := net.Pipe()
			go func() { _, _ = io.Copy(io.Discard, far) }()
			return near, nil
		})}
	}
}

// threeBrokers has a topic that the second of them leads.
func threeBrokers(t *testing.T) (b *kafkatest.Broker, topic string) {
	b = kafkatest.Virtual(t, kfake.Ports(9092, 9093, 9094))
	topic = b.Topic(t, 1, nil)
	if err := b.Cluster.MoveTopicPartition(topic, 0, 1); err != nil {
		t.Fatal(err)
	}
	return b, topic
}

// TestSilentSeed: one of three brokers takes connections and says nothing. New clients send at once to
// partitions that the other brokers lead, whichever seed they begin with. They know all seeds afterwards, and go on.
func TestSilentSeed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b, topic := threeBrokers(t)
		first := b.Cluster.ListenAddrs()[0]
		for range 8 {
			time.Sleep(time.Millisecond) // the seed that a client begins with is drawn from the clock
			p := newPublisher(t, b, silent(t, b, func(addr string) bool { return addr == first }))
			for range 2 {
				wantAll(t, publishFor(t, p, time.Second, messageOf(topic, "k", "v")), relay.Delivered)
			}
			synctest.Wait()
			p.mu.Lock()
			if len(p.idle) != 1 || len(p.idle[0].SeedBrokers()) != 3 {
				t.Errorf("%d clients are idle, and the first of them does not know three seeds", len(p.idle))
			}
			p.mu.Unlock()
		}
	})
}

// TestAllSilent: no broker says anything, and then all do. The client that waits for an answer is not used again, and so the
// next attempt goes at once.
func TestAllSilent(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b, topic := threeBrokers(t)
		var are atomic.Bool
		are.Store(true)
		p := newPublisher(t, b, silent(t, b, func(string) bool { return are.Load() }))
		m := messageOf(topic, "k", "v")
		wantOutcomes(t, publishFor(t, p, time.Second, m), "infrastructure BROKER_UNREACHABLE")
		are.Store(false)
		wantAll(t, publishFor(t, p, time.Second, m), relay.Delivered)
	})
}

package kafka

import (
	"context"
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/postrider/postrider/relay"
	"github.com/postrider/postrider/relay/kafka/kafkatest"
)

// TestSilentSeed: one of three brokers takes connections and says nothing. New clients send at once to those that the others
// lead, whichever seed they begin with, and know all seeds afterwards.
func TestSilentSeed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := kafkatest.Virtual(t, kfake.Ports(9092, 9093, 9094))
		topic := b.Topic(t, 1, nil)
		if err := b.Cluster.MoveTopicPartition(topic, 0, 1); err != nil {
			t.Fatal(err)
		}
		dial, silent := dialer(t, b), b.Cluster.ListenAddrs()[0]
		for range 8 {
			time.Sleep(time.Millisecond) // the seed that a client begins with is drawn from the clock
			p := newPublisher(t, b, func(c *Config) {
				c.Options = []kgo.Opt{kgo.Dialer(func(ctx context.Context, network, addr string) (net.Conn, error) {
					if addr != silent {
						return dial(ctx, network, addr)
					}
					near, far := net.Pipe()
					go func() { _, _ = io.Copy(io.Discard, far) }()
					return near, nil
				})}
			})
			wantAll(t, publishFor(t, p, time.Second, message(topic, "k", "v")), relay.Delivered)
			synctest.Wait()
			p.mu.Lock()
			for _, c := range p.idle {
				if n := len(c.SeedBrokers()); n != 3 {
					t.Errorf("the client knows %d seeds afterwards", n)
				}
			}
			p.mu.Unlock()
		}
	})
}

package kafkawire_test

import (
	"bytes"
	"context"
	"errors"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/postrider/postrider/internal/testenv/kafkatest"
	"github.com/postrider/postrider/internal/testenv/kafkawire"
)

func TestMain(m *testing.M) { kafkatest.Main(m) }

// TestMaxRequest: a small request passes, and a large one ends its connection and is never seen by the broker.
func TestMaxRequest(t *testing.T) {
	t.Parallel()
	const limit = 100_000
	var cut atomic.Int64
	manner := kafkawire.Manner{MaxRequest: limit, Cut: func(bytes int) {
		if bytes <= limit {
			t.Errorf("a request of %d bytes was cut", bytes)
		}
		cut.Add(1)
	}}
	b := kafkatest.Kfake(t, kfake.ListenFn(manner.Over(net.Listen)))
	topic := b.Topic(t, 1, nil)
	client := b.Client(t, kgo.ProducerBatchCompression(kgo.NoCompression()))
	value := bytes.Repeat([]byte("x"), limit*9/10)
	if err := client.ProduceSync(t.Context(), &kgo.Record{Topic: topic, Value: value}).FirstErr(); err != nil || cut.Load() > 0 {
		t.Fatalf("%v; %d requests were cut", err, cut.Load())
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	client.Produce(ctx, &kgo.Record{Topic: topic, Value: bytes.Repeat([]byte("x"), limit)}, nil)
	for deadline := time.After(time.Minute); cut.Load() < 2; {
		select {
		case <-time.After(5 * time.Millisecond):
		case <-deadline:
			t.Fatalf("%d requests were cut", cut.Load())
		}
	}
	if got := b.ReadAll(t, topic, 1); len(got) != 1 {
		t.Errorf("%d records", len(got))
	}
}

// TestCloseEndsAnAnswer: a broker that answers what was not asked does not wait for ever.
func TestCloseEndsAnAnswer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var network kfake.VirtualNetwork
		l, err := kafkawire.Manner{ProduceTime: time.Second}.Over(network.Listen)("tcp", "127.0.0.1:9092")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		go func() {
			if _, err := network.DialContext(t.Context(), "tcp", l.Addr().String()); err != nil {
				t.Error(err)
			}
		}()
		broker, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() {
			_, err := broker.Write([]byte("x"))
			ended <- err
		}()
		synctest.Wait()
		_ = broker.Close()
		if err := <-ended; !errors.Is(err, net.ErrClosed) {
			t.Error(err)
		}
	})
}

// TestProduceTime: an acknowledgement takes the time, other answers come without it, and requests in flight share it.
func TestProduceTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const produce = 250 * time.Millisecond
		var network kfake.VirtualNetwork
		b := kafkatest.Kfake(t, kfake.ListenFn(kafkawire.Manner{ProduceTime: produce}.Over(network.Listen)), kfake.Ports(9092), kfake.SeedTopics(1, "orders")).
			As(kgo.Dialer(network.DialContext))
		client := b.Client(t, kgo.ManualFlushing(), kgo.ProducerBatchCompression(kgo.NoCompression()), kgo.ProducerBatchMaxBytes(1000), kgo.BrokerMaxWriteBytes(1<<20))
		value := bytes.Repeat([]byte("x"), 900) // a batch, and so a request, has one
		send := func(n int) time.Duration {
			for range n {
				client.Produce(t.Context(), &kgo.Record{Topic: "orders", Value: value}, func(_ *kgo.Record, err error) {
					if err != nil {
						t.Error(err)
					}
				})
			}
			began := time.Now()
			if err := client.Flush(t.Context()); err != nil {
				t.Fatal(err)
			}
			return time.Since(began)
		}
		send(1) // the client learns where the topic is
		for _, n := range []int{1, 5} {
			if took := send(n); took != produce {
				t.Errorf("%d requests took %v of virtual time", n, took)
			}
		}
		began := time.Now()
		if err := client.Ping(t.Context()); err != nil || time.Since(began) != 0 {
			t.Errorf("an answer without records took %v of virtual time (%v)", time.Since(began), err)
		}
	})
}

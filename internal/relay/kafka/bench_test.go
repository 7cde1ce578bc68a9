//go:build unix

package kafka

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/postrider/postrider/internal/relay"
	"github.com/postrider/postrider/internal/testenv/kafkatest"
	"github.com/postrider/postrider/message"
)

// The benchmarks show what the publisher costs over the bare client. The CPU of a broker in this process would count too,
// so they need a real one: POSTRIDER_TEST_KAFKA_BROKERS=host:port go test -run '^$' -bench . ./internal/relay/kafka

const benchEvents = 5000

// BenchmarkPublish sends batches of 5,000 events of 300 bytes, with 1,000 keys over 6 partitions, one after the other.
func BenchmarkPublish(b *testing.B) {
	broker := kafkatest.Real(b)
	b.Run("client", func(b *testing.B) {
		topic := broker.Topic(b, 6, nil)
		c := broker.Client(b, bareOptions()...)
		ms := benchMessages(topic, benchEvents)
		benchCPU(b, func() { produceBare(b, c, ms) })
	})
	b.Run("publisher", func(b *testing.B) {
		topic := broker.Topic(b, 6, nil)
		p := newPublisher(b, broker, nil)
		ms := benchMessages(topic, benchEvents)
		benchCPU(b, func() { wantAll(b, p.Publish(context.Background(), ms), relay.Delivered) })
	})
}

// BenchmarkPublishOne sends one event when nothing else goes on.
func BenchmarkPublishOne(b *testing.B) {
	broker := kafkatest.Real(b)
	b.Run("client", func(b *testing.B) {
		topic := broker.Topic(b, 6, nil)
		c := broker.Client(b, kgo.ProducerLinger(0), kgo.ProducerBatchCompression(kgo.NoCompression()))
		ms := benchMessages(topic, 1)
		benchLatency(b, func() {
			if err := c.ProduceSync(context.Background(), record(&ms[0])).FirstErr(); err != nil {
				b.Fatal(err)
			}
		})
	})
	b.Run("publisher", func(b *testing.B) {
		topic := broker.Topic(b, 6, nil)
		p := newPublisher(b, broker, nil)
		ms := benchMessages(topic, 1)
		benchLatency(b, func() { wantAll(b, p.Publish(context.Background(), ms), relay.Delivered) })
	})
}

// bareOptions are the options of the publisher that decide what is sent and when.
func bareOptions() []kgo.Opt {
	return []kgo.Opt{kgo.ManualFlushing(), kgo.MaxBufferedRecords(1 << 30), kgo.ProducerBatchCompression(kgo.NoCompression()),
		kgo.ProducerBatchMaxBytes(DefaultMaxMessageBytes)}
}

// produceBare is what a program would do that may forget what failed.
func produceBare(b *testing.B, c *kgo.Client, ms []relay.Message) {
	var failed atomic.Int64
	promise := func(_ *kgo.Record, err error) {
		if err != nil {
			failed.Add(1)
		}
	}
	records := make([]kgo.Record, len(ms))
	headers := make([]kgo.RecordHeader, len(ms))
	for i := range ms {
		m, h := &ms[i], headers[i:i+1:i+1]
		h[0] = kgo.RecordHeader{Key: m.Headers[0].Name, Value: m.Headers[0].Value}
		records[i] = kgo.Record{Topic: m.Topic, Key: m.Key, Value: m.Value, Headers: h}
		c.Produce(context.Background(), &records[i], promise)
	}
	if err := c.Flush(context.Background()); err != nil || failed.Load() > 0 {
		b.Fatalf("%d failed: %v", failed.Load(), err)
	}
}

func benchMessages(topic string, n int) []relay.Message {
	ms := make([]relay.Message, n)
	for i := range ms {
		id := uuid.New()
		ms[i] = relay.Message{ID: relay.MessageID{EventID: id}, Topic: topic, Key: fmt.Appendf(nil, "key-%d", i%1000),
			Value: bytes.Repeat([]byte("v"), 300), Headers: []message.Header{{Name: message.HeaderEventID, Value: []byte(id.String())}}}
	}
	return ms
}

// benchCPU reports the CPU time of this process by events. The first round connects.
func benchCPU(b *testing.B, do func()) {
	do()
	b.ReportAllocs()
	b.ResetTimer()
	before := cpuTime()
	for range b.N {
		do()
	}
	spent := cpuTime() - before
	b.StopTimer()
	n := float64(b.N) * benchEvents
	b.ReportMetric(spent.Seconds()/n*100_000, "cpu-s/100k")
	b.ReportMetric(n/b.Elapsed().Seconds(), "events/s")
}

// benchLatency reports how long one call takes.
func benchLatency(b *testing.B, do func()) {
	do()
	var took []time.Duration
	b.ReportAllocs()
	b.ResetTimer()
	for range b.N {
		began := time.Now()
		do()
		took = append(took, time.Since(began))
		time.Sleep(time.Millisecond)
	}
	b.StopTimer()
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds()), "p50-µs")
	b.ReportMetric(float64(took[len(took)*9/10].Microseconds()), "p90-µs")
}

func cpuTime() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

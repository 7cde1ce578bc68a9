package kafka

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/postrider/postrider/internal/relay"
	"github.com/postrider/postrider/internal/testenv/kafkatest"
)

func TestBadConfig(t *testing.T) {
	t.Parallel()
	brokers := []string{"localhost:9092"}
	for _, c := range []struct {
		cfg  Config
		want string
	}{
		{Config{}, "no broker addresses"},
		{Config{Brokers: brokers, MaxMessageBytes: 4095}, "MaxMessageBytes is 4095"},
		{Config{Brokers: brokers, MaxMessageBytes: 1 << 30}, "MaxMessageBytes is 1073741824"},
		{Config{Brokers: brokers, MaxMessageBytes: -1}, "MaxMessageBytes is -1"},
		{Config{Brokers: brokers, Compression: "brotli"}, `compression "brotli" is not one of none, gzip, snappy, lz4, zstd`},
		{Config{Brokers: []string{"not an address:x"}}, "kafka: "},
		{Config{Brokers: brokers, Options: []kgo.Opt{kgo.RequiredAcks(kgo.NoAck())}}, "kafka: "},
	} {
		p, err := NewPublisher(c.cfg)
		if err == nil {
			p.Close()
		}
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v, want %q", c.cfg, err, c.want)
		}
	}
}

func TestExtremeLimits(t *testing.T) {
	t.Parallel()
	b := kafkatest.Kfake(t)
	topic := b.Topic(t, 1, nil)
	for _, limit := range []int{MinMaxMessageBytes, maxMaxMessageBytes} {
		p := newPublisher(t, b, func(c *Config) { c.MaxMessageBytes = limit })
		wantAll(t, publish(t, p, messageOf(topic, "k", "v")), relay.Delivered)
	}
}

// TestCompression: the batch in the topic is of the kind that was asked for, and reads back.
func TestCompression(t *testing.T) {
	t.Parallel()
	kinds := map[string]int16{"": 0, "none": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}
	kafkatest.Each(t, func(t *testing.T, b *kafkatest.Broker) {
		for name, kind := range kinds {
			topic := b.Topic(t, 1, nil)
			p := newPublisher(t, b, func(c *Config) { c.Compression = name })
			m := messageOf(topic, "k", strings.Repeat("compressible ", 1000))
			wantAll(t, publish(t, p, m), relay.Delivered)
			r := b.ReadAll(t, topic, 1)[0]
			if got := int16(r.Attrs.CompressionType()); got != kind {
				t.Errorf("compression %q: the batch is of type %d, want %d", name, got, kind)
			}
			if !bytes.Equal(r.Value, m.Value) {
				t.Errorf("compression %q: %d bytes came back of %d", name, len(r.Value), len(m.Value))
			}
		}
	})
}

// TestLastError: only a connection that failed lately, and not again since, is a reason.
func TestLastError(t *testing.T) {
	t.Parallel()
	var l lastError
	if s := l.suffix(); s != "" {
		t.Errorf("no connection yet: %q", s)
	}
	refused := errors.New("refused")
	l.OnBrokerConnect(kgo.BrokerMetadata{}, 0, nil, refused)
	if s := l.suffix(); s != "; last connection error: refused" {
		t.Errorf("after a refusal: %q", s)
	}
	l.at = time.Now().Add(-2 * time.Minute)
	if s := l.suffix(); s != "" {
		t.Errorf("long after a refusal: %q", s)
	}
	l.OnBrokerConnect(kgo.BrokerMetadata{}, 0, nil, refused)
	l.OnBrokerConnect(kgo.BrokerMetadata{}, 0, nil, nil)
	if s := l.suffix(); s != "" {
		t.Errorf("connected: %q", s)
	}
}

// TestProducerSettings: what delivery rests on is not left to a client's defaults.
func TestProducerSettings(t *testing.T) {
	t.Parallel()
	b := kafkatest.Kfake(t)
	topic := b.Topic(t, 1, nil)
	var acks []int16
	var ids []bool
	b.Cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Count: -1, Observe: true, When: func(req kmsg.Request) bool {
		r := req.(*kmsg.ProduceRequest)
		var batch kmsg.RecordBatch
		err := batch.ReadFrom(r.Topics[0].Partitions[0].Records)
		acks, ids = append(acks, r.Acks), append(ids, err == nil && batch.ProducerID >= 0)
		return true
	}})
	p := newPublisher(t, b, func(c *Config) { c.ClientID = "relay-7" })
	wantAll(t, publish(t, p, messageOf(topic, "k", "v")), relay.Delivered)
	if len(acks) == 0 || acks[0] != -1 || !ids[0] {
		t.Errorf("acks %v, with a producer id %v: want all replicas to acknowledge, and idempotence", acks, ids)
	}
	if id := p.idle[0].OptValue(kgo.ClientID); id != "relay-7" {
		t.Errorf("client id %v", id)
	}
}

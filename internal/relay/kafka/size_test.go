package kafka

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"pgregory.net/rapid"

	"github.com/postrider/postrider/internal/relay"
	"github.com/postrider/postrider/internal/testenv/kafkatest"
	"github.com/postrider/postrider/message"
)

func drawBytes(t *rapid.T, name string, most int) []byte {
	n := rapid.IntRange(-1, most).Draw(t, name)
	if n < 0 {
		return nil
	}
	return make([]byte, n)
}

// drawMessage draws a message of any shape whose encoded size is size, or one less: where a length
// prefix grows by a byte, some sizes have no message.
func drawMessage(t *rapid.T, topic string, size int) relay.Message {
	m := relay.Message{Topic: topic, Key: drawBytes(t, "key", 200)}
	for range rapid.IntRange(0, 70).Draw(t, "headers") {
		name := strings.Repeat("n", rapid.IntRange(0, 70).Draw(t, "name"))
		m.Headers = append(m.Headers, message.Header{Name: name, Value: drawBytes(t, "value", 130)})
	}
	long := &m.Value
	if rapid.Bool().Draw(t, "long key") {
		m.Value = drawBytes(t, "payload", 300)
		long = &m.Key
	}
	*long = make([]byte, size-encodedSize(&m))
	for encodedSize(&m) > size {
		*long = (*long)[1:]
	}
	return m
}

// TestSizeAtTheLimit: a message that Check lets pass must pass the client and the broker, which has
// the same limit. With one byte more Check must refuse it, as the client would.
func TestSizeAtTheLimit(t *testing.T) {
	t.Parallel()
	b := kafkatest.Kfake(t)
	const limit = 24 << 10 // more than all of the headers
	topic := b.Topic(t, 1, map[string]string{"max.message.bytes": "24576"})
	rapid.Check(t, func(rt *rapid.T) {
		m := drawMessage(rt, topic, limit+rapid.IntRange(-2, 2).Draw(rt, "over"))
		size := encodedSize(&m)
		p, err := NewPublisher(Config{Brokers: b.Addrs, MaxMessageBytes: limit})
		if err != nil {
			rt.Fatal(err)
		}
		defer p.Close()
		// A client that has not spoken to the broker yet is the strictest.
		c := p.idle[0]
		c.Produce(context.Background(), record(&m), func(_ *kgo.Record, e error) { err = e })
		if e := c.Flush(context.Background()); e != nil {
			rt.Fatal(e)
		}
		if fits := size <= limit; fits != (err == nil) || !fits && !errors.Is(err, kerr.MessageTooLarge) {
			rt.Errorf("the client and the broker say %v to %d bytes", err, size)
		}
		if o := p.Check(&m, 0); (o == nil) != (size <= limit) {
			rt.Errorf("Check says %v to %d bytes", o, size)
		}
		out := p.Publish(context.Background(), []relay.Message{m})[0]
		switch {
		case size <= limit && out.Class != relay.Delivered:
			rt.Errorf("%d bytes: %v", size, out)
		case size > limit && (out.Class != relay.Permanent || out.Code != kerr.MessageTooLarge.Message):
			rt.Errorf("%d bytes: %v", size, out)
		}
	})
}

func record(m *relay.Message) *kgo.Record {
	r := &kgo.Record{Topic: m.Topic, Key: m.Key, Value: m.Value}
	for _, h := range m.Headers {
		r.Headers = append(r.Headers, kgo.RecordHeader{Key: h.Name, Value: h.Value})
	}
	return r
}

// TestTooLargeAmongOthers: the client refuses the large message alone and at once. If it were given
// to the client, later messages of its key would go on whatever became of the earlier ones.
func TestTooLargeAmongOthers(t *testing.T) {
	t.Parallel()
	b := kafkatest.Kfake(t)
	topic := b.Topic(t, 2, nil)
	p := newPublisher(t, b, func(c *Config) { c.MaxMessageBytes = MinMaxMessageBytes })
	ms := messages(topic, 20, keys(5)...)
	ms[42].Value = make([]byte, MinMaxMessageBytes)
	out := publish(t, p, ms...)
	wantAll(t, out, relay.Delivered, 42)
	if out[42].Class != relay.Permanent || !strings.Contains(out[42].Message, "kafka max_message_bytes") {
		t.Errorf("the large one: %+v", out[42])
	}
	wantTopic(t, b, topic, append(ms[:42:42], ms[43:]...)...)
}

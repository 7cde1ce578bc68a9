package kafka

import (
	"context"
	"crypto/rand"
	"strconv"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/postrider/postrider/consumer"
	"github.com/postrider/postrider/internal/testenv/kafkatest"
	"github.com/postrider/postrider/message"
)

// TestNearTheSizeLimit: messages of every size up to what their topic takes fail, some for good and some again and again.
// What is noted about them makes them larger than the retry and dead-letter topics take. Each becomes a dead letter all
// the same, whole or with a reference, and the partition goes on.
func TestNearTheSizeLimit(t *testing.T) {
	t.Parallel()
	kafkatest.Each(t, func(t *testing.T, b *kafkatest.Broker) {
		const limit = 6000
		small := map[string]string{"max.message.bytes": strconv.Itoa(limit)}
		topic := b.Topic(t, 1, small)
		delay := 50 * time.Millisecond
		for _, name := range []string{consumer.RetryTopic(topic, "g", 0), consumer.RetryTopic(topic, "g", delay), topic + ".dlq"} {
			b.CreateTopic(t, name, 1, small)
		}
		written := 0
		for size := limit - 1500; size <= limit; size += 50 {
			r := &kgo.Record{Topic: topic, Key: []byte("k" + strconv.Itoa(size)), Value: make([]byte, size), Headers: []kgo.RecordHeader{{Key: "size", Value: []byte(strconv.Itoa(size))}}}
			_, _ = rand.Read(r.Value)
			if size%300 == 0 { // a key that cannot stay where the headers need its room
				r.Key, r.Value = r.Value, r.Value[:10]
			}
			if err := b.Client(t).ProduceSync(t.Context(), r).FirstErr(); err == nil {
				written++
			}
		}
		if written < 20 {
			t.Fatalf("the topic took %d messages", written)
		}
		start(t, newClient(t, b, nil), topic, consumer.Config{Policy: consumer.Policy{Delays: []time.Duration{delay}, Breaker: consumer.Breaker{Off: true}}},
			consumer.HandlerFunc(func(_ context.Context, m *consumer.Message) error {
				if n, _ := strconv.Atoi(header(m.Headers, "size")); n%100 == 0 {
					return consumer.Permanent(errBroken)
				}
				return errBroken
			}))
		referring := 0
		for _, l := range b.ReadAll(t, topic+".dlq", written) {
			var hs []message.Header
			for _, h := range l.Headers {
				hs = append(hs, message.Header{Name: h.Key, Value: h.Value})
			}
			if header(hs, message.HeaderOriginTopic) != topic || header(hs, message.HeaderOriginOffset) == "" {
				t.Errorf("a dead letter does not say where it came from: %v", hs)
			}
			if l.Value == nil {
				referring++
				if header(hs, message.HeaderPayload) != message.PayloadReference {
					t.Errorf("a dead letter without value does not refer to it: %v", hs)
				}
			}
		}
		if referring == 0 || referring == written {
			t.Errorf("%d of %d dead letters refer to their values", referring, written)
		}
		until(t, "all is committed", func() bool { return committed(t, b, "g", topic) == int64(written) })
	})
}

// header is the value of a header; empty where it is not there.
func header(hs []message.Header, name string) string {
	for _, h := range hs {
		if h.Name == name {
			return string(h.Value)
		}
	}
	return ""
}

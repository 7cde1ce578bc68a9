package kafka

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/postrider/postrider/consumer"
	"github.com/postrider/postrider/internal/testenv/kafkatest"
)

// patience bounds what a test waits for; it passes long before.
const patience = 3 * time.Minute

// newClient returns a client of the broker that creates what it writes to.
func newClient(t *testing.T, b *kafkatest.Broker, change func(*Config)) *Client {
	t.Helper()
	dial := b.Client(t).OptValue(kgo.Dialer).(func(ctx context.Context, network, addr string) (net.Conn, error))
	cfg := Config{Brokers: b.Addrs, CreateTopics: true, SessionTimeout: 6 * time.Second, Options: []kgo.Opt{kgo.Dialer(dial)}}
	if change != nil {
		change(&cfg)
	}
	c, err := NewClient(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// running is a consumer under way.
type running struct {
	*consumer.Consumer
	stop func() error
}

// start runs a consumer of a topic, in a group of the same name, until stop or the end of the test.
func start(t *testing.T, client *Client, topic string, cfg consumer.Config, h consumer.Handler) *running {
	t.Helper()
	cfg.Client = client
	cfg.Topics = []string{topic}
	if cfg.Group == "" {
		cfg.Group = "g"
	}
	if cfg.Policy.DeadLetterTopic == "" {
		cfg.Policy.DeadLetterTopic = topic + ".dlq"
	}
	c, err := consumer.New(cfg, h)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- c.Run(ctx) }()
	stopped := false
	r := &running{Consumer: c, stop: func() error {
		stopped = true
		cancel()
		return <-done
	}}
	t.Cleanup(func() {
		if stopped {
			return
		}
		if err := r.stop(); err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	return r
}

// seen notes the messages that a handler was given.
type seen struct {
	mu  sync.Mutex
	all []one
}

type one struct {
	value, key, topic string
	attempt           int
	at                time.Time
}

func (s *seen) note(m *consumer.Message) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = append(s.all, one{string(m.Value), string(m.Key), m.Topic, m.Attempt(), time.Now()})
}

func (s *seen) snapshot() []one {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]one{}, s.all...)
}

// until waits for a condition.
func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for !ok() {
		if time.Now().After(deadline) {
			t.Fatalf("not within %v: %s", patience, what)
		}
		<-time.After(20 * time.Millisecond)
	}
}

func produce(t *testing.T, b *kafkatest.Broker, topic string, n int, value func(i int) string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	client := b.Client(t)
	var rs []*kgo.Record
	for i := range n {
		rs = append(rs, &kgo.Record{Topic: topic, Key: fmt.Append(nil, "k", i%17), Value: []byte(value(i))})
	}
	if err := client.ProduceSync(ctx, rs...).FirstErr(); err != nil {
		t.Fatal(err)
	}
}

// committed is what the group has committed of a topic, over all partitions.
func committed(t *testing.T, b *kafkatest.Broker, group, topic string) int64 {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	offsets, err := b.Admin(t).FetchOffsets(ctx, group)
	if errors.Is(err, kerr.GroupIDNotFound) {
		return 0
	}
	if err != nil {
		t.Fatal(err)
	}
	n := int64(0)
	for _, o := range offsets[topic] {
		n += max(o.At, 0)
	}
	return n
}

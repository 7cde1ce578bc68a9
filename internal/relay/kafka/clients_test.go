package kafka

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/sasl/plain"

	"github.com/postrider/postrider/internal/relay"
	"github.com/postrider/postrider/internal/testenv/kafkatest"
)

// wantClients checks how many clients there are and how many of them are free.
func wantClients(t *testing.T, p *Publisher, free, all int) {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.idle) != free || len(p.all) != all {
		t.Errorf("%d of %d clients are free, want %d of %d", len(p.idle), len(p.all), free, all)
	}
	for _, c := range p.idle {
		if n := c.BufferedProduceRecords(); n > 0 {
			t.Errorf("a free client holds %d records", n)
		}
	}
}

// stick leaves every client of the publisher with a record that the broker does not take.
func stick(t *testing.T, p *Publisher, topic string) []relay.Message {
	t.Helper()
	ms := messages(topic, 1, keys(maxClients)...)
	var wg sync.WaitGroup
	for _, m := range ms {
		wg.Go(func() {
			wantOutcomes(t, publish(t, p, m), "infrastructure UNKNOWN_OUTCOME")
		})
	}
	wg.Wait()
	return ms
}

// TestTooManyWait: as many batches as there may be wait for a partition. Others go on, and so does one
// more that has to wait: for it the one that waited longest is given up. It goes out anew when it is asked
// for again, and nothing is lost.
func TestTooManyWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := kafkatest.Virtual(t)
		silent, other := b.Topic(t, 4, nil), b.Topic(t, 1, nil)
		p := newPublisher(t, b, nil)
		f := fault(b, kmsg.Produce, silent, kerr.NotEnoughReplicas, 0)
		stuck := stick(t, p, silent)
		ms := messages(other, 2, "x", "y")
		wantOutcomes(t, publish(t, p, append(ms, stuck[0])...), "delivered", "delivered", "delivered", "delivered", "infrastructure UNKNOWN_OUTCOME")
		if err := p.Ping(t.Context()); err != nil {
			t.Errorf("the broker answers, Ping says %v", err)
		}
		more := messageOf(silent, "one more", "v")
		wantOutcomes(t, publish(t, p, more), "infrastructure UNKNOWN_OUTCOME")
		time.Sleep(time.Second)
		givenUp := 0
		for _, m := range append(stuck, more) {
			if o := p.flightsOf([]relay.Message{m})[0]; o == nil || final(o) {
				givenUp++
			}
		}
		if givenUp != 1 {
			t.Errorf("%d batches were given up, want 1", givenUp)
		}
		f.Remove()
		time.Sleep(time.Minute)
		wantAll(t, publish(t, p, append(stuck, more)...), relay.Delivered)
		wantTopic(t, b, silent, append(stuck, more)...)
		wantTopic(t, b, other, ms...)
		wantClients(t, p, maxClients, maxClients)
		if len(p.own.left) > 0 || p.stuck.all(silent) || len(p.stuck.topics) > 0 {
			t.Errorf("%d clients are left behind, stuck are %v", len(p.own.left), p.stuck.topics)
		}
	})
}

// TestShareKeepsItsOwn: as many batches of one source wait as there may be, and more. Its own producers are given up for
// them, and no producer of another source.
func TestShareKeepsItsOwn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := kafkatest.Virtual(t)
		silent, slow, other := b.Topic(t, 4, nil), b.Topic(t, 1, nil), b.Topic(t, 1, nil)
		p := newPublisher(t, b, nil)
		noisy, quiet := p.NewShare(), p.NewShare()
		fs, fq := fault(b, kmsg.Produce, silent, kerr.NotEnoughReplicas, 0), fault(b, kmsg.Produce, slow, kerr.NotEnoughReplicas, 0)
		within := func(s *Share, m relay.Message) relay.Class {
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
			defer cancel()
			return s.Publish(ctx, []relay.Message{m})[0].Class
		}
		waits := messageOf(slow, "k", "of the quiet source")
		if got := within(quiet, waits); got != relay.Infrastructure {
			t.Fatalf("it is %s", got)
		}
		for _, m := range messages(silent, 1, keys(3*sourceClients)...) {
			if got := within(noisy, m); got != relay.Infrastructure {
				t.Fatalf("it is %s", got)
			}
		}
		p.mu.Lock()
		noise, left := len(noisy.left), len(quiet.left)
		p.mu.Unlock()
		if noise != sourceClients || left != 1 {
			t.Errorf("%d producers of the one source wait and %d of the other, want %d and 1", noise, left, sourceClients)
		}
		if o := p.flightsOf([]relay.Message{waits})[0]; o == nil || final(o) {
			t.Error("the record of the quiet source was given up for those of the other")
		}
		if got := within(quiet, messageOf(other, "k", "goes")); got != relay.Delivered {
			t.Errorf("a record of the quiet source to another topic is %s", got)
		}
		fs.Remove()
		fq.Remove()
		time.Sleep(time.Minute)
		if got := within(quiet, waits); got != relay.Delivered {
			t.Errorf("the record that waited is %s", got)
		}
	})
}

// TestBusyUntilEmpty: a client that still holds a record is not free for others. It flushes, and would send
// the first records of another batch before it has the last.
func TestBusyUntilEmpty(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := kafkatest.Virtual(t)
		topic := b.Topic(t, 1, nil)
		p := newPublisher(t, b, nil)
		f := fault(b, kmsg.Produce, topic, kerr.NotLeaderForPartition, 0)
		wantAll(t, publish(t, p, messageOf(topic, "k", "v")), relay.Infrastructure)
		wantClients(t, p, 0, 1)
		f.Remove()
		time.Sleep(time.Minute)
		wantClients(t, p, 1, 1)
	})
}

// TestCloseWithRecordsAway: closing does not wait for the broker, and later calls say that the publisher is closed.
func TestCloseWithRecordsAway(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := kafkatest.Virtual(t)
		topic := b.Topic(t, 4, nil)
		p := newPublisher(t, b, nil)
		fault(b, kmsg.Produce, topic, kerr.RequestTimedOut, 0)
		stuck := stick(t, p, topic)
		began := time.Now()
		p.Close()
		p.Close()
		if took := time.Since(began); took > time.Second {
			t.Errorf("Close took %v", took)
		}
		wantOutcomes(t, publish(t, p, stuck[0], messageOf(topic, "k", "v")),
			"infrastructure CLIENT_CLOSED", "infrastructure CLIENT_CLOSED")
		if err := p.Ping(t.Context()); !errors.Is(err, kgo.ErrClientClosed) {
			t.Errorf("Ping: %v", err)
		}
	})
}

// TestCloseDuringPublish: each call that waits for outcomes gets them.
func TestCloseDuringPublish(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := kafkatest.Virtual(t)
		topic := b.Topic(t, 1, nil)
		p := newPublisher(t, b, nil)
		fault(b, kmsg.Produce, topic, kerr.NotLeaderForPartition, 0)
		done := make(chan []relay.Outcome)
		for range 2 {
			go func() { done <- publish(t, p, messages(topic, 2, "k")...) }()
		}
		synctest.Wait()
		p.Close()
		for range 2 {
			wantOutcomes(t, <-done, "infrastructure CLIENT_CLOSED", "infrastructure CLIENT_CLOSED")
		}
	})
}

// TestProducerIDRefused: a client that was refused an id fails everything for ever, and what it fails
// looks like the fault of the records. So it is not used again, and no record is blamed.
func TestProducerIDRefused(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := kafkatest.Virtual(t)
		topic := b.Topic(t, 1, nil)
		for _, err := range brokerErrors() {
			p := newPublisher(t, b, nil)
			fault(b, kmsg.InitProducerID, "", err, 1)
			m := messageOf(topic, "k", err.Message)
			want, _ := classify(err)
			if suspect(want) {
				want = relay.Infrastructure
			}
			if o := publish(t, p, m)[0]; o.Class != relay.Delivered { // some the client tries again itself
				if o.Class != want {
					t.Errorf("%s: %+v, want %s", err.Message, o, want)
				}
				wantAll(t, publish(t, p, m), relay.Delivered)
			}
		}
	})
}

// TestLoginRefused: nothing can be sent, and it is no record's fault.
func TestLoginRefused(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := kafkatest.Virtual(t, kfake.EnableSASL(), kfake.Superuser("PLAIN", "relay", "secret"), kfake.SeedTopics(1, "topic"))
		login := kgo.SASL(plain.Auth{User: "relay", Pass: "secret"}.AsMechanism())
		p := newPublisher(t, b, func(c *Config) { c.Options = append(c.Options, login) })
		f := fault(b, kmsg.SASLAuthenticate, "", kerr.SaslAuthenticationFailed, 0)
		m := messageOf("topic", "k", "v")
		o := publish(t, p, m)
		wantOutcomes(t, o, "route SASL_AUTHENTICATION_FAILED")
		if strings.Contains(o[0].Message, "secret") {
			t.Errorf("the outcome shows the password: %s", o[0].Message)
		}
		if err := p.Ping(t.Context()); !errors.Is(err, kerr.SaslAuthenticationFailed) {
			t.Errorf("Ping: %v", err)
		}
		f.Remove()
		wantAll(t, publish(t, p, m), relay.Delivered)
	})
}

// TestNoBroker: nothing listens. What was never sent is not remembered as if it might have been.
func TestNoBroker(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := kafkatest.Virtual(t)
		topic := b.Topic(t, 1, nil)
		p := newPublisher(t, b, nil)
		b.Cluster.Close()
		o := publish(t, p, messageOf(topic, "k", "v"))
		wantOutcomes(t, o, "infrastructure BROKER_UNREACHABLE")
		if !strings.Contains(o[0].Message, "no producer id: unable to initialize a producer ID due to request failures: unable to dial") {
			t.Errorf("the outcome does not say why: %s", o[0].Message)
		}
		if len(p.pending) > 0 {
			t.Errorf("%d flights", len(p.pending))
		}
		ctx, cancel := context.WithTimeout(t.Context(), bound)
		defer cancel()
		if err := p.Ping(ctx); err == nil || !strings.Contains(err.Error(), b.Addrs[0]) {
			t.Errorf("Ping: %v", err)
		}
	})
}

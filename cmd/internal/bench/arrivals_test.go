package main

import (
	"context"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/postrider/postrider/relay/kafka/kafkatest"
)

func TestArrivalsInEitherOrder(t *testing.T) {
	t.Parallel()
	a := newArrivals(3)
	a.committed(0)
	a.arrived(0)
	a.arrived(1) // the answer to the commit was still on its way
	a.committed(1)
	a.committed(2)
	if got := a.matched.Load(); got != 2 {
		t.Errorf("%d events matched, want 2", got)
	}
	if a.latency.n != 2 || a.copies.Load() != 0 {
		t.Errorf("%d latencies and %d copies, want 2 and 0", a.latency.n, a.copies.Load())
	}
	a.arrived(0)
	a.arrived(1)
	if got := a.copies.Load(); got != 2 {
		t.Errorf("%d copies, want 2", got)
	}
	if a.latency.n != 2 {
		t.Errorf("copies count as latencies: %d", a.latency.n)
	}
	a.arrived(2)
	if a.matched.Load() != 3 {
		t.Errorf("%d matched, want 3", a.matched.Load())
	}
}

// A consumer on both kinds of broker sees every record, and copies and strangers are noticed.
func TestConsume(t *testing.T) {
	t.Parallel()
	kafkatest.Each(t, func(t *testing.T, kb *kafkatest.Broker) {
		b := &broker{name: kb.String(), address: kb.Addrs[0]}
		if err := b.connect(); err != nil {
			t.Fatal(err)
		}
		defer b.client.Close()
		topic, err := b.newTopic(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer b.deleteTopic(topic)
		const events = 20
		a := newArrivals(events)
		client, err := b.consumer(topic)
		if err != nil {
			t.Fatal(err)
		}
		defer client.Close()
		ctx, cancel := context.WithCancel(t.Context())
		consumed := make(chan error, 1)
		go func() { consumed <- a.consume(ctx, client) }()
		produce := func(values ...[]byte) {
			for _, v := range values {
				if err := b.client.ProduceSync(t.Context(), &kgo.Record{Topic: topic, Value: v}).FirstErr(); err != nil {
					t.Error(err)
				}
			}
		}
		for n := range events {
			a.committed(n)
			produce(body(n, 40))
		}
		if err := a.all(t.Context(), events); err != nil {
			t.Error(err)
		}
		if err := exactly(t.Context(), b, topic, events); err != nil {
			t.Error(err)
		}
		produce(body(3, 40), []byte("no number"), body(events, 40))
		for deadline := time.Now().Add(30 * time.Second); a.copies.Load() < 1 || a.strange.Load() < 2; {
			if time.Now().After(deadline) {
				t.Fatalf("%d copies and %d strange records, want 1 and 2", a.copies.Load(), a.strange.Load())
			}
			if err := pause(t.Context(), everyTime); err != nil {
				t.Fatal(err)
			}
		}
		if a.all(t.Context(), events) == nil {
			t.Error("a copy passes unnoticed")
		}
		if exactly(t.Context(), b, topic, events) == nil {
			t.Error("three records too many pass unnoticed")
		}
		cancel()
		if err := <-consumed; err != nil {
			t.Error(err)
		}
	})
}

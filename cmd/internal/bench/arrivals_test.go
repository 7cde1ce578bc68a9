package main

import (
	"context"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/postrider/postrider/internal/loop"
	"github.com/postrider/postrider/internal/testenv/kafkatest"
)

func TestArrivalsInEitherOrder(t *testing.T) {
	t.Parallel()
	a := newArrivals(3, 0)
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
		a := newArrivals(events, 1)
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
				if err := b.client.ProduceSync(t.Context(), &kgo.Record{Topic: topic, Key: []byte("k"), Value: v}).FirstErr(); err != nil {
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
		there := func(want contents) {
			t.Helper()
			if got, err := b.contents(t.Context(), events, loaded, topic); err != nil || got != want {
				t.Errorf("the topic holds %+v (%v), want %+v", got, err, want)
			}
		}
		there(contents{})
		produce(body(3, 40), []byte("no number"), body(events, 40), body(events+1, 40))
		for deadline := time.Now().Add(3 * time.Minute); a.copies.Load() < 1 || a.extra.Load() < 1 || a.strange.Load() < 2; {
			if time.Now().After(deadline) {
				t.Fatalf("%d copies, %d of others and %d strange records, want 1, 1 and 2", a.copies.Load(), a.extra.Load(), a.strange.Load())
			}
			if err := loop.Sleep(t.Context(), everyTime); err != nil {
				t.Fatal(err)
			}
		}
		if a.all(t.Context(), events) == nil {
			t.Error("a strange record passes unnoticed")
		}
		there(contents{copies: 1, strange: 3})
		cancel()
		if err := <-consumed; err != nil {
			t.Error(err)
		}
	})
}

// What was written and is there, in which order, is counted as it is.
func TestCounter(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		keys    string
		seqs    []int
		written history
		want    contents
	}{
		"all":                {"aaaa", []int{0, 1, 2, 3}, loaded, contents{}},
		"one missing":        {"aaa", []int{0, 1, 3}, loaded, contents{missing: 1}},
		"a copy":             {"aaaaa", []int{0, 1, 2, 3, 1}, loaded, contents{copies: 1}},
		"out of order":       {"aaaa", []int{0, 2, 1, 3}, loaded, contents{disorder: 1}},
		"of different keys":  {"abab", []int{0, 2, 1, 3}, loaded, contents{}},
		"a copy moves none":  {"aaaaa", []int{0, 1, 0, 2, 3}, loaded, contents{copies: 1}},
		"written at once":    {"aaaa", []int{1, 0, 3, 2}, func(seq int) (int64, int64) { return int64(10 * (seq / 2)), int64(10*(seq/2) + 15) }, contents{}},
		"one after another":  {"aaaa", []int{2, 3, 0, 1}, func(seq int) (int64, int64) { return int64(10*(seq/2) + 1), int64(10*(seq/2) + 5) }, contents{disorder: 2}},
		"strangers, and gap": {"aa", []int{9, 0}, loaded, contents{strange: 1, missing: 3}},
	} {
		count := newCounter(4, c.written)
		for i, seq := range c.seqs {
			count.record(&kgo.Record{Topic: "t", Key: []byte(c.keys[i : i+1]), Value: body(seq, 50)})
		}
		if got := count.result(); got != c.want {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}

package check

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/postrider/postrider/cmd/internal/adopt"
	"github.com/postrider/postrider/internal/loop"
	"github.com/postrider/postrider/internal/testenv/kafkatest"
)

// TestFollow: pairs are compared as they come, also of topics and partitions that come later; what was there before is no
// difference where its pair is not read; the comparison ends with the shadow. A real connector is in TestFromDebezium.
func TestFollow(t *testing.T) {
	t.Parallel()
	kafkatest.Each(t, func(t *testing.T, b *kafkatest.Broker) {
		live := b.Topic(t, 3, nil)
		prefix := live + "-" // live + "-new" begins with it, and is the connector's
		b.CreateTopic(t, prefix+live, 1, nil)
		b.CreateTopic(t, prefix+"without-another", 1, nil)
		produce := func(topic, id, value string) {
			t.Helper()
			r := &kgo.Record{Topic: topic, Key: []byte("k"), Value: []byte(value)}
			if id != "" {
				r.Headers = []kgo.RecordHeader{{Key: "id", Value: []byte(id)}}
			}
			if err := b.Client(t).ProduceSync(t.Context(), r).FirstErr(); err != nil {
				t.Fatal(err)
			}
		}
		both := func(topic, id, value string) {
			t.Helper()
			produce(topic, id, value)
			produce(prefix+topic, id, value)
		}
		produce(live, "before", "v")
		produce(live, "half", "v")
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		var over atomic.Bool
		found, lines := make(chan Difference, 10), make(chan string, 10_000)
		follow := Follow{Shadow: adopt.Forward{Table: "public.outbox", Prefix: prefix}, Every: 20 * time.Millisecond, Wait: time.Hour,
			Kafka: func(opts ...kgo.Opt) (*kgo.Client, error) {
				return kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(b.Addrs...)}, opts...)...)
			},
			Now: func(context.Context) (*adopt.Forward, error) {
				if over.Load() {
					return nil, nil
				}
				return &adopt.Forward{Mode: adopt.ModeShadow, Prefix: prefix}, nil
			},
			Found: func(d Difference) { found <- d },
			Say:   func(format string, args ...any) { lines <- fmt.Sprintf(format, args...) },
		}
		until := func(want string) {
			t.Helper()
			for last := ""; ; {
				select {
				case last = <-lines:
					if strings.Contains(last, want) {
						return
					}
				case <-ctx.Done():
					t.Fatalf("it does not say %q; it said %q last", want, last)
				}
			}
		}
		type result struct {
			Progress
			error
		}
		done := make(chan result, 1)
		go func() {
			n, err := follow.Run(ctx)
			done <- result{n, err}
		}()
		until("comparing " + live + " with " + prefix + live)
		until("compared 0, differing 0")
		produce(prefix+live, "half", "v")
		both(live, "a", "v")
		produce(live, "", "v")
		until("compared 2, differing 0, without an id 1")
		produce(prefix+live, "b", "v")
		produce(prefix+live, "c", "v")
		until("not yet by Debezium 2, since")
		produce(live, "c", "w")
		produce(live, "b", "v")
		until("compared 4, differing 2")
		if d := <-found; d.ID != "c" || len(d.Parts) != 1 || d.Parts[0].Part != "value" || *d.Parts[0].At != 0 || d.Parts[0].Theirs != "w" || d.Parts[0].Ours != "v" || d.Topic != live {
			t.Errorf("%+v", d)
		}
		if d := <-found; d.ID != "b" || !slices.Equal(d.Parts, []Part{{Part: "order of the key", Theirs: "behind c", Ours: "before c"}}) {
			t.Errorf("%+v", d)
		}
		b.CreateTopic(t, live+"-new", 1, nil)
		b.CreateTopic(t, prefix+live+"-new", 1, nil)
		until("comparing " + live + "-new with " + prefix + live + "-new")
		both(live+"-new", "d", "v")
		until("compared 5, differing 2")
		if _, err := b.Admin(t).CreatePartitions(t.Context(), 1, prefix+live+"-new"); err != nil {
			t.Fatal(err)
		}
		for listed, err := b.Admin(t).ListTopics(ctx); len(listed[prefix+live+"-new"].Partitions) < 2; listed, err = b.Admin(t).ListTopics(ctx) {
			if err == nil {
				err = loop.Sleep(ctx, 10*time.Millisecond)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		second := &kgo.Record{Topic: prefix + live + "-new", Partition: 1, Key: []byte("k"), Value: []byte("v"), Headers: []kgo.RecordHeader{{Key: "id", Value: []byte("e")}}}
		if err := b.Client(t, kgo.RecordPartitioner(kgo.ManualPartitioner())).ProduceSync(t.Context(), second).FirstErr(); err != nil {
			t.Fatal(err)
		}
		produce(live+"-new", "e", "v")
		until("compared 6, differing 2")
		over.Store(true)
		until("no shadow any more")
		r := <-done
		if r.error != nil || r.Compared != 6 || r.Differing != 2 || r.Missing != 0 || r.Copies != 0 || r.Waiting != [2]int{} || len(found) != 0 {
			t.Errorf("%+v", r)
		}
		follow.Shadow.Prefix = "none-" + prefix
		if _, err := follow.Run(ctx); err == nil || !strings.Contains(err.Error(), "for each topic TOPIC of the connector") {
			t.Errorf("without topics: %v", err)
		}
	})
}

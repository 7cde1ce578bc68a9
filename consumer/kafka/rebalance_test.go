package kafka

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/postrider/postrider/consumer"
	"github.com/postrider/postrider/internal/testenv/kafkatest"
)

// changed is how many partitions were assigned to a member, revoked or lost.
func changed(t *testing.T, reg *prometheus.Registry, change string) int {
	t.Helper()
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		if family.GetName() != "postrider_consumer_partitions_changed_total" {
			continue
		}
		for _, m := range family.GetMetric() {
			if m.GetLabel()[0].GetValue() == change {
				return int(m.GetCounter().GetValue())
			}
		}
	}
	t.Fatalf("no count of partitions that were %s", change)
	return 0
}

// TestOnlyWhatMovesIsTakenAway: when a second member joins, and when it leaves, the first one keeps its other
// partitions and goes on with them.
func TestOnlyWhatMovesIsTakenAway(t *testing.T) {
	t.Parallel()
	const partitions, all = 6, 12 // of the topic and of its retry topic
	kafkatest.Each(t, func(t *testing.T, b *kafkatest.Broker) {
		topic := b.Topic(t, partitions, nil)
		b.CreateTopic(t, topic+".dlq", 1, nil)
		b.CreateTopic(t, consumer.RetryTopic(topic, topic, 0), partitions, nil)
		first, second := prometheus.NewRegistry(), prometheus.NewRegistry()
		join := func(reg *prometheus.Registry) *running {
			return start(t, newClient(t, b, nil), topic, consumer.Config{Group: topic, Registerer: reg, Policy: consumer.Policy{Mode: consumer.Blocking}},
				consumer.HandlerFunc(func(context.Context, *consumer.Message) error { return nil }))
		}
		a := join(first)
		until(t, "the first one has all", func() bool { return len(a.Status()) == all })
		z := join(second)
		until(t, "each has half", func() bool { return len(a.Status()) == all/2 && len(z.Status()) == all/2 })
		if err := z.stop(); err != nil {
			t.Error(err)
		}
		until(t, "the first one has all again", func() bool { return len(a.Status()) == all })
		for change, want := range map[string]int{"assigned": all + all/2, "revoked": all / 2, "lost": 0} {
			if got := changed(t, first, change); got != want {
				t.Errorf("%d were %s, want %d", got, change, want)
			}
		}
	})
}

// TestCloseDuringARebalance: a group whose other member does not join again keeps no client that is closed.
func TestCloseDuringARebalance(t *testing.T) {
	t.Parallel()
	b := kafkatest.Kfake(t)
	topic := b.Topic(t, 1, nil)
	b.SilentMember(t, "g", topic)
	asked := make(chan struct{}, 100)
	b.Cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.JoinGroup}, Count: -1, When: func(kmsg.Request) bool { asked <- struct{}{}; return false }})
	c := newClient(t, b, nil)
	if err := c.Open(t.Context(), consumer.Subscription{Group: "g", Topics: []string{topic}}, noEvents{}); err != nil {
		t.Fatal(err)
	}
	<-asked
	<-asked // the first gets the member's id
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	closed := make(chan error, 1)
	go func() { closed <- c.Close(ctx) }()
	select {
	case err := <-closed:
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Close returned %v, want that the group was not told", err)
		}
	case <-time.After(patience):
		t.Fatal("Close waits for the member that does not join again")
	}
}

// noEvents hears of partitions and does nothing.
type noEvents struct{}

func (noEvents) Assigned([]consumer.Partition) {}
func (noEvents) Revoked([]consumer.Partition)  {}
func (noEvents) Lost([]consumer.Partition)     {}

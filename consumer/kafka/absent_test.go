package kafka

import (
	"context"
	"log/slog"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/postrider/postrider/consumer"
	"github.com/postrider/postrider/internal/testenv/kafkatest"
	"github.com/postrider/postrider/internal/testenv/logtest"
)

// TestAbsentSource: a topic to read that does not exist is named in the log, and no retry topics are made for it. When it
// is created, they are, with as many partitions, and it is read.
func TestAbsentSource(t *testing.T) {
	t.Parallel()
	b := kafkatest.Kfake(t)
	var log logtest.Buffer
	client := newClient(t, b, nil) // without a logger of its own
	var got seen
	registry := prometheus.NewRegistry()
	start(t, client, "no.such.topic", consumer.Config{Logger: slog.New(slog.NewTextHandler(&log, nil)), Registerer: registry, Policy: consumer.Policy{Mode: consumer.Tiers}}, consumer.HandlerFunc(func(_ context.Context, m *consumer.Message) error {
		got.note(m)
		return nil
	}))
	until(t, "the log names the topic", func() bool {
		return strings.Contains(log.String(), "topics to read do not exist") && strings.Contains(log.String(), "topics=[no.such.topic]")
	})
	const absent = `
# HELP postrider_consumer_partitions This member's partitions: assigned counts all, paused the partitions that are not fetched for now, standing the partitions with a failed message that can neither be tried again nor be given up.
# TYPE postrider_consumer_partitions gauge
postrider_consumer_partitions{state="assigned",topic="no.such.topic"} 0
postrider_consumer_partitions{state="paused",topic="no.such.topic"} 0
postrider_consumer_partitions{state="standing",topic="no.such.topic"} 0
`
	if err := testutil.GatherAndCompare(registry, strings.NewReader(absent), "postrider_consumer_partitions"); err != nil {
		t.Errorf("the metrics do not show it: %v", err)
	}
	admin := kadm.NewClient(b.Client(t))
	names := func() []string {
		topics, err := admin.ListTopics(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return topics.Names()
	}
	for _, name := range names() {
		if strings.Contains(name, ".retry") {
			t.Errorf("%s was made for a topic that does not exist", name)
		}
	}
	b.CreateTopic(t, "no.such.topic", 3, nil)
	until(t, "retry topics are made", func() bool {
		topics, err := admin.ListTopics(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		retries := 0
		for name, topic := range topics {
			if strings.Contains(name, ".retry") && len(topic.Partitions) == 3 {
				retries++
			}
		}
		return retries > 0
	})
	produce(t, b, "no.such.topic", 1, func(int) string { return "v" })
	until(t, "it is read", func() bool { return len(got.snapshot()) == 1 })
}

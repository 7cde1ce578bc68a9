package doctor

import (
	"strings"
	"testing"
	"time"

	"github.com/postrider/postrider/cmd/internal/config"
	"github.com/postrider/postrider/internal/testenv/kafkatest"
	"github.com/postrider/postrider/internal/testenv/pgtest"
)

// TestKinds: each kind of brokers is known by what it answers, and settings that do not fit are named.
func TestKinds(t *testing.T) {
	t.Parallel()
	fit := config.Config{}
	fit.Kafka.Compression, fit.Kafka.MaxMessageBytes, fit.Outbox.BatchSize = "none", 1048588, deepBatch
	topic := func(name, value string) map[string]map[string]string {
		return map[string]map[string]string{"orders": {name: value}, "other": {}}
	}
	for _, c := range []struct {
		facts brokerFacts
		kind  string
		worse func(*config.Config) // settings that do not fit
		hint  string
	}{
		{brokerFacts{hosts: []string{"shop.servicebus.windows.net"}}, "Azure Event Hubs", func(c *config.Config) { c.Kafka.Compression = "zstd" }, "none or gzip"},
		{brokerFacts{hosts: []string{"boot-x.c2.kafka-serverless.eu-central-1.amazonaws.com:9098"}}, "MSK Serverless", func(c *config.Config) { c.Kafka.MaxMessageBytes = 9 << 20 }, "8388608"},
		{brokerFacts{cluster: "redpanda.f00f"}, "Redpanda", nil, ""},
		{brokerFacts{cluster: "redpanda.f00f", topics: topic("redpanda.storage.mode", "cloud")}, "Redpanda", func(c *config.Config) { c.Outbox.BatchSize = 5000 }, "outbox.batch_size to 20000"},
		{brokerFacts{hosts: []string{"api-1.kafka.discoveryv2.prod-s.eastus.azure.warpstream.com"}}, "WarpStream", func(c *config.Config) { c.Outbox.BatchSize = 5000 }, "outbox.batch_size to 20000"},
		{brokerFacts{topics: topic("bufstream.archive.kind", "")}, "Bufstream", func(c *config.Config) { c.Outbox.BatchSize = 5000 }, "outbox.batch_size to 20000"},
		{brokerFacts{hosts: []string{"b-1.shop.kafka.eu-central-1.amazonaws.com"}, cluster: "MkU3OEVBNTcwNTJENDM2Qk", topics: topic("retention.ms", "1")}, "", nil, ""},
	} {
		got := judgeKind(c.facts, fit)
		if len(got) != 1 || got[0].verdict != OK || c.kind != "" && !strings.HasPrefix(got[0].says, c.kind+": ") || c.kind == "" && !strings.HasPrefix(got[0].says, "nothing") {
			t.Errorf("%+v: %+v", c.facts, got)
		}
		if c.worse == nil {
			continue
		}
		settings := fit
		c.worse(&settings)
		if got := judgeKind(c.facts, settings); len(got) != 2 || got[0].verdict != Warning || !strings.Contains(got[0].hint, c.hint) || got[1].verdict != OK {
			t.Errorf("%+v with other settings: %+v", c.facts, got)
		}
	}
	named := config.Config{Sources: []config.Source{{Name: "orders"}}}
	if got := judgeDepth("x", named); len(got) != 1 || !strings.Contains(got[0].hint, "limits.buffered_mb") {
		t.Errorf("with a named source: %+v", got)
	}
	if got := judgeDepth("x", config.Config{}); len(got) != 1 || strings.Contains(got[0].hint, "limits.buffered_mb") {
		t.Errorf("without: %+v", got)
	}
	if got := judgeKind(brokerFacts{cluster: "redpanda.f00f", topics: topic("write.caching", "true")}, fit); len(got) != 2 || got[0].verdict != Warning || !strings.Contains(got[0].says, "orders") || strings.Contains(got[0].says, "other") {
		t.Errorf("write caching: %+v", got)
	}
}

// TestProduceTime: without a topic nothing is written; with one a produce is timed, and a long one asks for deeper batches.
func TestProduceTime(t *testing.T) {
	t.Parallel()
	kafkatest.Each(t, func(t *testing.T, b *kafkatest.Broker) {
		s := newSubject(t, pgtest.New(t), b)
		topic := b.Topic(t, 1, nil)
		s.examine(t, nil).want(t, "topics", "time of a produce", OK, "no record was written")
		if read := b.ReadAll(t, topic, 0); len(read) != 0 {
			t.Fatalf("%d records were written", len(read))
		}
		s.flags["outbox.batch_size"] = "20000"
		s.examine(t, func(c *Config) { c.ProduceTopic = topic }).want(t, "topics", "time of a produce", OK, "a produce takes", "the quickest of 4")
		if read := b.ReadAll(t, topic, producesTimed); len(read) != producesTimed || read[0].Headers[0].Key != "postrider-doctor" {
			t.Errorf("%d records: %+v", len(read), read)
		}
		s.examine(t, func(c *Config) { c.ProduceTopic = topic + "-missing" }).want(t, "topics", "time of a produce", Failed, topic+"-missing")
		for _, own := range []string{s.flags["dlq.topic"], s.flags["tasks.lifecycle_topic"]} {
			s.examine(t, func(c *Config) { c.ProduceTopic = own }).want(t, "topics", "time of a produce", Failed, "no record was written: "+own)
			if read := b.ReadAll(t, own, 0); len(read) != 0 {
				t.Errorf("%d records were written to %s", len(read), own)
			}
		}
		s.examine(t, nil).want(t, "topics", "kind of brokers", OK, "Apache Kafka")
	})
	settings := config.Config{}
	settings.Outbox.BatchSize, settings.Outbox.PublishTimeout = 5000, 10*time.Second
	for took, want := range map[time.Duration]string{3 * time.Millisecond: "a produce takes 3ms", 250 * time.Millisecond: "at most 20000 events a second", 6 * time.Second: "are sent again"} {
		if got := judgeProduceTime(took, settings); len(got) != 1 || !strings.Contains(got[0].says, want) || (got[0].verdict == OK) != (got[0].hint == "") {
			t.Errorf("%v: %+v", took, got)
		}
	}
}

package doctor

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/postrider/postrider/cmd/internal/config"
)

// kind is a system that speaks Kafka's protocol and differs from Apache Kafka in what Postrider should be told. What is said of it is
// from its makers' documentation; Postrider's tests run on none.
type kind struct {
	name string
	// known reports whether the brokers are of the kind, by what they answer: their addresses, the cluster's id, and the settings
	// of topics.
	known func(b brokerFacts) bool
	// differs is what people should know; judge adds warnings about settings that do not fit.
	differs string
	judge   func(b brokerFacts, c config.Config) []result
}

// brokerFacts are what brokers say of themselves.
type brokerFacts struct {
	hosts   []string // in lower case, those of the settings included
	cluster string
	topics  map[string]map[string]string // settings by topic
}

// hasHost reports whether a broker's address has a part.
func (b brokerFacts) hasHost(part string) bool {
	return slices.ContainsFunc(b.hosts, func(host string) bool { return strings.Contains(host, part) })
}

// with are the topics that have a setting that fits, sorted.
func (b brokerFacts) with(fits func(name, value string) bool) []string {
	var topics []string
	for topic, settings := range b.topics {
		for name, value := range settings {
			if fits(name, value) {
				topics = append(topics, topic)
				break
			}
		}
	}
	slices.Sort(topics)
	return topics
}

// hubs is in the names of brokers of Azure Event Hubs, which close connections on requests of more than hubRequest bytes.
const (
	hubs       = ".servicebus.windows.net"
	hubRequest = 1046528
	// serverlessMessage is the largest max.message.bytes of a topic of MSK Serverless.
	serverlessMessage = 8 << 20
	// deepBatch is the batch for brokers whose answers take long: the largest.
	deepBatch = 20000
)

var kinds = []kind{
	{name: "Azure Event Hubs", known: func(b brokerFacts) bool { return b.hasHost(hubs) },
		differs: "topics (event hubs) are made in Azure, and not by Kafka's requests; it takes gzip alone, and requests up to 1,046,528 bytes",
		judge: func(_ brokerFacts, c config.Config) []result {
			if c.Kafka.Compression != "none" && c.Kafka.Compression != "gzip" {
				return warn("set kafka.compression to none or gzip", "Azure Event Hubs takes no batches that are compressed by %s", c.Kafka.Compression)
			}
			return nil
		}},
	{name: "MSK Serverless", known: func(b brokerFacts) bool { return b.hasHost(".kafka-serverless.") },
		differs: "logins are those of IAM alone (kafka.sasl_mechanism=aws_msk_iam); a topic takes messages up to 8 MiB; partitions and groups are limited",
		judge: func(_ brokerFacts, c config.Config) []result {
			if c.Kafka.MaxMessageBytes > serverlessMessage {
				return warn(fmt.Sprintf("set kafka.max_message_bytes to %d", serverlessMessage), "MSK Serverless takes messages up to %d bytes, and kafka.max_message_bytes is %d", serverlessMessage, c.Kafka.MaxMessageBytes)
			}
			return nil
		}},
	{name: "Redpanda", known: func(b brokerFacts) bool { return strings.HasPrefix(b.cluster, "redpanda.") },
		differs: "write.caching acknowledges records before they are on a disk: keep it off for topics whose events must not be lost. Cloud topics answer after a write to object storage",
		judge: func(b brokerFacts, c config.Config) []result {
			var out []result
			if cached := b.with(func(name, value string) bool { return name == "write.caching" && value == "true" }); len(cached) > 0 {
				out = warn("set write.caching of the topics to false", "topics whose acknowledged events are in memory alone, and are lost when brokers crash together: %s", shorten(cached))
			}
			if cloud := b.with(func(name, value string) bool {
				return name == "redpanda.cloud_topic.enabled" && value == "true" || name == "redpanda.storage.mode" && value == "cloud"
			}); len(cloud) > 0 {
				out = append(out, judgeDepth("cloud topics of Redpanda ("+shorten(cloud)+")", c)...)
			}
			return out
		}},
	{name: "WarpStream", known: func(b brokerFacts) bool { return b.hasHost(".warpstream.com") },
		differs: "an answer comes after a write to object storage, of 250 ms and more",
		judge:   func(_ brokerFacts, c config.Config) []result { return judgeDepth("WarpStream", c) }},
	{name: "Bufstream", known: func(b brokerFacts) bool {
		return len(b.with(func(name, _ string) bool { return strings.HasPrefix(name, "bufstream.") })) > 0
	},
		differs: "an answer comes after a write to object storage, of 250 ms and more",
		judge:   func(_ brokerFacts, c config.Config) []result { return judgeDepth("Bufstream", c) }},
}

// judgeDepth is about batches where each answer takes long: one batch of the log at a time is at the brokers.
func judgeDepth(who string, c config.Config) []result {
	if c.Outbox.BatchSize >= deepBatch {
		return nil
	}
	return warn(deeper(c), "%s: answers take 250 ms and more, and a batch waits for all of its answers: with outbox.batch_size %d at most %d events a second",
		who, c.Outbox.BatchSize, c.Outbox.BatchSize*4)
}

// deeper says what makes batches deeper. A batch of a named source has a part of its buffered_mb as well.
func deeper(c config.Config) string {
	hint := fmt.Sprintf("set outbox.batch_size to %d", deepBatch)
	if c.HasSources() {
		hint += "; batches of named sources are bounded by limits.buffered_mb as well"
	}
	return hint
}

func checkKind(ctx context.Context, p *patient) ([]result, error) {
	facts := brokerFacts{topics: p.topics.configs}
	for _, b := range p.brokers {
		facts.hosts = append(facts.hosts, strings.ToLower(b.Host))
	}
	for _, seed := range p.Settings.Kafka.Brokers {
		facts.hosts = append(facts.hosts, strings.ToLower(seed))
	}
	meta, err := p.admin.BrokerMetadata(ctx)
	if err != nil {
		return nil, err
	}
	facts.cluster = meta.Cluster
	return judgeKind(facts, p.Settings), nil
}

func judgeKind(facts brokerFacts, c config.Config) []result {
	for _, k := range kinds {
		if k.known(facts) {
			return append(k.judge(facts, c), well("%s: %s", k.name, k.differs)...)
		}
	}
	return well("nothing that the brokers answer is known of a system that differs from Apache Kafka")
}

// producesTimed is how many records are written to time one; the first opens the connection.
const producesTimed = 5

func checkProduceTime(ctx context.Context, p *patient) ([]result, error) {
	topic := p.ProduceTopic
	if topic == "" {
		return well("no record was written; postrider doctor --produce-to TOPIC writes %d and says how long one takes", producesTimed), nil
	}
	if use, own := p.Settings.OwnTopics()[topic]; own {
		return fail("name a topic of your own whose consumers take such records for nothing", "no record was written: %s has %s, and a record there would be taken for one", topic, use), nil
	}
	var quickest time.Duration
	for i := range producesTimed {
		record := &kgo.Record{Topic: topic, Value: []byte("written by postrider doctor --produce-to; it means nothing"), Headers: []kgo.RecordHeader{{Key: "postrider-doctor"}}}
		began := time.Now()
		if err := p.Kafka.ProduceSync(ctx, record).FirstErr(); err != nil {
			return fail("see that the topic is there, and that this client may write to it", "a record could not be written to %s: %v", topic, err), nil
		}
		if took := time.Since(began); i > 0 && (quickest == 0 || took < quickest) {
			quickest = took
		}
	}
	return judgeProduceTime(quickest, p.Settings), nil
}

// longProduce is how long a produce takes from which on batches should be deeper.
const longProduce = 50 * time.Millisecond

func judgeProduceTime(took time.Duration, c config.Config) []result {
	rate := int64(float64(c.Outbox.BatchSize) / max(took, time.Millisecond).Seconds())
	switch {
	case took >= c.Outbox.PublishTimeout/2:
		return warn(fmt.Sprintf("raise outbox.publish_timeout_ms to four times that, at most 12000; now it is %d", c.Outbox.PublishTimeout.Milliseconds()),
			"a produce takes %v: batches that take twice as long count as not answered, and are sent again", took.Round(time.Millisecond))
	case took >= longProduce && c.Outbox.BatchSize < deepBatch:
		return warn(deeper(c), "a produce takes %v, and a batch waits for its answers: with outbox.batch_size %d at most %d events a second",
			took.Round(time.Millisecond), c.Outbox.BatchSize, rate)
	}
	return well("a produce takes %v, the quickest of %d", took.Round(100*time.Microsecond), producesTimed-1)
}

package kafkatest

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"net"
	"regexp"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/postrider/postrider/internal/loop"
)

// callTimeout bounds what a helper of this package waits for a broker.
const callTimeout = 2 * time.Minute

// Kind says what a [Broker] is.
type Kind string

// The kinds of broker, in the order in which [Real] chooses.
const (
	KindEnv    Kind = "env"    // named by the environment
	KindDocker Kind = "docker" // Apache Kafka in a container
	KindJars   Kind = "jars"   // Apache Kafka from the official jars
	KindKfake  Kind = "kfake"  // franz-go's in-process fake
)

// Broker is a broker, or a fake cluster, for tests. Its methods are safe for
// concurrent use.
type Broker struct {
	// Kind says where the broker comes from.
	Kind Kind
	// Version is the Kafka version, for example "4.1.0". For a broker that the
	// environment names it is a guess from the requests that it knows, for
	// example "4.1"; for kfake it is empty.
	Version string
	// Addrs are the addresses to connect to, host:port.
	Addrs []string
	// Cluster injects faults. It is nil unless Kind is [KindKfake].
	Cluster *kfake.Cluster

	detail string // how it runs, for people
	dial   func(ctx context.Context, network, addr string) (net.Conn, error)
	opts   []kgo.Opt // of every client
	keep   bool      // topics need no deleting: the broker ends with the test or its process
}

// String describes the broker in one line, for example
// "Apache Kafka 4.1.0 (local jars, Java 17)".
func (b *Broker) String() string {
	if b.Kind == KindKfake {
		return "kfake (" + b.detail + ")"
	}
	return fmt.Sprintf("Apache Kafka %s (%s)", b.Version, b.detail)
}

// Real reports whether the broker is Apache Kafka, rather than kfake.
func (b *Broker) Real() bool { return b.Kind != KindKfake }

// Client returns a client of the broker with these options, closed when the
// test ends.
func (b *Broker) Client(t testing.TB, opts ...kgo.Opt) *kgo.Client {
	t.Helper()
	client, err := b.newClient(opts...)
	if err != nil {
		t.Fatalf("kafkatest: make a client of %s: %v", b, err)
	}
	t.Cleanup(client.Close)
	return client
}

// As returns the same broker for clients with these options, for example a login.
func (b *Broker) As(opts ...kgo.Opt) *Broker {
	as := *b
	as.opts = append(slices.Clip(b.opts), opts...)
	return &as
}

func (b *Broker) newClient(opts ...kgo.Opt) (*kgo.Client, error) {
	// With metrics a client's Close keeps trying to deliver them, for seconds,
	// to a broker that the test has taken away.
	all := []kgo.Opt{kgo.SeedBrokers(b.Addrs...), kgo.DisableClientMetrics()}
	if b.dial != nil {
		all = append(all, kgo.Dialer(b.dial))
	}
	return kgo.NewClient(slices.Concat(all, b.opts, opts)...)
}

// Admin returns an admin client of the broker, closed when the test ends. It
// sees what has just changed.
func (b *Broker) Admin(t testing.TB) *kadm.Client {
	t.Helper()
	return kadm.NewClient(b.Client(t, freshMetadata))
}

// freshMetadata keeps an admin client from answering for topics and leaders
// out of a cache, as it does for five seconds by default.
var freshMetadata = kgo.MetadataMinAge(10 * time.Millisecond)

// Topic creates a topic of its own for the test and returns its name, which
// contains the test's. configs are topic settings, nil for none. On a real
// broker the topic is deleted when the test ends.
func (b *Broker) Topic(t testing.TB, partitions int, configs map[string]string) string {
	t.Helper()
	name := uniqueName(t.Name())
	b.CreateTopic(t, name, partitions, configs)
	return name
}

// CreateTopic creates a topic of this name with one replica and returns when
// every partition has a leader. On a real broker the topic is deleted when the
// test ends; there the name must be unlike that of any other test.
func (b *Broker) CreateTopic(t testing.TB, name string, partitions int, configs map[string]string) {
	t.Helper()
	client, err := b.newClient(freshMetadata)
	if err != nil {
		t.Fatalf("kafkatest: make a client of %s: %v", b, err)
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(t.Context(), callTimeout)
	defer cancel()
	admin, values := kadm.NewClient(client), make(map[string]*string, len(configs))
	for k, v := range configs {
		values[k] = &v
	}
	if _, err := admin.CreateTopic(ctx, int32(partitions), 1, values, name); err != nil {
		t.Fatalf("kafkatest: create topic %s with %d partitions and settings %v on %s: %v", name, partitions, configs, b, err)
	}
	if !b.keep {
		t.Cleanup(func() { b.deleteTopic(t, name) })
	}
	if err := waitLeaders(ctx, admin, name, partitions); err != nil {
		t.Fatalf("kafkatest: topic %s on %s: %v", name, b, err)
	}
}

// deleteTopic removes what a test leaves on a broker that others use. A test
// may have taken the topic or the broker away itself: nothing here fails it.
func (b *Broker) deleteTopic(t testing.TB, name string) {
	client, err := b.newClient()
	if err != nil {
		t.Logf("kafkatest: delete topic %s: %v", name, err)
		return
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), callTimeout)
	defer cancel()
	if _, err := kadm.NewClient(client).DeleteTopic(ctx, name); err != nil {
		t.Logf("kafkatest: delete topic %s: %v", name, err)
	}
}

// waitLeaders returns when every partition of the topic has a leader, or with
// the reason why not when ctx ends. A broker answers a creation before it has
// taken the partitions over.
func waitLeaders(ctx context.Context, admin *kadm.Client, topic string, partitions int) error {
	for {
		topics, err := admin.ListTopics(ctx, topic)
		if err == nil {
			err = leaderless(topics[topic], partitions)
		}
		if err == nil {
			return nil
		}
		if loop.Sleep(ctx, 10*time.Millisecond) != nil {
			return fmt.Errorf("not ready after %v: %w", callTimeout, err)
		}
	}
}

func leaderless(topic kadm.TopicDetail, partitions int) error {
	if topic.Err != nil {
		return topic.Err
	}
	if got := len(topic.Partitions); got != partitions {
		return fmt.Errorf("%d of %d partitions are known", got, partitions)
	}
	for _, p := range topic.Partitions.Sorted() {
		if p.Err != nil || p.Leader < 0 {
			return fmt.Errorf("partition %d has no leader (%v)", p.Partition, p.Err)
		}
	}
	return nil
}

var notInTopicNames = regexp.MustCompile(`[^a-zA-Z0-9._-]+`)

// uniqueName makes a topic name of a test's name: Kafka allows 249 characters.
func uniqueName(test string) string {
	name := notInTopicNames.ReplaceAllString(test, "-")
	var id [6]byte
	_, _ = rand.Read(id[:]) // never fails, see crypto/rand
	return name[:min(len(name), 200)] + "-" + hex.EncodeToString(id[:])
}

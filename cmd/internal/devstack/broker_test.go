package devstack

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/goleak"
)

// brokerDirEnv turns this test binary into a process that runs a broker in the
// folder that it names until it is killed, see TestSurvivesKill.
const brokerDirEnv = "DEVSTACK_TEST_BROKER_DIR"

func TestMain(m *testing.M) {
	if dir := os.Getenv(brokerDirEnv); dir != "" {
		b, err := StartBroker(context.Background(), BrokerOptions{Dir: dir})
		if err != nil {
			fmt.Println("error:", err)
			os.Exit(1)
		}
		fmt.Println(b.Addr())
		_, _ = io.Copy(io.Discard, os.Stdin) // ends only when the test forgets to kill us
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

func testContext(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func startBroker(t *testing.T, opts BrokerOptions) *Broker {
	t.Helper()
	b, err := StartBroker(t.Context(), opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return b
}

// newClient returns a client that does not wait: it looks at topics afresh, its
// fetch for some partitions does not hold up the others for five seconds, and
// it has no metrics to send to a broker that is gone.
func newClient(t *testing.T, addr string, opts ...kgo.Opt) *kgo.Client {
	t.Helper()
	opts = append(opts, kgo.SeedBrokers(addr), kgo.MetadataMinAge(10*time.Millisecond),
		kgo.FetchMaxWait(100*time.Millisecond), kgo.DisableClientMetrics())
	client, err := kgo.NewClient(opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return client
}

func produce(ctx context.Context, t *testing.T, addr, topic string, values ...string) {
	t.Helper()
	client := newClient(t, addr, kgo.AllowAutoTopicCreation())
	for _, v := range values {
		r := &kgo.Record{Topic: topic, Key: []byte("k"), Value: []byte(v)}
		if err := client.ProduceSync(ctx, r).FirstErr(); err != nil {
			t.Fatalf("produce %q: %v", v, err)
		}
	}
}

// consume reads one record of the topic in the group and commits it.
func consume(ctx context.Context, t *testing.T, addr, group, topic string) string {
	t.Helper()
	client := newClient(t, addr, kgo.ConsumerGroup(group), kgo.ConsumeTopics(topic), kgo.DisableAutoCommit())
	fetches := client.PollRecords(ctx, 1)
	if err := fetches.Err(); err != nil {
		t.Fatalf("read %s in group %s: %v", topic, group, err)
	}
	if err := client.CommitRecords(ctx, fetches.Records()...); err != nil {
		t.Fatalf("commit in group %s: %v", group, err)
	}
	if err := client.LeaveGroupContext(ctx); err != nil {
		t.Fatalf("leave group %s: %v", group, err)
	}
	return string(fetches.Records()[0].Value)
}

func TestTopicsOnFirstUse(t *testing.T) {
	t.Parallel()
	ctx, b := testContext(t), startBroker(t, BrokerOptions{})
	produce(ctx, t, b.Addr(), "orders", "one")
	admin := kadm.NewClient(newClient(t, b.Addr()))
	topics, err := admin.ListTopics(ctx, "orders")
	if err != nil || len(topics["orders"].Partitions) != DefaultPartitions {
		t.Errorf("topic %v (%v), want %d partitions", topics["orders"], err, DefaultPartitions)
	}
	// The client did not ask for the creation of this topic.
	client := newClient(t, b.Addr(), kgo.UnknownTopicRetries(0))
	if err := client.ProduceSync(ctx, &kgo.Record{Topic: "unasked"}).FirstErr(); !errors.Is(err, kerr.UnknownTopicOrPartition) {
		t.Errorf("produce without asking for the topic: %v, want %v", err, kerr.UnknownTopicOrPartition)
	}
}

func TestTopicNames(t *testing.T) {
	t.Parallel()
	ctx, b := testContext(t), startBroker(t, BrokerOptions{Partitions: 1})
	admin := kadm.NewClient(newClient(t, b.Addr()))
	for _, bad := range []string{"order events", "../escape", "..", strings.Repeat("x", 250)} {
		if _, err := admin.CreateTopic(ctx, 1, 1, nil, bad); !errors.Is(err, kerr.InvalidTopicException) {
			t.Errorf("create topic %.20q: %v, want %v", bad, err, kerr.InvalidTopicException)
		}
		client := newClient(t, b.Addr(), kgo.AllowAutoTopicCreation(), kgo.UnknownTopicRetries(0))
		if err := client.ProduceSync(ctx, &kgo.Record{Topic: bad}).FirstErr(); err == nil {
			t.Errorf("produced to topic %.20q", bad)
		}
	}
	answers, err := admin.CreateTopics(ctx, 1, 1, nil, "fine", "not fine")
	if err != nil {
		t.Fatal(err)
	}
	if !errors.Is(answers["fine"].Err, kerr.InvalidRequest) || !errors.Is(answers["not fine"].Err, kerr.InvalidTopicException) {
		t.Errorf("answers %v, want both refused, the second for its name", answers)
	}
	// More requests than a control lives.
	for i := range controlEvery + 10 {
		if _, err := admin.CreateTopic(ctx, 1, 1, nil, "bad name"); !errors.Is(err, kerr.InvalidTopicException) {
			t.Fatalf("request %d: %v, want %v", i, err, kerr.InvalidTopicException)
		}
	}
	topics, err := admin.ListTopics(ctx)
	if err != nil || len(topics) != 0 {
		t.Errorf("topics %v (%v), want none", topics.Names(), err)
	}
}

// TestLargestMessage: the largest batch is Apache Kafka's, to the byte.
func TestLargestMessage(t *testing.T) {
	t.Parallel()
	const limit = 1048588 // the default of message.max.bytes in Apache Kafka
	ctx, dir := testContext(t), t.TempDir()
	b := startBroker(t, BrokerOptions{Dir: dir, Partitions: 1})
	client := newClient(t, b.Addr(), kgo.AllowAutoTopicCreation(), kgo.ProducerBatchMaxBytes(2<<20),
		kgo.ProducerBatchCompression(kgo.NoCompression()))
	// A batch of one record with a value of this size takes 61 bytes for its
	// own header and 11 for the record's.
	for _, tc := range []struct {
		size int
		want error
	}{{limit - 72, nil}, {limit - 71, kerr.MessageTooLarge}} {
		r := &kgo.Record{Topic: "large", Value: make([]byte, tc.size)}
		if err := client.ProduceSync(ctx, r).FirstErr(); !errors.Is(err, tc.want) {
			t.Errorf("produce %d bytes: %v, want %v", tc.size, err, tc.want)
		}
	}
	configs, err := kadm.NewClient(client).DescribeTopicConfigs(ctx, "large")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range configs[0].Configs {
		if c.Key == "max.message.bytes" && c.MaybeValue() != strconv.Itoa(limit) {
			t.Errorf("max.message.bytes of the topic = %s, want %d", c.MaybeValue(), limit)
		}
	}
	// A segment is full with its fourth megabyte: five of them take two.
	for range 4 {
		if err := client.ProduceSync(ctx, &kgo.Record{Topic: "large", Value: make([]byte, limit-72)}).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	segments, err := filepath.Glob(filepath.Join(dir, "*", "large-0", "*.dat"))
	if err != nil || len(segments) != 2 {
		t.Errorf("segments %v (%v), want two", segments, err)
	}
}

func TestKeepsItsData(t *testing.T) {
	t.Parallel()
	ctx, dir := testContext(t), t.TempDir()
	first := startBroker(t, BrokerOptions{Dir: dir, Partitions: 2})
	produce(ctx, t, first.Addr(), "orders", "one", "two", "three")
	if got := consume(ctx, t, first.Addr(), "g", "orders"); got != "one" {
		t.Fatalf("first record is %q", got)
	}
	if err := errors.Join(first.Close(), first.Close()); err != nil {
		t.Fatalf("close, twice: %v", err)
	}
	second := startBroker(t, BrokerOptions{Dir: dir, Partitions: 5})
	if got := consume(ctx, t, second.Addr(), "g", "orders"); got != "two" {
		t.Errorf("after a restart the group reads %q, want two", got)
	}
	topics, err := kadm.NewClient(newClient(t, second.Addr())).ListTopics(ctx, "orders")
	if err != nil || len(topics["orders"].Partitions) != 2 {
		t.Errorf("topic %v (%v), want the two partitions that it had", topics["orders"], err)
	}
}

// TestSurvivesKill kills the process of a broker, between a topic's creation on
// first use, its records and a group's commit and any orderly end.
func TestSurvivesKill(t *testing.T) {
	t.Parallel()
	ctx, dir := testContext(t), t.TempDir()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), brokerDirEnv+"="+dir)
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = stdin.Close() }()
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil || strings.HasPrefix(line, "error:") {
		t.Fatalf("the broker's process says %q (%v)", line, err)
	}
	addr := strings.TrimSpace(line)
	produce(ctx, t, addr, "orders", "one", "two", "three")
	if got := consume(ctx, t, addr, "g", "orders"); got != "one" {
		t.Fatalf("first record is %q", got)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // says that it was killed

	b := startBroker(t, BrokerOptions{Dir: dir})
	for _, want := range []string{"two", "three"} {
		if got := consume(ctx, t, b.Addr(), "g", "orders"); got != want {
			t.Fatalf("after a kill the group reads %q, want %q", got, want)
		}
	}
	produce(ctx, t, b.Addr(), "orders", "four")
	if got := consume(ctx, t, b.Addr(), "g", "orders"); got != "four" {
		t.Errorf("after a kill a new record reads %q, want four", got)
	}
}

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/postrider/postrider/internal/loop"
	"github.com/postrider/postrider/internal/testenv/kafkajars"
)

// partitions of every topic of the bench.
const partitions = 6

// slowBroker is a kfake whose answers to records take slowAnswer, as where records are written to object storage.
const (
	slowBroker = "kfake, slow"
	slowAnswer = 250 * time.Millisecond
)

// broker is where everything is produced to.
type broker struct {
	kind          string // as -brokers has it
	name, address string
	pid           int
	stop          func() error
	client        *kgo.Client
	admin         *kadm.Client
}

// startBroker starts a broker with its files below dir, by default the system's place for temporary files.
func startBroker(ctx context.Context, kind, dir string) (*broker, error) {
	var b *broker
	switch kind {
	case "kfake", slowBroker:
		role, name := "child-kfake", kind
		if kind == slowBroker {
			role, name = "child-slow-kfake", fmt.Sprintf("kfake, %v an answer", slowAnswer)
		}
		c, err := startSelf(role)
		if err != nil {
			return nil, err
		}
		address, err := c.line()
		if err != nil {
			return nil, err
		}
		b = &broker{kind: kind, name: name, address: address, pid: c.pid(), stop: c.stop}
	case "kafka":
		files, err := os.MkdirTemp(dir, "postrider-bench-")
		if err != nil {
			return nil, err
		}
		k, err := kafkajars.Start(ctx, kafkajars.Options{Heap: "1g", Dir: files})
		if err != nil {
			return nil, errors.Join(err, os.RemoveAll(files))
		}
		b = &broker{kind: kind, name: "Apache Kafka " + k.Version(), address: k.Addr(), pid: k.PID(), stop: func() error {
			return errors.Join(k.Close(), os.RemoveAll(files))
		}}
	default:
		return nil, fmt.Errorf("broker %q is neither kfake nor kafka", kind)
	}
	err := b.connect()
	if err == nil && kind == "kafka" {
		err = b.warm(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, b.stop())
	}
	return b, nil
}

func (b *broker) connect() (err error) {
	b.client, err = kgo.NewClient(kgo.SeedBrokers(b.address), kgo.DisableClientMetrics(), kgo.MetadataMinAge(10*time.Millisecond))
	b.admin = kadm.NewClient(b.client)
	return err
}

// A fresh Java process runs at a tenth of its speed. warmFor is how long it is given records before anything is
// measured, in large requests and then in small ones.
const warmFor = 5 * time.Second

func (b *broker) warm(ctx context.Context) error {
	topic, err := b.newTopic(ctx, nil)
	if err != nil {
		return err
	}
	defer b.deleteTopic(topic)
	for _, at := range []int{2000, 20} {
		for began := time.Now(); time.Since(began) < warmFor; {
			records := make([]*kgo.Record, at)
			for i := range records {
				records[i] = &kgo.Record{Topic: topic, Key: fmt.Appendf(nil, "key-%d", i), Value: body(i, 300)}
			}
			if err := b.client.ProduceSync(ctx, records...).FirstErr(); err != nil {
				return fmt.Errorf("warm the broker up: %w", err)
			}
		}
	}
	return nil
}

// versions names the brokers that the bench knows.
func versions() string {
	fake := "kfake"
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, m := range info.Deps {
			if m.Path == "github.com/twmb/franz-go/pkg/kfake" {
				fake += " " + m.Version
			}
		}
	}
	return fake + ", Apache Kafka " + kafkajars.DefaultVersion
}

func (b *broker) close() {
	b.client.Close()
	_ = b.stop() // it has nothing to lose
}

// serveKfake is the fake broker. Small segments: one grows by copying. The cleaner only acts on topics that
// set a retention of their own.
func serveKfake(ctx context.Context, opts ...kfake.Opt) error {
	c, err := kfake.NewCluster(append(opts, kfake.NumBrokers(1), kfake.BrokerConfigs(map[string]string{
		"log.segment.bytes": "4194304", "log.cleaner.backoff.ms": "15000",
	}))...)
	if err != nil {
		return err
	}
	defer c.Close()
	c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: leaderlessTopic, Partitions: []int32{0}, Err: kerr.LeaderNotAvailable, Count: -1})
	fmt.Println(strings.Join(c.ListenAddrs(), ","))
	<-ctx.Done()
	return nil
}

// newTopic creates a topic and returns its name when all of its partitions have leaders.
func (b *broker) newTopic(ctx context.Context, configs map[string]*string) (string, error) {
	topic := fmt.Sprintf("bench.%d", time.Now().UnixNano())
	return topic, b.createTopic(ctx, topic, configs)
}

func (b *broker) createTopic(ctx context.Context, topic string, configs map[string]*string) error {
	if _, err := b.admin.CreateTopic(ctx, partitions, 1, configs, topic); err != nil {
		return fmt.Errorf("create topic %s: %w", topic, err)
	}
	for {
		offsets, err := b.admin.ListEndOffsets(ctx, topic)
		if err == nil && offsets.Error() == nil && len(offsets[topic]) == partitions {
			return nil
		}
		if err := loop.Sleep(ctx, 20*time.Millisecond); err != nil {
			return fmt.Errorf("topic %s has no leaders: %w", topic, err)
		}
	}
}

// deleteTopic gives its records back: a broker in memory would keep them all.
func (b *broker) deleteTopic(topic string) {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	_, _ = b.admin.DeleteTopic(ctx, topic) // what stays is only in the way
}

// produced is how many records the topics have been given, by the broker's own account.
func (b *broker) produced(ctx context.Context, topics ...string) (int64, error) {
	offsets, err := b.admin.ListEndOffsets(ctx, topics...)
	if err == nil {
		err = offsets.Error()
	}
	if err != nil {
		return 0, fmt.Errorf("read the end of %s: %w", strings.Join(topics, ", "), err)
	}
	var n int64
	offsets.Each(func(o kadm.ListedOffset) { n += o.Offset })
	return n, nil
}

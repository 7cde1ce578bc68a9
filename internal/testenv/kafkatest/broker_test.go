package kafkatest_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/postrider/postrider/internal/testenv/kafkatest"
)

func produce(t *testing.T, client *kgo.Client, topic string, values ...string) {
	t.Helper()
	for _, v := range values {
		r := &kgo.Record{Topic: topic, Value: []byte(v)}
		if err := client.ProduceSync(t.Context(), r).FirstErr(); err != nil {
			t.Fatalf("produce %q to %s: %v", v, topic, err)
		}
	}
}

func values(records []*kgo.Record) string {
	var all []string
	for _, r := range records {
		all = append(all, string(r.Value))
	}
	return strings.Join(all, " ")
}

func TestReadAll(t *testing.T) {
	t.Parallel()
	kafkatest.Each(t, func(t *testing.T, b *kafkatest.Broker) {
		topic := b.Topic(t, 1, nil)
		if got := b.ReadAll(t, topic, 0); len(got) != 0 {
			t.Errorf("a new topic holds %v", values(got))
		}
		produce(t, b.Client(t), topic, "a", "b", "b")
		if got := values(b.ReadAll(t, topic, 3)); got != "a b b" {
			t.Errorf("topic holds %q, want a b b", got)
		}
		if got := values(b.ReadAll(t, topic, 2)); got != "a b b" {
			t.Errorf("asked for two records, got %q: the one too many is not shown", got)
		}
	})
}

func TestReadAllOfEveryPartition(t *testing.T) {
	t.Parallel()
	kafkatest.Each(t, func(t *testing.T, b *kafkatest.Broker) {
		topic := b.Topic(t, 4, nil)
		client := b.Client(t, kgo.RecordPartitioner(kgo.ManualPartitioner()))
		for p := range int32(3) { // the last partition stays empty
			r := &kgo.Record{Topic: topic, Partition: p, Value: fmt.Append(nil, p)}
			if err := client.ProduceSync(t.Context(), r).FirstErr(); err != nil {
				t.Fatal(err)
			}
		}
		// Partition 0 has an end and no record before it.
		deleted := make(kadm.Offsets)
		deleted.AddOffset(topic, 0, 1, -1)
		if _, err := b.Admin(t).DeleteRecords(t.Context(), deleted); err != nil {
			t.Fatal(err)
		}
		if got := b.ReadAll(t, topic, 0); len(got) != 2 {
			t.Errorf("read %q, want the records of partitions 1 and 2", values(got))
		}
	})
}

func TestReadAllPastTransactions(t *testing.T) {
	t.Parallel()
	kafkatest.Each(t, func(t *testing.T, b *kafkatest.Broker) {
		topic := b.Topic(t, 1, nil)
		client := b.Client(t, kgo.TransactionalID(topic))
		for _, end := range []kgo.TransactionEndTry{kgo.TryCommit, kgo.TryAbort} {
			if err := client.BeginTransaction(); err != nil {
				t.Fatal(err)
			}
			produce(t, client, topic, fmt.Sprintf("commit=%v", bool(end)))
			if err := client.EndTransaction(t.Context(), end); err != nil {
				t.Fatal(err)
			}
		}
		if got, want := values(b.ReadAll(t, topic, 1)), "commit=true commit=false"; got != want {
			t.Errorf("topic holds %q, want %q", got, want)
		}
	})
}

func TestTopicSettings(t *testing.T) {
	t.Parallel()
	kafkatest.Each(t, func(t *testing.T, b *kafkatest.Broker) {
		topic, admin := b.Topic(t, 3, map[string]string{"retention.ms": "12345"}), b.Admin(t)
		if !strings.HasPrefix(topic, "TestTopicSettings-k") {
			t.Errorf("topic %s does not begin with the test's name", topic)
		}
		topics, err := admin.ListTopics(t.Context(), topic)
		if err != nil || len(topics[topic].Partitions) != 3 {
			t.Errorf("topic %v (%v), want three partitions", topics[topic], err)
		}
		configs, err := admin.DescribeTopicConfigs(t.Context(), topic)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range configs[0].Configs {
			if c.Key == "retention.ms" && c.MaybeValue() != "12345" {
				t.Errorf("retention.ms = %s, want 12345", c.MaybeValue())
			}
		}
	})
}

// TestNoAutoCreation: a topic that was not created is a fault that tests rely on.
func TestNoAutoCreation(t *testing.T) {
	t.Parallel()
	kafkatest.Each(t, func(t *testing.T, b *kafkatest.Broker) {
		client := b.Client(t, kgo.AllowAutoTopicCreation(), kgo.UnknownTopicRetries(0))
		r := &kgo.Record{Topic: strings.ReplaceAll(t.Name(), "/", "-"), Value: []byte("x")}
		if err := client.ProduceSync(t.Context(), r).FirstErr(); !errors.Is(err, kerr.UnknownTopicOrPartition) {
			t.Errorf("produce to a topic that was not created: %v, want %v", err, kerr.UnknownTopicOrPartition)
		}
	})
}

func TestGroup(t *testing.T) {
	t.Parallel()
	kafkatest.Each(t, func(t *testing.T, b *kafkatest.Broker) {
		topic := b.Topic(t, 1, nil)
		produce(t, b.Client(t), topic, "a", "b")
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		consumer := b.Client(t, kgo.ConsumerGroup(topic), kgo.ConsumeTopics(topic), kgo.DisableAutoCommit(),
			kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
		for n := 0; n < 2; {
			fetches := consumer.PollFetches(ctx)
			if err := ctx.Err(); err != nil {
				t.Fatalf("the group read %d records: %v", n, err)
			}
			n += fetches.NumRecords()
		}
		if err := consumer.CommitUncommittedOffsets(ctx); err != nil {
			t.Fatal(err)
		}
		offsets, err := b.Admin(t).FetchOffsets(ctx, topic)
		if err != nil {
			t.Fatal(err)
		}
		if o, _ := offsets.Lookup(topic, 0); o.At != 2 {
			t.Errorf("the group committed %d, want 2", o.At)
		}
	})
}

func TestKfakeFaults(t *testing.T) {
	t.Parallel()
	b := kafkatest.Kfake(t)
	topic := b.Topic(t, 1, nil)
	b.Cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: topic, Err: kerr.TopicAuthorizationFailed, Count: -1})
	r := &kgo.Record{Topic: topic, Value: []byte("x")}
	if err := b.Client(t).ProduceSync(t.Context(), r).FirstErr(); !errors.Is(err, kerr.TopicAuthorizationFailed) {
		t.Errorf("produce under a fault: %v, want %v", err, kerr.TopicAuthorizationFailed)
	}
}

func TestKfakeOptionsWin(t *testing.T) {
	t.Parallel()
	b := kafkatest.Kfake(t, kfake.NumBrokers(2), kfake.SeedTopics(3, "seeded"))
	if len(b.Addrs) != 2 {
		t.Errorf("addresses %v, want two", b.Addrs)
	}
	topics, err := b.Admin(t).ListTopics(t.Context(), "seeded")
	if err != nil || len(topics["seeded"].Partitions) != 3 {
		t.Errorf("topics %v (%v), want seeded with three partitions", topics, err)
	}
}

// TestVirtual waits an hour of virtual time for a partition without a leader.
func TestVirtual(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := kafkatest.Virtual(t)
		topic := b.Topic(t, 1, nil)
		faults := b.Cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: topic, Err: kerr.NotLeaderForPartition, Count: -1})
		began := time.Now()
		time.AfterFunc(time.Hour, faults.Remove)
		produce(t, b.Client(t), topic, "patient")
		if waited := time.Since(began); waited < time.Hour {
			t.Errorf("produced after %v, while the fault still held", waited)
		}
		if got := values(b.ReadAll(t, topic, 1)); got != "patient" {
			t.Errorf("topic holds %q", got)
		}
	})
}

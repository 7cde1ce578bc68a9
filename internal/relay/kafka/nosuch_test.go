package kafka

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/postrider/postrider/internal/relay"
	"github.com/postrider/postrider/internal/testenv/kafkatest"
)

// on is a message for a partition that its writer chose.
func on(partition int32, m relay.Message) relay.Message {
	m.Partition = &partition
	return m
}

// TestChosenPartition: a message goes where its writer wants it, with the writer's timestamp. A message for a partition that
// the topic does not have is given up alone, and only later ones of its key wait; the others of the batch go at once.
func TestChosenPartition(t *testing.T) {
	t.Parallel()
	kafkatest.Each(t, func(t *testing.T, b *kafkatest.Broker) {
		topic, other := b.Topic(t, 4, nil), b.Topic(t, 1, nil)
		p := newPublisher(t, b, nil)
		ms := []relay.Message{messageOf(topic, "k", "plain")}
		for n := range int32(4) {
			ms = append(ms, on(n, messageOf(topic, "k", fmt.Sprintf("keyed-%d", n))), on(n, messageOf(topic, "", fmt.Sprintf("free-%d", n))))
		}
		at := time.UnixMilli(1600000000123)
		for i := range ms {
			ms[i].Timestamp = at.Add(-time.Duration(i) * time.Hour)
		}
		ms = append(ms, on(4, messageOf(topic, "bad", "nowhere")), messageOf(topic, "bad", "behind"), messageOf(topic, "good", "beside"), on(1, messageOf(other, "bad", "far")), messageOf(other, "k", "near"))
		for round, p := range []*Publisher{p, p, newPublisher(t, b, nil)} {
			for i := range ms {
				ms[i].ID = messageOf("", "", "").ID
			}
			out := publish(t, p, ms...)
			wantAll(t, out, relay.Delivered, 9, 10, 12)
			wantOutcomes(t, []relay.Outcome{out[9], out[10], out[12]}, "permanent NO_SUCH_PARTITION", "withheld", "permanent NO_SUCH_PARTITION")
			if want := fmt.Sprintf("partition 4, and the topic %s has 4 partitions", topic); !strings.Contains(out[9].Message, want) {
				t.Errorf("round %d: %s", round, out[9].Message)
			}
		}
		for _, r := range b.ReadAll(t, topic, 30) {
			kind, n, placed := strings.Cut(string(r.Value), "-")
			if placed && fmt.Sprint(r.Partition) != n {
				t.Errorf("%s-%s is on partition %d", kind, n, r.Partition)
			}
			i := slices.IndexFunc(ms, func(m relay.Message) bool { return string(m.Value) == string(r.Value) })
			if want := ms[i].Timestamp; !want.IsZero() && !r.Timestamp.Equal(want) || want.IsZero() && time.Since(r.Timestamp) > time.Hour {
				t.Errorf("%s has the timestamp %v, want %v", r.Value, r.Timestamp, want)
			}
		}
	})
}

// TestPartitionThatWasAdded: a writer chooses a partition that was added a moment ago. The client knows the topic without it,
// and the broker is asked: the message is not given up, and arrives when a client knows of it.
func TestPartitionThatWasAdded(t *testing.T) {
	t.Parallel()
	b := kafkatest.Kfake(t)
	topic := b.Topic(t, 1, nil)
	p := newPublisher(t, b, nil)
	wantAll(t, publish(t, p, messageOf(topic, "k", "before")), relay.Delivered)
	if _, err := b.Admin(t).CreatePartitions(t.Context(), 2, topic); err != nil {
		t.Fatal(err)
	}
	m := on(1, messageOf(topic, "k", "added"))
	for out := publish(t, p, m); out[0].Class != relay.Delivered; out = publish(t, p, m) {
		if out[0].Class == relay.Permanent {
			t.Fatalf("it was given up: %s", out[0].Message)
		}
	}
}

// TestChosenPartitionThatOwesAnAnswer: while a partition owes an answer, messages for it are withheld, also without a key;
// messages of the same key for another partition go.
func TestChosenPartitionThatOwesAnAnswer(t *testing.T) {
	t.Parallel()
	p := &Publisher{}
	f := &flight{topic: "t", partition: 1, partitions: 4}
	for _, key := range keys(20) {
		m, there := messageOf("t", key, ""), p.Partition([]byte(key), 4) == 1
		if p.isOn(&m, f) != there {
			t.Errorf("the key %s is on the partition: %v", key, !there)
		}
	}
	for _, key := range append(keys(20), "") {
		for chosen := range int32(4) {
			if m := on(chosen, messageOf("t", key, "")); p.isOn(&m, f) != (chosen == 1) {
				t.Errorf("a message of the key %q for partition %d is on the partition: %v", key, chosen, chosen != 1)
			}
		}
	}
	if m := messageOf("t", "", ""); p.isOn(&m, f) {
		t.Error("a message without a key waits for the partition, and may go to others")
	}
}

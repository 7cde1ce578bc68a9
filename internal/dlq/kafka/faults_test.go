package kafka

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/postrider/postrider/internal/dlq"
	"github.com/postrider/postrider/internal/testenv/kafkatest"
)

// TestRecreatedTopic deletes the topic under a running source and creates it again.
func TestRecreatedTopic(t *testing.T) {
	t.Parallel()
	kafkatest.Each(t, func(t *testing.T, b *kafkatest.Broker) {
		topic := b.Topic(t, 1, nil)
		other := b.Topic(t, 1, nil)
		produce(t, b, numbered(topic, 0, 5)...)
		s := newSource(t, b, nil, topic, other)
		got, _ := read(t, s, 5)
		wantOffsets(t, got, 0, 4)

		if _, err := b.Admin(t).DeleteTopic(within(t, patience), topic); err != nil {
			t.Fatal(err)
		}
		gone(t, b, topic)
		b.CreateTopic(t, topic, 1, nil)
		// More than before, so that the old offset would be in range.
		produce(t, b, numbered(topic, 0, 7)...)
		got, errs := read(t, s, 7)
		wantOffsets(t, got, 0, 6)
		t.Logf("errors on the way: %v", errs)

		produce(t, b, numbered(other, 0, 1)...)
		read(t, s, 1)
		s.Close()
		nothing(t, newSource(t, b, nil, topic, other))
	})
}

func gone(t *testing.T, b *kafkatest.Broker, topic string) {
	t.Helper()
	ctx, admin, tick := within(t, patience), b.Admin(t), time.NewTicker(20*time.Millisecond)
	defer tick.Stop()
	for range tick.C {
		topics, err := admin.ListTopics(ctx, topic)
		if err != nil {
			t.Fatal(err)
		}
		if !topics.Has(topic) || topics[topic].Err != nil {
			return
		}
	}
}

// TestRetentionOvertakesReading deletes letters that were not read yet.
func TestRetentionOvertakesReading(t *testing.T) {
	t.Parallel()
	kafkatest.Each(t, func(t *testing.T, b *kafkatest.Broker) {
		topic := b.Topic(t, 1, nil)
		produce(t, b, numbered(topic, 0, 10)...)
		first := newSource(t, b, func(c *Config) { c.MaxRecords = 3 }, topic)
		read(t, first, 3)
		first.Close()
		offsets := kadm.Offsets{}
		offsets.AddOffset(topic, 0, 8, -1)
		if deleted, err := b.Admin(t).DeleteRecords(within(t, patience), offsets); err != nil || deleted.Error() != nil {
			t.Fatal(err, deleted.Error())
		}
		registry := prometheus.NewRegistry()
		second := newSource(t, b, func(c *Config) { c.Registerer = registry }, topic)
		got, errs := read(t, second, 2)
		wantOffsets(t, got, 8, 9)
		if len(errs) != 1 || !strings.Contains(errs[0].Error(), "offsets 3 to 7 were deleted before they were read") {
			t.Errorf("errors %v", errs)
		}
		if missed := testutil.ToFloat64(second.missed); missed != 5 {
			t.Errorf("%v missed", missed)
		}
		if n, err := testutil.GatherAndCount(registry, "postrider_collector_missed_offsets_total"); n != 1 || err != nil {
			t.Errorf("%d metrics, %v", n, err)
		}
		if _, err := NewSource(Config{Brokers: b.Addrs, Topics: []string{topic}, Registerer: registry}); err == nil {
			t.Error("a registry takes the metric of a second source")
		}
	})
}

// TestRetentionEmptiesTheTopic deletes all letters before they were read: no record comes that shows it, and the lag is 0.
// Only the member that has the partition counts it, once.
func TestRetentionEmptiesTheTopic(t *testing.T) {
	t.Parallel()
	kafkatest.Each(t, func(t *testing.T, b *kafkatest.Broker) {
		topic := b.Topic(t, 1, nil)
		produce(t, b, numbered(topic, 0, 10)...)
		first := newSource(t, b, func(c *Config) { c.MaxRecords = 3 }, topic)
		read(t, first, 3)
		if _, err := first.Lag(within(t, patience)); err != nil || testutil.ToFloat64(first.missed) != 0 {
			t.Errorf("before anything was deleted: %v missed, %v", testutil.ToFloat64(first.missed), err)
		}
		first.Close()
		gone := kadm.Offsets{}
		gone.AddOffset(topic, 0, 10, -1)
		if deleted, err := b.Admin(t).DeleteRecords(within(t, patience), gone); err != nil || deleted.Error() != nil {
			t.Fatal(err, deleted.Error())
		}
		second := newSource(t, b, nil, topic)
		ctx, stop := context.WithCancel(within(t, patience))
		polled := make(chan struct{})
		go func() { // joins the group
			defer close(polled)
			for ctx.Err() == nil {
				_, _ = second.Poll(ctx)
			}
		}()
		for testutil.ToFloat64(second.missed) == 0 {
			if lag, err := second.Lag(ctx); ctx.Err() != nil {
				t.Fatalf("nothing is counted: lag %v, %v", lag, err)
			}
		}
		if lag, err := second.Lag(ctx); err != nil || lag[topic] != 0 {
			t.Errorf("lag %v, %v", lag, err)
		}
		if missed := testutil.ToFloat64(second.missed); missed != 7 {
			t.Errorf("%v missed, want 7", missed)
		}
		stop()
		<-polled
		produce(t, b, numbered(topic, 0, 1)...)
		if got, errs := read(t, second, 1); len(errs) > 0 || got[0].Offset != 10 {
			t.Errorf("read %v, errors %v", offsets(got), errs)
		}
		if missed := testutil.ToFloat64(second.missed); missed != 7 {
			t.Errorf("%v missed after a letter came, want 7", missed)
		}
	})
}

// TestErrorOfOnePartition takes one partition away; the others go on.
func TestErrorOfOnePartition(t *testing.T) {
	t.Parallel()
	b := kafkatest.Kfake(t)
	topic := b.Topic(t, 2, nil)
	fault := b.Cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Fetch}, Topic: topic, Partitions: []int32{0}, Err: kerr.TopicAuthorizationFailed, Count: -1})
	produce(t, b, append(numbered(topic, 0, 4), numbered(topic, 1, 6)...)...)
	s := newSource(t, b, nil, topic)
	got, errs := read(t, s, 6)
	for _, r := range got {
		if r.Partition != 1 {
			t.Fatalf("read %+v", r)
		}
	}
	for len(errs) == 0 {
		_, err := s.Poll(within(t, patience))
		errs = append(errs, err)
	}
	if err := errors.Join(errs...); !errors.Is(err, kerr.TopicAuthorizationFailed) || !strings.Contains(err.Error(), topic+", partition 0") {
		t.Errorf("errors %v", errs)
	}
	fault.Remove()
	got, _ = read(t, s, 4)
	wantOffsets(t, got, 0, 3)
}

// TestPassingErrorsAreNone has the brokers answer with what the client mends by itself.
func TestPassingErrorsAreNone(t *testing.T) {
	t.Parallel()
	for _, passing := range []*kerr.Error{kerr.NotLeaderForPartition, kerr.LeaderNotAvailable, kerr.KafkaStorageError, kerr.UnknownTopicOrPartition} {
		t.Run(passing.Message, func(t *testing.T) {
			t.Parallel()
			b := kafkatest.Kfake(t)
			topic := b.Topic(t, 1, nil)
			b.Cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Fetch}, Topic: topic, Err: passing, Count: 3})
			produce(t, b, numbered(topic, 0, 2)...)
			if _, errs := read(t, newSource(t, b, nil, topic), 2); len(errs) > 0 {
				t.Errorf("errors %v", errs)
			}
		})
	}
}

func TestCommitFails(t *testing.T) {
	t.Parallel()
	b := kafkatest.Kfake(t)
	topic := b.Topic(t, 1, nil)
	produce(t, b, numbered(topic, 0, 4)...)
	s := newSource(t, b, func(c *Config) { c.MaxRecords = 2 }, topic)
	got, err := s.Poll(within(t, patience))
	if err != nil {
		t.Fatal(err)
	}
	b.Cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.OffsetCommit}, Err: kerr.GroupAuthorizationFailed})
	if err := s.Commit(within(t, patience), got); !errors.Is(err, kerr.GroupAuthorizationFailed) {
		t.Errorf("error %v", err)
	}
	got, _ = read(t, s, 2)
	wantOffsets(t, got, 2, 3)
	s.Close()
	nothing(t, newSource(t, b, nil, topic)) // the second commit covered the first
}

// TestGroupErrors does not let the source join its group at first.
func TestGroupErrors(t *testing.T) {
	t.Parallel()
	b := kafkatest.Kfake(t)
	topic := b.Topic(t, 1, nil)
	produce(t, b, numbered(topic, 0, 1)...)
	fault := b.Cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.JoinGroup}, Err: kerr.GroupAuthorizationFailed, Count: -1})
	s := newSource(t, b, nil, topic)
	_, err := s.Poll(within(t, patience))
	if !errors.Is(err, kerr.GroupAuthorizationFailed) {
		t.Errorf("error %v", err)
	}
	fault.Remove()
	read(t, s, 1)
}

// TestHoldsTheGroupWhileRecordsAreInHand lets a second member join between Poll and Commit: it gets
// partitions only afterwards, so nothing is read twice.
func TestHoldsTheGroupWhileRecordsAreInHand(t *testing.T) {
	t.Parallel()
	kafkatest.Each(t, func(t *testing.T, b *kafkatest.Broker) {
		topic := b.Topic(t, 4, nil)
		var records []dlq.Record
		for p := range int32(4) {
			records = append(records, numbered(topic, p, 5)...)
		}
		produce(t, b, records...)
		first := newSource(t, b, func(c *Config) { c.MaxRecords = 20 }, topic)
		var inHand []dlq.Record
		for len(inHand) < 20 { // without a commit in between
			got, err := first.Poll(within(t, patience))
			if err != nil {
				t.Fatal(err)
			}
			inHand = append(inHand, got...)
		}
		second := newSource(t, b, nil, topic)
		nothing(t, second)
		if err := first.Commit(within(t, patience), inHand); err != nil {
			t.Fatal(err)
		}
		nothing(t, second)
	})
}

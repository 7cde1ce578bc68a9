package kafka

import (
	"bytes"
	"context"
	"errors"
	"reflect"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/postrider/postrider/internal/dlq"
	"github.com/postrider/postrider/internal/testenv/kafkatest"
	"github.com/postrider/postrider/message"
)

func TestReadsExactBytes(t *testing.T) {
	t.Parallel()
	kafkatest.Each(t, func(t *testing.T, b *kafkatest.Broker) {
		topic := b.Topic(t, 1, nil)
		at := time.UnixMilli(1700000000123)
		var want []dlq.Record
		for i, v := range [][]byte{nil, {}, {0}, []byte("text"), bytes.Repeat([]byte{0xff}, 100_000)} {
			want = append(want, dlq.Record{Topic: topic, Offset: int64(i), Timestamp: at, Key: v, Value: v,
				Headers: []message.Header{{Name: "h", Value: v}, {Name: "", Value: v}, {Name: "h", Value: []byte("again")}}})
		}
		produce(t, b, want...)
		got, errs := read(t, newSource(t, b, nil, topic), len(want))
		if len(errs) > 0 {
			t.Errorf("errors %v", errs)
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("read\n got %.2000v\nwant %.2000v", got, want)
		}
	})
}

func TestResumesBehindTheCommit(t *testing.T) {
	t.Parallel()
	kafkatest.Each(t, func(t *testing.T, b *kafkatest.Broker) {
		topic := b.Topic(t, 1, nil)
		produce(t, b, numbered(topic, 0, 10)...)
		three := func(c *Config) { c.MaxRecords = 3 }

		first := newSource(t, b, three, topic)
		got, _ := read(t, first, 3)
		wantOffsets(t, got, 0, 2)
		uncommitted, err := first.Poll(within(t, patience))
		if err != nil {
			t.Fatal(err)
		}
		wantOffsets(t, uncommitted, 3, 5)
		first.Close() // with records in hand
		first.Close()

		second := newSource(t, b, three, topic)
		got, _ = read(t, second, 7)
		wantOffsets(t, got, 3, 9)
		second.Close()

		third := newSource(t, b, three, topic)
		nothing(t, third)
		produce(t, b, numbered(topic, 0, 1)...)
		got, _ = read(t, third, 1)
		wantOffsets(t, got, 10, 10)
	})
}

// TestWaitsForMissingTopics begins with one topic of two; the other is created later.
func TestWaitsForMissingTopics(t *testing.T) {
	t.Parallel()
	kafkatest.Each(t, func(t *testing.T, b *kafkatest.Broker) {
		there := b.Topic(t, 1, nil)
		missing := there + "-later"
		produce(t, b, numbered(there, 0, 1)...)
		s := newSource(t, b, nil, there, missing)
		read(t, s, 1)
		nothing(t, s)
		checkSoon(t, b, s, missing)
	})
}

// TestWaitsForTheOnlyTopic has nothing to read at first, and so no group to be a member of.
func TestWaitsForTheOnlyTopic(t *testing.T) {
	t.Parallel()
	kafkatest.Each(t, func(t *testing.T, b *kafkatest.Broker) {
		topic := b.Topic(t, 1, nil) + "-later"
		s := newSource(t, b, nil, topic)
		nothing(t, s)
		if topics, err := b.Admin(t).ListTopics(t.Context(), topic); err != nil || topics.Has(topic) && topics[topic].Err == nil {
			t.Errorf("waiting created the topic: %v, %v", topics, err)
		}
		checkSoon(t, b, s, topic)
	})
}

func checkSoon(t *testing.T, b *kafkatest.Broker, s *Source, topic string) {
	t.Helper()
	b.CreateTopic(t, topic, 2, nil)
	produce(t, b, append(numbered(topic, 0, 1), numbered(topic, 1, 1)...)...)
	start := time.Now()
	read(t, s, 2)
	took := time.Since(start)
	t.Logf("read %v after the topic was there", took)
	if b.Cluster != nil && took > 2*time.Second { // a real broker adds its own pace
		t.Errorf("took %v, want less than 2 s", took)
	}
}

func TestReadsOnlyCommittedTransactions(t *testing.T) {
	t.Parallel()
	kafkatest.Each(t, func(t *testing.T, b *kafkatest.Broker) {
		topic := b.Topic(t, 1, nil)
		client := b.Client(t, kgo.TransactionalID(topic), kgo.DefaultProduceTopic(topic))
		ctx := within(t, patience)
		for i, end := range []kgo.TransactionEndTry{kgo.TryAbort, kgo.TryCommit, kgo.TryAbort, kgo.TryCommit} {
			if err := client.BeginTransaction(); err != nil {
				t.Fatal(err)
			}
			if err := client.ProduceSync(ctx, &kgo.Record{Value: []byte{byte(i)}}).FirstErr(); err != nil {
				t.Fatal(err)
			}
			if err := client.EndTransaction(ctx, end); err != nil {
				t.Fatal(err)
			}
		}
		s := newSource(t, b, nil, topic)
		got, errs := read(t, s, 2)
		if len(got) != 2 || got[0].Value[0] != 1 || got[1].Value[0] != 3 || len(errs) > 0 {
			t.Errorf("read %v, errors %v", got, errs)
		}
		nothing(t, s)
	})
}

func TestPing(t *testing.T) {
	t.Parallel()
	b := kafkatest.Kfake(t)
	if err := newSource(t, b, nil, "t").Ping(within(t, patience)); err != nil {
		t.Error(err)
	}
	dead := newSource(t, &kafkatest.Broker{Addrs: []string{"127.0.0.1:1"}}, nil, "t")
	if err := dead.Ping(within(t, 300*time.Millisecond)); err == nil {
		t.Error("a broker that is not there answers")
	}
}

func TestCloseWithoutBroker(t *testing.T) {
	t.Parallel()
	s := newSource(t, &kafkatest.Broker{Addrs: []string{"127.0.0.1:1"}}, nil, "t")
	if _, err := s.Poll(within(t, 200*time.Millisecond)); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error %v", err)
	}
	closes(t, s)
	if _, err := s.Poll(within(t, patience)); !errors.Is(err, kgo.ErrClientClosed) {
		t.Errorf("a closed source: %v", err)
	}
}

// closes fails the test when closing a source does not end.
func closes(t *testing.T, s *Source) {
	t.Helper()
	closed := make(chan struct{})
	go func() { defer close(closed); s.Close() }()
	select {
	case <-closed:
	case <-time.After(patience):
		t.Fatal("Close does not return")
	}
}

func TestNewSource(t *testing.T) {
	t.Parallel()
	for name, cfg := range map[string]Config{
		"no brokers":       {Topics: []string{"t"}},
		"no topics":        {Brokers: []string{"127.0.0.1:1"}},
		"bad topic":        {Brokers: []string{"127.0.0.1:1"}, Topics: []string{"a b"}},
		"negative records": {Brokers: []string{"127.0.0.1:1"}, Topics: []string{"t"}, MaxRecords: -1},
		"bad option":       {Brokers: []string{"127.0.0.1:1"}, Topics: []string{"t"}, Options: []kgo.Opt{kgo.MetadataMaxAge(time.Nanosecond)}},
	} {
		if _, err := NewSource(cfg); err == nil {
			t.Errorf("%s is accepted", name)
		}
	}
}

package kafka

import (
	"bytes"
	"context"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/postrider/postrider/internal/dlq"
	"github.com/postrider/postrider/internal/dlq/dlqtest"
	"github.com/postrider/postrider/internal/testenv/kafkatest"
	"github.com/postrider/postrider/message"
)

func newOriginals(t *testing.T, b *kafkatest.Broker, max int) *Originals {
	t.Helper()
	o, err := NewOriginals(OriginalsConfig{Brokers: b.Addrs, MaxBytes: max})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(o.Close)
	return o
}

// states asks for places.
func states(t *testing.T, o *Originals, places ...dlq.Place) (all []dlq.OriginalState) {
	t.Helper()
	for _, answer := range o.Fetch(within(t, patience), places) {
		all = append(all, answer.State)
	}
	return all
}

// TestFetchesExactBytes asks for records in batches of several, compressed ones too, each alone.
func TestFetchesExactBytes(t *testing.T) {
	t.Parallel()
	kafkatest.Each(t, func(t *testing.T, b *kafkatest.Broker) {
		topic := b.Topic(t, 2, map[string]string{"retention.ms": "3600000"})
		var want []dlq.Record
		for i, v := range [][]byte{nil, {}, {0}, []byte("text"), bytes.Repeat([]byte{0xff}, 100_000)} {
			want = append(want, dlq.Record{Topic: topic, Partition: 1, Offset: int64(i), Timestamp: time.UnixMilli(time.Now().UnixMilli()), Key: v, Value: v,
				Headers: []message.Header{{Name: "h", Value: v}, {Name: "h", Value: []byte("again")}}})
		}
		produce(t, b, want[:2]...)
		produce(t, b, want[2:]...)
		places := []dlq.Place{{Topic: topic, Partition: 1, Offset: 4}, {Topic: topic, Partition: 1, Offset: 0}, {Topic: topic, Partition: 1, Offset: 3},
			{Topic: topic, Partition: 1, Offset: 1}, {Topic: topic, Partition: 1, Offset: 2}}
		for i, got := range newOriginals(t, b, 0).Fetch(within(t, patience), places) {
			r := want[places[i].Offset]
			if got.State != dlq.OriginalFetched || !reflect.DeepEqual(got.Key, r.Key) || !reflect.DeepEqual(got.Value, r.Value) ||
				!reflect.DeepEqual(got.Headers, r.Headers) || !got.Timestamp.Equal(r.Timestamp) || got.Retention != time.Hour {
				t.Errorf("offset %d: %s, key %.20q, value %.20q, headers %.100v, kept %v, %v", places[i].Offset, got.State, got.Key, got.Value, got.Headers, got.Retention, got.Err)
			}
		}
	})
}

// TestTellsApartWhatIsNotThere asks for records that were deleted, compacted or never written, for a marker, and for
// topics and partitions that are not there.
func TestTellsApartWhatIsNotThere(t *testing.T) {
	t.Parallel()
	kafkatest.Each(t, func(t *testing.T, b *kafkatest.Broker) {
		topic := b.Topic(t, 1, map[string]string{"retention.ms": "-1"})
		client := b.Client(t, kgo.TransactionalID(topic), kgo.DefaultProduceTopic(topic))
		ctx := within(t, patience)
		for i, end := range []kgo.TransactionEndTry{kgo.TryCommit, kgo.TryAbort} { // record 0, marker 1, record 2, marker 3
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
		produce(t, b, numbered(topic, 0, 6)...) // 4 to 9
		o := newOriginals(t, b, 0)
		at := func(offset int64) dlq.Place { return dlq.Place{Topic: topic, Offset: offset} }
		if got, want := states(t, o, at(0), at(1), at(2), at(3), at(4), at(9), at(10), at(99), dlq.Place{Topic: topic, Partition: 7}, dlq.Place{Topic: topic + "-none"}),
			[]dlq.OriginalState{dlq.OriginalFetched, dlq.OriginalMarker, dlq.OriginalFetched, dlq.OriginalMarker, dlq.OriginalFetched, dlq.OriginalFetched,
				dlq.OriginalAbsent, dlq.OriginalAbsent, dlq.OriginalAbsent, dlq.OriginalNoTopic}; !slices.Equal(got, want) {
			t.Errorf("got  %v\nwant %v", got, want)
		}
		if kept := o.Fetch(ctx, []dlq.Place{at(4)})[0].Retention; kept >= 0 {
			t.Errorf("kept for %v, want for ever", kept)
		}
		start := kadm.Offsets{}
		start.AddOffset(topic, 0, 6, -1)
		if deleted, err := b.Admin(t).DeleteRecords(ctx, start); err != nil || deleted.Error() != nil {
			t.Fatal(err, deleted.Error())
		}
		if got, want := states(t, o, at(0), at(5), at(6), at(10)), []dlq.OriginalState{dlq.OriginalDeleted, dlq.OriginalDeleted, dlq.OriginalFetched, dlq.OriginalAbsent}; !slices.Equal(got, want) {
			t.Errorf("after deleting: %v, want %v", got, want)
		}
	})
}

func TestFetchCompacted(t *testing.T) {
	t.Parallel()
	b := kafkatest.Kfake(t)
	topic := b.Topic(t, 1, map[string]string{"cleanup.policy": "compact", "retention.ms": "1000"})
	for i, key := range []byte{9, 0, 1, 0, 1, 2} { // the first stays, so that the log begins with it
		produce(t, b, dlq.Record{Topic: topic, Key: []byte{key}, Value: []byte{byte(i)}})
	}
	b.Cluster.Compact()
	o := newOriginals(t, b, 0)
	got := states(t, o, dlq.Place{Topic: topic, Offset: 1}, dlq.Place{Topic: topic, Offset: 2}, dlq.Place{Topic: topic, Offset: 5})
	if want := []dlq.OriginalState{dlq.OriginalCompacted, dlq.OriginalCompacted, dlq.OriginalFetched}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	if kept := o.Fetch(within(t, patience), []dlq.Place{{Topic: topic, Offset: 5}})[0].Retention; kept >= 0 {
		t.Errorf("a topic that only compacts keeps its records for %v", kept)
	}
}

// TestFetchFaults answers with errors of the broker.
func TestFetchFaults(t *testing.T) {
	t.Parallel()
	for err, want := range map[*kerr.Error]dlq.OriginalState{
		kerr.NotLeaderForPartition:    dlq.OriginalNoLeader,
		kerr.LeaderNotAvailable:       dlq.OriginalNoLeader,
		kerr.TopicAuthorizationFailed: dlq.OriginalRefused,
		kerr.UnknownTopicID:           dlq.OriginalNoTopic,
		kerr.UnknownServerError:       dlq.OriginalUnanswered,
	} {
		b := kafkatest.Kfake(t)
		topic := b.Topic(t, 1, nil)
		produce(t, b, numbered(topic, 0, 1)...)
		b.Cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Fetch}, Topic: topic, Err: err, Count: 1})
		o := newOriginals(t, b, 0)
		got := states(t, o, dlq.Place{Topic: topic})
		if !slices.Equal(got, []dlq.OriginalState{want}) {
			t.Errorf("%s: %v, want %v", err.Message, got, want)
		}
		if again := states(t, o, dlq.Place{Topic: topic}); again[0] != dlq.OriginalFetched {
			t.Errorf("after %s: %v", err.Message, again)
		}
	}
}

func TestFetchIsBounded(t *testing.T) {
	t.Parallel()
	b := kafkatest.Kfake(t)
	topic := b.Topic(t, 1, nil)
	produce(t, b, dlq.Record{Topic: topic, Value: make([]byte, 1000)}, dlq.Record{Topic: topic, Value: make([]byte, 1000)})
	place := dlq.Place{Topic: topic, Offset: 1}
	if got := states(t, newOriginals(t, b, 1500), place, place, place); !slices.Equal(got, []dlq.OriginalState{dlq.OriginalFetched, dlq.OriginalFetched, dlq.OriginalUnanswered}) {
		t.Errorf("bytes: %v", got)
	}
	b.Cluster.ControlKey(int16(kmsg.Fetch), func(kmsg.Request) (kmsg.Response, error, bool) {
		b.Cluster.KeepControl()
		b.Cluster.SleepControl(func() { <-t.Context().Done() })
		return nil, nil, false
	})
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	for _, got := range newOriginals(t, b, 0).Fetch(ctx, []dlq.Place{place, place}) {
		if got.State != dlq.OriginalUnanswered || got.Err == nil {
			t.Errorf("time: %v, %v", got.State, got.Err)
		}
	}
	dead := newOriginals(t, &kafkatest.Broker{Addrs: []string{"127.0.0.1:1"}}, 0)
	ctx, cancel = context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if got := dead.Fetch(ctx, []dlq.Place{place}); got[0].State != dlq.OriginalUnanswered {
		t.Errorf("no broker: %v", got[0].State)
	}
}

func TestNewOriginals(t *testing.T) {
	t.Parallel()
	for says, cfg := range map[string]OriginalsConfig{"Brokers": {}, "MaxBytes": {Brokers: []string{"127.0.0.1:1"}, MaxBytes: -1}} {
		if _, err := NewOriginals(cfg); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%v, want %q", err, says)
		}
	}
}

// TestCollectsPointers collects letters of a share group that only point to their records.
func TestCollectsPointers(t *testing.T) {
	t.Parallel()
	kafkatest.Each(t, func(t *testing.T, b *kafkatest.Broker) {
		topic := b.Topic(t, 1, map[string]string{"retention.ms": "86400000"})
		dead := b.Topic(t, 1, nil)
		at := time.UnixMilli(time.Now().UnixMilli())
		produce(t, b, dlq.Record{Topic: topic, Key: []byte("k"), Value: []byte("the original"), Timestamp: at, Headers: []message.Header{{Name: "own", Value: []byte("h")}}})
		pointer := func(offset string) dlq.Record {
			r := dlq.Record{Topic: dead}
			for _, h := range [][2]string{{"topic", topic}, {"partition", "0"}, {"offset", offset}, {"group", "shippers"}} {
				r.Headers = append(r.Headers, message.Header{Name: "__dlq.errors." + h[0], Value: []byte(h[1])})
			}
			return r
		}
		produce(t, b, pointer("0"), pointer("1"))
		store := dlqtest.NewRecorder()
		collector, err := dlq.NewCollector(dlq.Config{Source: newSource(t, b, nil, dead), Letters: store, Originals: newOriginals(t, b, 0)})
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- collector.Run(ctx) }()
		untilCommitted(t, b, dead, 2)
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
		found := map[dlq.OriginalState]dlq.Letter{}
		for _, l := range store.Letters() {
			found[l.OriginalRecord] = l
			if l.OriginalRecord == dlq.OriginalFetched && !strings.Contains(string(l.Metadata), at.Add(24*time.Hour).UTC().Format(time.RFC3339Nano)) {
				t.Errorf("metadata %s", l.Metadata)
			}
		}
		there, absent := found[dlq.OriginalFetched], found[dlq.OriginalAbsent]
		if string(there.Payload) != "the original" || string(there.Key) != "k" || there.PayloadKind != dlq.Inline || len(there.Headers) != 1 {
			t.Errorf("fetched %+v", there)
		}
		if absent.PayloadKind != dlq.Reference || absent.Payload != nil {
			t.Errorf("absent %+v", absent)
		}
	})
}

package kafka

import (
	"context"
	"encoding/binary"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/postrider/postrider/internal/testenv/kafkatest"

	relaykafka "github.com/postrider/postrider/internal/relay/kafka"
	"github.com/postrider/postrider/internal/replay"
)

// patience bounds what a test waits for; it passes long before.
const patience = 3 * time.Minute

func within(t *testing.T, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

// newReplay is a replay on a broker, ended with the test.
func newReplay(t *testing.T, b *kafkatest.Broker, o replay.Options, batch int, observe func(replay.Progress)) *replay.Replay {
	t.Helper()
	dial := b.Client(t).OptValue(kgo.Dialer).(func(context.Context, string, string) (net.Conn, error)) // virtual brokers are in no real network
	cluster, err := New(Config{Brokers: b.Addrs, MaxRecords: batch, Options: []kgo.Opt{kgo.Dialer(dial)}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	publisher, err := relaykafka.NewPublisher(relaykafka.Config{Brokers: b.Addrs, Options: []kgo.Opt{kgo.Dialer(dial)}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(publisher.Close)
	r, err := replay.New(replay.Config{Cluster: cluster, Publisher: publisher, Options: o, Batch: batch, Observer: observe})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// replayAll plans and runs.
func replayAll(t *testing.T, b *kafkatest.Broker, o replay.Options) (replay.Plan, replay.Result, error) {
	t.Helper()
	ctx := within(t, patience)
	r := newReplay(t, b, o, 50, nil)
	p, err := r.Plan(ctx)
	if err != nil {
		return p, replay.Result{}, err
	}
	res, err := r.Run(ctx, p)
	return p, res, err
}

// written is when the first letter was: a broker deletes records older than a week, half a minute after its start.
var written = time.Now().Add(-time.Hour).Truncate(time.Second)

// letter is a dead letter as Spring Kafka writes it about a record of origin.
func letter(topic, origin string, partition int32, n int, key, value []byte) *kgo.Record {
	h := func(name string, value []byte) kgo.RecordHeader { return kgo.RecordHeader{Key: name, Value: value} }
	return &kgo.Record{Topic: topic, Partition: partition, Key: key, Value: value, Timestamp: written.Add(time.Duration(n) * time.Millisecond),
		Headers: []kgo.RecordHeader{
			h("own", []byte{0, 0xff, '\x1b'}), h("own", []byte{}), h("null", nil), h("", []byte("nameless")),
			h("kafka_dlt-original-topic", []byte(origin)),
			h("kafka_dlt-original-partition", binary.BigEndian.AppendUint32(nil, uint32(partition))),
			h("kafka_dlt-original-offset", binary.BigEndian.AppendUint64(nil, uint64(n))),
			h("kafka_dlt-exception-message", []byte("it failed\x1b[2J\x00\xff")),
		}}
}

// letters are n letters with keys that repeat, over partitions.
func letters(topic, origin string, partitions, n int) []*kgo.Record {
	rs := make([]*kgo.Record, n)
	for i := range rs {
		rs[i] = letter(topic, origin, int32(i%partitions), i, fmt.Append(nil, "k", i%(7*partitions)), fmt.Append(nil, i))
	}
	return rs
}

func produce(t *testing.T, b *kafkatest.Broker, rs ...*kgo.Record) {
	t.Helper()
	client := b.Client(t, kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err := client.ProduceSync(within(t, patience), rs...).FirstErr(); err != nil {
		t.Fatal(err)
	}
}

// shown is a record as one line, without its replay's and event's ids.
func shown(r *kgo.Record) string {
	line := fmt.Sprintf("%q %v %q %v", r.Key, r.Key == nil, r.Value, r.Value == nil)
	for _, h := range r.Headers {
		if h.Key != "replay_id" && h.Key != "postrider-event-id" {
			line += fmt.Sprintf(" %q=%q %v", h.Key, h.Value, h.Value == nil)
		}
	}
	return line
}

func header(r *kgo.Record, name string) string {
	for _, h := range slices.Backward(r.Headers) {
		if h.Key == name {
			return string(h.Value)
		}
	}
	return ""
}

func wantError(t *testing.T, err error, parts ...string) {
	t.Helper()
	if err == nil {
		t.Errorf("no error, want %q", parts)
		return
	}
	for _, part := range parts {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%q is not in: %v", part, err)
		}
	}
}

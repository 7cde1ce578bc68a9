package kafka

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"pgregory.net/rapid"

	"github.com/postrider/postrider/internal/relay"
	"github.com/postrider/postrider/internal/testenv/kafkatest"
	"github.com/postrider/postrider/message"
)

// TestAnswerOrFlight: the client's answers come while the wait ends. Each record has its outcome or a flight that ends,
// never neither, and no partition stays stuck.
func TestAnswerOrFlight(t *testing.T) {
	t.Parallel()
	p := newPublisher(t, kafkatest.Kfake(t), nil)
	bad := errors.New("refused")
	for range 50 {
		ms := messages("topic", 100, "k")
		send := make([]int, len(ms))
		for i := range send {
			send[i] = i
		}
		b := newBatch(1, ms, send)
		for n := range b.refs {
			b.refs[n].partitions = 1
		}
		var wg sync.WaitGroup
		wg.Go(func() {
			for n := range b.records {
				var err error
				if n%10 == 0 {
					err = bad
				}
				p.answer(nil, b, &b.records[n], err)
			}
		})
		out := make([]relay.Outcome, len(ms))
		if p.read(b, ms, send, out) {
			t.Fatal("the client still flushes")
		}
		wg.Wait()
		<-b.done
		flights := p.flightsOf(ms)
		for n := range ms {
			want := error(nil)
			if n%10 == 0 {
				want = bad
			}
			if f := flights[n]; f != nil {
				if !final(f) || f.err != want || out[n].Code != CodeUnknownOutcome {
					t.Errorf("flight %d: final %t, %v; the outcome was %+v", n, final(f), f.err, out[n])
				}
				p.forget(ms[n].ID)
			} else if (out[n].Class == relay.Delivered) != (want == nil) {
				t.Errorf("outcome %d is %+v, want it for %v", n, out[n], want)
			}
			if v := b.records[n].Value; v != nil {
				t.Errorf("the client is done with record %d, which has its payload", n)
			}
		}
		if len(p.stuck.topics) > 0 {
			t.Fatalf("stuck: %v", p.stuck.topics)
		}
	}
}

// TestFailuresAmongMany: of a large batch one partition is silent, some records are refused, and one topic is missing.
// Records that went without trouble are known as delivered, and refused records are not in the way of other keys.
func TestFailuresAmongMany(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := kafkatest.Virtual(t)
		topic, silent := b.Topic(t, 6, nil), b.Topic(t, 1, nil)
		p := newPublisher(t, b, nil)
		fine := messages(topic, 2, keys(500)...)
		wantAll(t, publish(t, p, fine...), relay.Delivered)

		ms := append(messages(topic, 4, keys(500)...), messages("missing", 3, "m")...)
		for _, bad := range []int{7, 700} { // the first of k7, the second of k200
			refuse(b, topic, 6, string(ms[bad].Value)+"!", kerr.InvalidRecord)
			ms[bad].Value = append(ms[bad].Value, '!')
		}
		out := publish(t, p, ms...)
		wantAll(t, out, relay.Delivered, 7, 507, 1007, 1507, 700, 1200, 1700, 2000, 2001, 2002)
		wantOutcomes(t, []relay.Outcome{out[7], out[507], out[700], out[1200], out[2000]}, "permanent INVALID_RECORD", "withheld",
			"permanent INVALID_RECORD", "withheld", "route UNKNOWN_TOPIC_OR_PARTITION")

		f := fault(b, kmsg.Produce, silent, kerr.NotLeaderForPartition, 0)
		late := append(messages(topic, 1, keys(200)...), messages(silent, 3, "s")...)
		for i := range late {
			late[i].Value = append(late[i].Value, "-late"...)
		}
		out = publish(t, p, late...)
		wantAll(t, out, relay.Delivered, 200, 201, 202)
		wantOutcomes(t, out[200:201], "infrastructure UNKNOWN_OUTCOME")
		f.Remove()
		wantAll(t, publish(t, p, fine[0]), relay.Delivered) // what failed did not change what delivered batches share
	})
}

// TestSharedOutcomes: batches that simply went share their outcomes, whatever their sizes.
func TestSharedOutcomes(t *testing.T) {
	t.Parallel()
	var p Publisher
	for _, n := range []int{0, 3, 1, 100, 5, 100, 0} {
		out := p.allDelivered(n)
		if len(out) != n {
			t.Errorf("%d outcomes, want %d", len(out), n)
		}
		wantAll(t, out, relay.Delivered)
	}
}

// foreign puts a context in the place of a record's own, which a hook may not.
type foreign struct{}

func (foreign) OnProduceRecordBuffered(r *kgo.Record) { r.Context = context.Background() }

// TestForeignContexts: if a hook takes our context away, no record is sent. Each message has an outcome all the same,
// and nothing waits for ever.
func TestForeignContexts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := kafkatest.Virtual(t)
		topic := b.Topic(t, 2, nil)
		p := newPublisher(t, b, func(c *Config) { c.Options = append(c.Options, kgo.WithHooks(foreign{})) })
		wantAll(t, publish(t, p, messages(topic, 3, "a", "b")...), relay.Infrastructure)
		wantTopic(t, b, topic)
	})
}

// adding is a hook that adds a header, as hooks that make spans do.
type adding struct{}

func (adding) OnProduceRecordBuffered(r *kgo.Record) {
	r.Headers = append(r.Headers, kgo.RecordHeader{Key: "added", Value: r.Value})
}

// TestHeadersOfHooks: the headers of a batch are in one piece. A hook that adds one does not write over the next
// record's.
func TestHeadersOfHooks(t *testing.T) {
	t.Parallel()
	b := kafkatest.Kfake(t)
	topic := b.Topic(t, 1, nil)
	p := newPublisher(t, b, func(c *Config) { c.Options = append(c.Options, kgo.WithHooks(adding{})) })
	ms := messages(topic, 5, "k")
	var want []string
	for i := range ms {
		for n := range i { // none, one, two, …
			ms[i].Headers = append(ms[i].Headers, message.Header{Name: fmt.Sprint("own", n), Value: ms[i].Value})
		}
		r := record(&ms[i])
		adding{}.OnProduceRecordBuffered(r)
		want = append(want, showRecord(r.Key, r.Value, r.Headers))
	}
	wantAll(t, publish(t, p, ms...), relay.Delivered)
	var got []string
	for _, r := range b.ReadAll(t, topic, len(ms)) {
		got = append(got, showRecord(r.Key, r.Value, r.Headers))
	}
	if !slices.Equal(got, want) {
		t.Errorf("the topic holds\n%q\nwant\n%q", got, want)
	}
}

// TestSurelyFits: the quick look lets nothing pass that is too large.
func TestSurelyFits(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		m := drawMessage(rt, "topic", rapid.IntRange(12<<10, 24<<10).Draw(rt, "size"))
		size := encodedSize(&m)
		limit := size + rapid.IntRange(-2000, 2000).Draw(rt, "limit")
		if surelyFits(&m, limit) && size > limit {
			rt.Errorf("%d bytes are said to fit into %d", size, limit)
		}
	})
}

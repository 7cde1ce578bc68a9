package kafka

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/postrider/postrider/internal/relay"
	"github.com/postrider/postrider/internal/testenv/history"
	"github.com/postrider/postrider/internal/testenv/kafkatest"
)

// newPublisher returns a publisher for the broker, closed when the test ends. change may be nil.
func newPublisher(t testing.TB, b *kafkatest.Broker, change func(*Config)) *Publisher {
	t.Helper()
	cfg := Config{Brokers: b.Addrs, Options: []kgo.Opt{kgo.Dialer(dialer(t, b))}}
	if change != nil {
		change(&cfg)
	}
	p, err := NewPublisher(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p
}

type dial = func(ctx context.Context, network, addr string) (net.Conn, error)

// dialer is how clients of this broker connect; virtual brokers are in no real network.
func dialer(t testing.TB, b *kafkatest.Broker) dial {
	return b.Client(t).OptValue(kgo.Dialer).(dial)
}

// message makes a message that is known by its value. An empty key is no key.
func messageOf(topic, key, value string) relay.Message {
	m := relay.Message{ID: relay.MessageID{EventID: uuid.New()}, Topic: topic, Value: []byte(value)}
	if key != "" {
		m.Key = []byte(key)
	}
	return m
}

// messages makes n messages of each key, the keys taking turns, with values like k7-00042.
func messages(topic string, n int, keys ...string) []relay.Message {
	var ms []relay.Message
	for i := range n {
		for _, k := range keys {
			ms = append(ms, messageOf(topic, k, fmt.Sprintf("%s-%05d", k, i)))
		}
	}
	return ms
}

func keys(n int) []string {
	var ks []string
	for i := range n {
		ks = append(ks, fmt.Sprintf("k%d", i))
	}
	return ks
}

// publishFor publishes with a bound. On a real network the bound is only there to end a broken test.
func publishFor(t testing.TB, p *Publisher, bound time.Duration, ms ...relay.Message) []relay.Outcome {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), bound)
	defer cancel()
	out := p.Publish(ctx, ms)
	if len(out) != len(ms) {
		t.Fatalf("%d outcomes for %d messages", len(out), len(ms))
	}
	return out
}

// publish is publishFor with a bound of ten seconds, as a relay has it.
func publish(t testing.TB, p *Publisher, ms ...relay.Message) []relay.Outcome {
	t.Helper()
	return publishFor(t, p, 10*time.Second, ms...)
}

// publishOn is publish, and again for what was withheld behind a message that was given up, as a relay
// does once that is settled. It ends when a round brings nothing new.
func publishOn(t testing.TB, p *Publisher, ms ...relay.Message) []relay.Outcome {
	t.Helper()
	out := publish(t, p, ms...)
	for left := len(ms) + 1; ; {
		var again []relay.Message
		var places []int
		for i := range out {
			if out[i].Class == relay.Withheld {
				again, places = append(again, ms[i]), append(places, i)
			}
		}
		if len(again) == 0 || len(again) == left {
			return out
		}
		left = len(again)
		for n, o := range publish(t, p, again...) {
			out[places[n]] = o
		}
	}
}

// summary shows outcomes as "delivered, route TOPIC_AUTHORIZATION_FAILED, …".
func summary(out []relay.Outcome) string {
	var s []string
	for _, o := range out {
		s = append(s, strings.TrimSpace(string(o.Class)+" "+o.Code))
	}
	return strings.Join(s, ", ")
}

func wantOutcomes(t testing.TB, out []relay.Outcome, want ...string) {
	t.Helper()
	if got := summary(out); got != strings.Join(want, ", ") {
		t.Errorf("outcomes are %s\nwant         %s", got, strings.Join(want, ", "))
	}
}

// wantAll checks that all outcomes are of one class, except the outcomes at the given places.
func wantAll(t testing.TB, out []relay.Outcome, class relay.Class, but ...int) {
	t.Helper()
	for i, o := range out {
		if (o.Class == class) == slices.Contains(but, i) {
			t.Errorf("outcome %d is %s %s %s", i, o.Class, o.Code, o.Message)
		}
	}
}

// wantTopic checks that a topic holds the values of these messages once each, in order per key.
func wantTopic(t testing.TB, b *kafkatest.Broker, topic string, ms ...relay.Message) {
	t.Helper()
	v := judge(t, b, topic, ms, nil)
	if err := v.Err(); err != nil || v.Duplicates > 0 {
		t.Errorf("topic %s: %v (%s)", topic, err, v)
	}
}

// judge compares a topic with what was to be in it.
func judge(t testing.TB, b *kafkatest.Broker, topic string, ms []relay.Message, givenUp []string) history.Verdict {
	t.Helper()
	var committed []history.Event
	for i := range ms {
		if ms[i].Topic == topic {
			committed = append(committed, history.Event{ID: string(ms[i].Value), Subject: string(ms[i].Key), Seq: int64(i),
				Poison: slices.Contains(givenUp, string(ms[i].Value))})
		}
	}
	var reads []history.Read
	for _, r := range b.ReadAll(t, topic, 0) {
		reads = append(reads, history.Read{ID: string(r.Value), Subject: string(r.Key),
			Partition: fmt.Sprint(r.Partition), Offset: r.Offset})
	}
	return history.Check(committed, reads, givenUp)
}

// fault makes the broker answer a kind of request about a topic, or about all with "", with an error
// until it is removed, or count times if that is positive.
func fault(b *kafkatest.Broker, key kmsg.Key, topic string, err *kerr.Error, count int) *kfake.FaultHandle {
	if count <= 0 {
		count = -1
	}
	return b.Cluster.Fault(kfake.Fault{Keys: []kmsg.Key{key}, Topic: topic, Err: err, Count: count})
}

// refuse makes the broker refuse every batch that contains a value, in a topic with so many partitions.
func refuse(b *kafkatest.Broker, topic string, partitions int, value string, err *kerr.Error) *kfake.FaultHandle {
	var faults []kfake.Fault
	for p := range int32(partitions) {
		faults = append(faults, kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: topic, Partitions: []int32{p}, Err: err,
			Count: -1, When: func(req kmsg.Request) bool {
				for _, t := range req.(*kmsg.ProduceRequest).Topics {
					for _, rp := range t.Partitions {
						if rp.Partition == p && bytes.Contains(rp.Records, []byte(value)) {
							return true
						}
					}
				}
				return false
			}})
	}
	return b.Cluster.Fault(faults...)
}

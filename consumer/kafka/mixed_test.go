package kafka

import (
	"context"
	"crypto/rand"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/postrider/postrider/consumer"
	"github.com/postrider/postrider/internal/testenv/kafkatest"
)

// kindOf is what message i is: poison, transient and slow are 5 % each.
func kindOf(i int) string {
	switch i % 20 {
	case 3:
		return "poison"
	case 9:
		return "transient"
	case 15:
		return "slow"
	}
	return "good"
}

// mixed runs a consumer over n messages of all kinds until each ended where it should, and returns how late the latest
// second and third attempt was.
func mixed(t *testing.T, b *kafkatest.Broker, n, concurrency int, delays []time.Duration) (latest time.Duration) {
	topic := b.Topic(t, 3, nil)
	produce(t, b, topic, n, func(i int) string { return fmt.Sprintf("%s-%d", kindOf(i), i) })
	var s seen
	r := start(t, newClient(t, b, nil), topic, consumer.Config{Concurrency: concurrency, Policy: consumer.Policy{Delays: delays}},
		consumer.HandlerFunc(func(_ context.Context, m *consumer.Message) error {
			s.note(m)
			switch kind, _, _ := strings.Cut(string(m.Value), "-"); {
			case kind == "poison":
				return consumer.Permanent(errBroken)
			case kind == "transient" && m.Attempt() < 3:
				return errBroken
			case kind == "slow":
				<-time.After(50 * time.Millisecond)
			}
			return nil
		}))
	letters := map[string]int{}
	for _, l := range b.ReadAll(t, topic+".dlq", n/20) {
		letters[string(l.Value)]++
	}
	attempts := func() map[string][]one {
		all := map[string][]one{}
		for _, o := range s.snapshot() {
			all[o.value] = append(all[o.value], o)
		}
		return all
	}
	until(t, "every message ended", func() bool {
		done := 0
		for i, all := 0, attempts(); i < n; i++ {
			want := 1
			if kindOf(i) == "transient" {
				want = 3
			}
			if len(all[fmt.Sprintf("%s-%d", kindOf(i), i)]) >= want {
				done++
			}
		}
		return done == n
	})
	if err := r.stop(); err != nil {
		t.Error(err)
	}
	all := attempts()
	for i := range n {
		v := fmt.Sprintf("%s-%d", kindOf(i), i)
		want, dead := 1, 0
		switch kindOf(i) {
		case "poison":
			dead = 1
		case "transient":
			want = 3
		}
		if len(all[v]) != want || letters[v] != dead {
			t.Errorf("%s: %d attempts, %d dead letters; want %d, %d", v, len(all[v]), letters[v], want, dead)
		}
		for a := 1; a < len(all[v]); a++ {
			waited := all[v][a].at.Sub(all[v][a-1].at)
			if waited < delays[a-1] || all[v][a].attempt != a+1 {
				t.Errorf("%s: attempt %d came after %v, early", v, all[v][a].attempt, waited)
			}
			latest = max(latest, waited-delays[a-1])
		}
	}
	if len(letters) != n/20 {
		t.Errorf("%d messages are dead letters, want %d", len(letters), n/20)
	}
	if at := committed(t, b, "g", topic); at != int64(n) {
		t.Errorf("committed %d of %d", at, n)
	}
	return latest
}

// TestMixed: with poison, transient and slow messages, 5 % each, every one ends where it should, and no delay is cut
// short, against a real broker, too. How late the latest is depends on the machine, so it is told and not judged here.
func TestMixed(t *testing.T) {
	t.Parallel()
	for _, concurrency := range []int{0, 8} {
		t.Run(fmt.Sprint(concurrency), func(t *testing.T) {
			t.Parallel()
			kafkatest.Each(t, func(t *testing.T, b *kafkatest.Broker) {
				t.Logf("%s: the latest attempt was %v late", b, mixed(t, b, 400, concurrency, []time.Duration{500 * time.Millisecond, time.Second}))
			})
		})
	}
}

// TestMixedIsNeverLate: with the default delays, in virtual time, where lateness is the consumer's own and the broker's
// and not the machine's: at most a second.
func TestMixedIsNeverLate(t *testing.T) {
	t.Parallel()
	for _, concurrency := range []int{0, 8} {
		t.Run(fmt.Sprint(concurrency), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				if late := mixed(t, kafkatest.Virtual(t), 400, concurrency, consumer.DefaultDelays()); late > time.Second {
					t.Errorf("an attempt was %v late", late)
				}
			})
		})
	}
}

// TestDeadLetterTopicTakesNothing: the brokers refuse records for the dead-letter topic. The offset stays before the
// message that is nowhere, the partition says so, and it goes on by itself when the topic is mended.
func TestDeadLetterTopicTakesNothing(t *testing.T) {
	t.Parallel()
	kafkatest.Each(t, func(t *testing.T, b *kafkatest.Broker) {
		topic := b.Topic(t, 1, nil)
		b.CreateTopic(t, topic+".dlq", 1, map[string]string{"max.message.bytes": "200"}) // less than any dead letter has
		bytes := make([]byte, 10_000)                                                    // at random, because the client compresses
		_, _ = rand.Read(bytes)
		large := string(bytes)
		produce(t, b, topic, 20, func(i int) string { return map[bool]string{true: large, false: fmt.Sprint(i)}[i == 7] })
		r := start(t, newClient(t, b, nil), topic, consumer.Config{CommitInterval: 50 * time.Millisecond}, consumer.HandlerFunc(func(_ context.Context, m *consumer.Message) error {
			if m.Offset == 7 {
				return consumer.Permanent(errBroken)
			}
			return nil
		}))
		until(t, "the partition says that it stands", func() bool {
			for _, p := range r.Status() {
				if strings.Contains(p.Standing, topic+".dlq") {
					return true
				}
			}
			return false
		})
		until(t, "what is before it is committed", func() bool { return committed(t, b, "g", topic) >= 7 })
		if at := committed(t, b, "g", topic); at != 7 {
			t.Errorf("committed %d, and the message at 7 is nowhere", at)
		}
		more := "1048588"
		if _, err := b.Admin(t).AlterTopicConfigs(t.Context(), []kadm.AlterConfig{{Op: kadm.SetConfig, Name: "max.message.bytes", Value: &more}}, topic+".dlq"); err != nil {
			t.Fatal(err)
		}
		until(t, "all is committed", func() bool { return committed(t, b, "g", topic) == 20 })
		for _, l := range b.ReadAll(t, topic+".dlq", 1) {
			if string(l.Value) != large {
				t.Errorf("dead letter %.40q", l.Value)
			}
		}
	})
}

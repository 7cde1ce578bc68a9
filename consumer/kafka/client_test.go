package kafka

import (
	"context"
	"crypto/rand"
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

	"github.com/postrider/postrider/consumer"
	"github.com/postrider/postrider/internal/testenv/kafkatest"
	"github.com/postrider/postrider/message"
)

var errBroken = errors.New("broken")

// TestRoad: messages that are handled, tried again and given up, on both brokers.
func TestRoad(t *testing.T) {
	t.Parallel()
	kafkatest.Each(t, func(t *testing.T, b *kafkatest.Broker) {
		topic := b.Topic(t, 3, nil)
		produce(t, b, topic, 200, func(i int) string { return fmt.Sprint([]string{"good", "bad", "late"}[min(i%10, 2)%3], i) })
		var s seen
		r := start(t, newClient(t, b, nil), topic, consumer.Config{Policy: consumer.Policy{Delays: []time.Duration{500 * time.Millisecond, time.Second}}},
			consumer.HandlerFunc(func(_ context.Context, m *consumer.Message) error {
				s.note(m)
				switch {
				case strings.HasPrefix(string(m.Value), "bad"):
					return consumer.Permanent(errBroken)
				case strings.HasPrefix(string(m.Value), "late") && m.Attempt() < 3:
					return errBroken
				}
				return nil
			}))
		letters := b.ReadAll(t, topic+".dlq", 20)
		lates := func() (n int) {
			for _, o := range s.snapshot() {
				if o.attempt == 3 {
					n++
				}
			}
			return n
		}
		until(t, "all third attempts", func() bool { return lates() == 160 })
		last := map[string]one{}
		for _, o := range s.snapshot() {
			if before, there := last[o.value]; there {
				if delay := []time.Duration{500 * time.Millisecond, time.Second}[before.attempt-1]; o.attempt != before.attempt+1 || o.at.Sub(before.at) < delay {
					t.Errorf("%s: attempt %d came %v after attempt %d", o.value, o.attempt, o.at.Sub(before.at), before.attempt)
				}
			}
			last[o.value] = o
		}
		if err := r.stop(); err != nil {
			t.Error(err)
		}
		if n := committed(t, b, "g", topic); n != 200 {
			t.Errorf("committed %d of 200", n)
		}
		for _, k := range letters {
			headers := map[string]string{}
			for _, h := range k.Headers {
				headers[h.Key] = string(h.Value)
			}
			if headers[message.HeaderOriginTopic] != topic || headers[message.HeaderConsumerGroup] != "g" || !strings.HasPrefix(string(k.Value), "bad") ||
				headers[message.HeaderRetryTopic] != topic+".g.retry" || headers["kafka_dlt-original-topic"] != topic {
				t.Errorf("the letter %q has %v", k.Value, headers)
			}
		}
	})
}

// TestTiersUnderVirtualTime: the default delays are never cut short, and at most a second late, against a broker.
func TestTiersUnderVirtualTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := kafkatest.Virtual(t)
		topic := b.Topic(t, 2, nil)
		produce(t, b, topic, 40, func(i int) string { return fmt.Sprint(i) })
		var s seen
		start(t, newClient(t, b, nil), topic, consumer.Config{Policy: consumer.Policy{Breaker: consumer.Breaker{Off: true}}}, consumer.HandlerFunc(func(_ context.Context, m *consumer.Message) error {
			s.note(m)
			return errBroken
		}))
		time.Sleep(10 * time.Minute)
		last := map[string]one{}
		for _, o := range s.snapshot() {
			if before, there := last[o.value]; there {
				delay := consumer.DefaultDelays()[before.attempt-1]
				if waited := o.at.Sub(before.at); o.attempt != before.attempt+1 || waited < delay || waited > delay+time.Second {
					t.Errorf("%s: attempt %d came %v after attempt %d, want %v and at most 1s more", o.value, o.attempt, waited, before.attempt, delay)
				}
			}
			last[o.value] = o
		}
		if n := len(s.snapshot()); n != 200 {
			t.Errorf("%d attempts, want 200", n)
		}
		if n := len(b.ReadAll(t, topic+".dlq", 40)); n != 40 {
			t.Errorf("%d dead letters, want 40", n)
		}
	})
}

// TestDeadLetterTopicFails: whatever is the matter with the dead-letter topic, no offset passes a message that is
// nowhere, and when the fault ends the messages leave.
func TestDeadLetterTopicFails(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]*kerr.Error{"not authorised": kerr.TopicAuthorizationFailed, "unknown": kerr.UnknownTopicOrPartition,
		"no replicas": kerr.NotEnoughReplicas, "unknown outcome": kerr.NotEnoughReplicasAfterAppend, "recreated": kerr.UnknownTopicID, "storage": kerr.KafkaStorageError} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b := kafkatest.Virtual(t)
				topic := b.Topic(t, 1, nil)
				faults := b.Cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: topic + ".dlq", Err: fault, Count: -1})
				produce(t, b, topic, 20, func(i int) string { return fmt.Sprint(i) })
				r := start(t, newClient(t, b, nil), topic, consumer.Config{}, consumer.HandlerFunc(func(_ context.Context, m *consumer.Message) error {
					if m.Offset == 7 {
						return consumer.Permanent(errBroken)
					}
					return nil
				}))
				time.Sleep(5 * time.Minute)
				if n := committed(t, b, "g", topic); n != 7 {
					t.Errorf("committed %d, and the message at 7 is nowhere", n)
				}
				standing := ""
				for _, p := range r.Status() {
					standing += p.Standing
				}
				if !strings.Contains(standing, topic+".dlq") {
					t.Errorf("it stands because %q", standing)
				}
				faults.Remove()
				time.Sleep(time.Minute)
				if n := committed(t, b, "g", topic); n != 20 {
					t.Errorf("committed %d of 20", n)
				}
				ls := b.ReadAll(t, topic+".dlq", 1)
				for _, l := range ls {
					if string(l.Value) != "7" {
						t.Errorf("dead letter %q", l.Value)
					}
				}
				if len(ls) != 1 && fault != kerr.NotEnoughReplicasAfterAppend {
					t.Errorf("%d dead letters", len(ls))
				}
			})
		})
	}
}

// TestBrokerRestarted: a broker that goes away and comes back loses nothing, and no offset passes a message that was
// not written.
func TestBrokerRestarted(t *testing.T) {
	t.Parallel()
	dir, addr := t.TempDir(), ""
	boot := func() *kfake.Cluster {
		opts := []kfake.Opt{kfake.NumBrokers(1), kfake.DataDir(dir), kfake.SyncWrites()}
		if addr != "" {
			_, port, _ := strings.Cut(addr, ":")
			var n int
			_, _ = fmt.Sscan(port, &n)
			opts = append(opts, kfake.Ports(n))
		} else {
			opts = append(opts, kfake.SeedTopics(2, "restarted"))
		}
		c, err := kfake.NewCluster(opts...)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	cluster := boot()
	addr = cluster.ListenAddrs()[0]
	writer, err := kgo.NewClient(kgo.SeedBrokers(addr), kgo.DisableClientMetrics(), kgo.MetadataMinAge(100*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	defer writer.Close()
	client, err := NewClient(Config{Brokers: []string{addr}, CreateTopics: true, SessionTimeout: 6 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	var s seen
	r := start(t, client, "restarted", consumer.Config{CommitInterval: 50 * time.Millisecond}, consumer.HandlerFunc(func(_ context.Context, m *consumer.Message) error {
		s.note(m)
		if m.Value[0] == 'p' {
			return consumer.Permanent(errBroken)
		}
		return nil
	}))
	const n = 600
	var written error
	for i := range n {
		if i%200 == 150 {
			cluster.Close()
			cluster = boot()
		}
		v := fmt.Sprint("v", i)
		if i%20 == 0 {
			v = fmt.Sprint("p", i)
		}
		writer.Produce(t.Context(), &kgo.Record{Topic: "restarted", Key: []byte(v), Value: []byte(v)}, func(_ *kgo.Record, err error) { written = errors.Join(written, err) })
		if i%50 == 49 {
			if err := writer.Flush(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	}
	defer func() { cluster.Close() }()
	values := func() map[string]bool {
		all := map[string]bool{}
		for _, o := range s.snapshot() {
			all[o.value] = true
		}
		return all
	}
	defer func() { t.Logf("%d of %d were handled; writing them: %v", len(values()), n, written) }()
	until(t, "all are handled", func() bool { return len(values()) == n })
	admin := kadm.NewClient(writer)
	at := func() (sum int64) {
		offsets, err := admin.FetchOffsets(t.Context(), "g")
		if err != nil {
			return 0
		}
		for _, o := range offsets["restarted"] {
			sum += max(o.At, 0)
		}
		return sum
	}
	until(t, "all is committed", func() bool { return at() == n })
	if err := r.stop(); err != nil {
		t.Error(err)
	}
	reader, err := kgo.NewClient(kgo.SeedBrokers(addr), kgo.ConsumeTopics("restarted.dlq"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.DisableClientMetrics())
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	letters := map[string]bool{}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for len(letters) < n/20 && ctx.Err() == nil {
		reader.PollFetches(ctx).EachRecord(func(r *kgo.Record) { letters[string(r.Value)] = true })
	}
	if len(letters) != n/20 {
		t.Errorf("%d dead letters, want %d", len(letters), n/20)
	}
}

// TestMissingTopics: topics that cannot be written to are named at once, unless they may be created.
func TestMissingTopics(t *testing.T) {
	t.Parallel()
	kafkatest.Each(t, func(t *testing.T, b *kafkatest.Broker) {
		topic := b.Topic(t, 3, nil)
		cfg := consumer.Config{Client: newClient(t, b, func(c *Config) { c.CreateTopics = false }), Group: "g", Topics: []string{topic}, Policy: consumer.Policy{DeadLetterTopic: topic + ".dlq"}}
		h := consumer.HandlerFunc(func(context.Context, *consumer.Message) error { return nil })
		c, err := consumer.New(cfg, h)
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Run(t.Context()); err == nil || !errors.Is(err, errMissing) || !strings.Contains(err.Error(), topic+".g.retry.2m") || !strings.Contains(err.Error(), topic+".dlq") {
			t.Errorf("Run: %v", err)
		}
		r := start(t, newClient(t, b, nil), topic, consumer.Config{}, h)
		admin := b.Admin(t)
		until(t, "it has partitions, and so has begun", func() bool { return len(r.Status()) > 0 }) // ended before, Run fails
		until(t, "the topics are there", func() bool {
			topics, err := admin.ListTopics(t.Context(), topic+".g.retry.1s", topic+".g.retry.10s", topic+".g.retry.30s", topic+".g.retry.2m", topic+".dlq")
			return err == nil && topics.Error() == nil && len(topics[topic+".g.retry.2m"].Partitions) == 3 && len(topics[topic+".g.retry.1s"].Partitions) == 3
		})
	})
}

// TestFormerTier: a tier that exists is read though the delays no longer have it.
func TestFormerTier(t *testing.T) {
	t.Parallel()
	b := kafkatest.Kfake(t)
	topic := b.Topic(t, 1, nil)
	b.CreateTopic(t, topic+".g.retry.7m", 1, nil)
	produce(t, b, topic+".g.retry.7m", 3, func(i int) string { return fmt.Sprint(i) })
	var s seen
	start(t, newClient(t, b, nil), topic, consumer.Config{}, consumer.HandlerFunc(func(_ context.Context, m *consumer.Message) error { s.note(m); return nil }))
	until(t, "three", func() bool { return len(s.snapshot()) == 3 })
}

// TestDeletedUnread: records that retention deleted before they were read are counted.
func TestDeletedUnread(t *testing.T) {
	t.Parallel()
	b := kafkatest.Kfake(t)
	topic := b.Topic(t, 1, nil)
	produce(t, b, topic, 10, func(i int) string { return fmt.Sprint(i) })
	h := func(s *seen) consumer.Handler {
		return consumer.HandlerFunc(func(_ context.Context, m *consumer.Message) error { s.note(m); return nil })
	}
	var before, after seen
	r := start(t, newClient(t, b, nil), topic, consumer.Config{}, h(&before))
	until(t, "ten", func() bool { return len(before.snapshot()) == 10 })
	if err := r.stop(); err != nil {
		t.Fatal(err)
	}
	produce(t, b, topic, 10, func(i int) string { return fmt.Sprint(10 + i) })
	offsets := make(kadm.Offsets)
	offsets.AddOffset(topic, 0, 15, -1)
	if _, err := b.Admin(t).DeleteRecords(t.Context(), offsets); err != nil {
		t.Fatal(err)
	}
	client := newClient(t, b, nil)
	r = start(t, client, topic, consumer.Config{}, h(&after))
	until(t, "five", func() bool { return len(after.snapshot()) == 5 })
	if v := after.snapshot()[0].value; v != "15" {
		t.Errorf("began at %s", v)
	}
	if err := r.stop(); err != nil {
		t.Error(err)
	}
	if client.positions.next[consumer.Partition{Topic: topic}] != 20 {
		t.Errorf("positions %v", client.positions.next)
	}
}

// TestOnlyTheLargeIsTooLarge: the broker refuses a batch for one of its records, and only that one counts as too large.
func TestOnlyTheLargeIsTooLarge(t *testing.T) {
	t.Parallel()
	kafkatest.Each(t, func(t *testing.T, b *kafkatest.Broker) {
		topic := b.Topic(t, 1, map[string]string{"max.message.bytes": "2000"})
		c := newClient(t, b, nil)
		defer func() { _ = c.Close(context.Background()) }()
		errs := make(chan error, 50)
		for i := range cap(errs) {
			size := 100
			if i == 20 {
				size = 3000
			}
			value := make([]byte, size) // that no compression makes smaller
			_, _ = rand.Read(value)
			go func() { errs <- c.Publish(t.Context(), consumer.Record{Topic: topic, Value: value}) }()
		}
		var failed []error
		for range cap(errs) {
			if err := <-errs; err != nil {
				failed = append(failed, err)
			}
		}
		if len(failed) != 1 || !errors.Is(failed[0], consumer.ErrTooLarge) {
			t.Errorf("failed: %v", failed)
		}
		if n := len(b.ReadAll(t, topic, 49)); n < 49 {
			t.Errorf("%d records", n)
		}
	})
}

// TestTopicRecreated: a topic that was deleted and created anew is read from its start.
func TestTopicRecreated(t *testing.T) {
	t.Parallel()
	b := kafkatest.Kfake(t)
	topic := "recreated"
	b.CreateTopic(t, topic, 1, nil)
	produce(t, b, topic, 10, func(i int) string { return fmt.Sprint("old", i) })
	var s seen
	start(t, newClient(t, b, nil), topic, consumer.Config{CommitInterval: 20 * time.Millisecond}, consumer.HandlerFunc(func(_ context.Context, m *consumer.Message) error { s.note(m); return nil }))
	until(t, "the old are committed", func() bool { return committed(t, b, "g", topic) == 10 })
	if _, err := b.Admin(t).DeleteTopic(t.Context(), topic); err != nil {
		t.Fatal(err)
	}
	b.CreateTopic(t, topic, 1, nil)
	produce(t, b, topic, 15, func(i int) string { return fmt.Sprint("new", i) })
	until(t, "all of the new are handled", func() bool {
		n := 0
		for _, o := range s.snapshot() {
			if strings.HasPrefix(o.value, "new") {
				n++
			}
		}
		return n >= 15
	})
}

// TestRecreatedInHand: while a message of the deleted topic is still in hand, its position is not committed for the new
// topic, neither at the next turn nor when the old partition is taken away.
func TestRecreatedInHand(t *testing.T) {
	t.Parallel()
	b := kafkatest.Kfake(t)
	topic := "recreated-in-hand"
	b.CreateTopic(t, topic, 1, nil)
	produce(t, b, topic, 10, func(i int) string { return fmt.Sprint("old", i) })
	var s seen
	gate := make(chan struct{})
	client := newClient(t, b, nil)
	start(t, client, topic, consumer.Config{CommitInterval: 20 * time.Millisecond}, consumer.HandlerFunc(func(_ context.Context, m *consumer.Message) error {
		if s.note(m); string(m.Value) == "old9" {
			<-gate
		}
		return nil
	}))
	until(t, "all but the last are committed", func() bool { return committed(t, b, "g", topic) == 9 })
	if _, err := b.Admin(t).DeleteTopic(t.Context(), topic); err != nil {
		t.Fatal(err)
	}
	b.CreateTopic(t, topic, 1, nil)
	produce(t, b, topic, 15, func(i int) string { return fmt.Sprint("new", i) })
	until(t, "the topic is found gone", func() bool {
		client.positions.mu.Lock()
		defer client.positions.mu.Unlock()
		return client.positions.anew[topic] != nil
	})
	close(gate)
	until(t, "all of the new are handled", func() bool {
		news := map[string]bool{}
		for _, o := range s.snapshot() {
			if strings.HasPrefix(o.value, "new") {
				news[o.value] = true
			}
		}
		return len(news) == 15
	})
	until(t, "the new are committed", func() bool { return committed(t, b, "g", topic) == 15 })
}

// TestPositionsOfGoneTopics: from the time a topic is found gone until its partition is assigned anew nothing of it may be
// committed, and a commit that was under way says nothing of the new topic.
func TestPositionsOfGoneTopics(t *testing.T) {
	t.Parallel()
	p := newPositions()
	at := consumer.Partition{Topic: "t"}
	may := func(want bool, when string) map[string]*recreated {
		t.Helper()
		got, anew := p.toCommit([]consumer.Position{{Partition: at, Offset: 7}})
		if len(got) > 0 != want {
			t.Errorf("%s: to commit are %v", when, got)
		}
		return anew
	}
	from := func(want int64, when string) {
		t.Helper()
		o, _ := p.adjust(t.Context(), map[string]map[int32]kgo.Offset{"t": {0: kgo.NewOffset().At(7)}})
		if got := o["t"][0].EpochOffset().Offset; got != want {
			t.Errorf("%s: read from %d, want %d", when, got, want)
		}
	}
	before := may(true, "at first")
	p.lost("t")
	may(false, "gone")
	if gone := p.recreate(); len(gone) != 1 || len(p.recreate()) != 0 {
		t.Errorf("gone are %v", gone)
	}
	may(false, "subscribed to again")
	p.assigned([]consumer.Partition{{Topic: "t", ID: 1}})
	may(false, "another partition is assigned")
	p.committed(before, map[string]map[int32]kgo.EpochOffset{"t": {0: {Offset: 7}}})
	from(-2, "an old commit ended late")
	p.assigned([]consumer.Partition{at})
	p.committed(may(true, "assigned"), map[string]map[int32]kgo.EpochOffset{"t": {0: {Offset: 7}}})
	from(7, "committed")
}

func TestConfigIsChecked(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*Config){
		"Brokers":         func(c *Config) { c.Brokers = nil },
		"MaxFetchBytes":   func(c *Config) { c.MaxPartitionFetchBytes = c.MaxFetchBytes + 17<<20 },
		"MaxMessageBytes": func(c *Config) { c.MaxMessageBytes = 1 },
		"SessionTimeout":  func(c *Config) { c.SessionTimeout = 1 },
	} {
		cfg := Config{Brokers: []string{"127.0.0.1:1"}}
		change(&cfg)
		if _, err := NewClient(cfg); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
	c, err := NewClient(Config{Brokers: []string{"127.0.0.1:1"}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if err := c.Open(ctx, consumer.Subscription{Group: "g", Topics: []string{"t"}, Targets: []consumer.Target{{Topic: "d"}}}, nil); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Open without a broker: %v", err)
	}
	if err := errors.Join(c.Close(t.Context()), c.Close(t.Context())); err != nil {
		t.Error(err)
	}
	if err := c.Publish(t.Context(), consumer.Record{Topic: "t"}); !errors.Is(err, consumer.ErrClosed) {
		t.Errorf("Publish after Close: %v", err)
	}
}

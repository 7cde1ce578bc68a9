package soak

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/postrider/postrider/consumer"
	"github.com/postrider/postrider/consumer/inbox"
	consumerkafka "github.com/postrider/postrider/consumer/kafka"
	"github.com/postrider/postrider/internal/testenv/kafkajars"
	"github.com/postrider/postrider/internal/testenv/kafkatest"
	"github.com/postrider/postrider/internal/testenv/pgproxy"
	"github.com/postrider/postrider/internal/testenv/pgtest"
	"github.com/postrider/postrider/message"
)

// outages is a consumer with an inbox, whose broker and database go away and come back.
type outages struct {
	t       *testing.T
	broker  *kafkajars.Broker
	pool    *pgxpool.Pool // past the proxy: it sees the database at all times
	client  *kgo.Client
	admin   *kadm.Client
	topic   string
	written int
}

// TestConsumerOutages kills a real broker under a consumer and takes its database away, alone and together. At every look
// each message before a committed offset was handled or is a dead letter, and in the end all are, each once.
func TestConsumerOutages(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	b := kafkatest.Own(t, kafkajars.Options{Log: newLog(t, "kafka")})
	db := pgtest.New(t)
	proxy := pgproxy.Start(t, db.URL)
	o := &outages{t: t, broker: b, pool: db.Pool(t), topic: "outages"}
	var err error
	if o.client, err = kgo.NewClient(kgo.SeedBrokers(b.Addr()), kgo.DisableClientMetrics(), kgo.MetadataMinAge(100*time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(o.client.Close)
	o.admin = kadm.NewClient(o.client)
	dead, retry := o.topic+".dlq", consumer.RetryTopic(o.topic, o.topic, 0)
	if _, err := o.admin.CreateTopics(ctx, 3, 1, nil, o.topic, dead, retry); err != nil {
		t.Fatal(err)
	}
	if err := inbox.Migrate(ctx, o.pool); err != nil {
		t.Fatal(err)
	}
	through, err := pgxpool.New(ctx, proxy.URL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(through.Close)
	processor, err := inbox.New(through, inbox.Options{Group: o.topic})
	if err != nil {
		t.Fatal(err)
	}
	client, err := consumerkafka.NewClient(consumerkafka.Config{Brokers: []string{b.Addr()}, SessionTimeout: 6 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	c, err := consumer.New(consumer.Config{Client: client, Group: o.topic, Topics: []string{o.topic}, CommitInterval: 100 * time.Millisecond,
		Policy: consumer.Policy{Mode: consumer.Blocking, Endless: true, Delays: []time.Duration{100 * time.Millisecond, 500 * time.Millisecond},
			DeadLetterTopic: dead, Breaker: consumer.Breaker{Off: true}}},
		inbox.Handler(processor, func(_ context.Context, _ pgx.Tx, m *consumer.Message) error {
			if strings.HasPrefix(string(m.Value), "poison") {
				return consumer.Permanent(errors.New("poison"))
			}
			return nil
		}))
	if err != nil {
		t.Fatal(err)
	}
	running, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- c.Run(running) }()
	defer stop()

	away := func(all bool) {
		n := 0
		if all {
			n = 1 << 30
		}
		proxy.CutAtQuery(n, func([]string) bool { return true })
	}
	pause := duration(t, 8*time.Second) / 8
	for _, phase := range []struct {
		name             string
		broker, database bool
	}{{"all is well", false, false}, {"the broker is killed", true, false}, {"the database is away", false, true}, {"both", true, true}, {"all is well again", false, false}} {
		o.write(ctx, 200)
		away(phase.database)
		if phase.broker {
			if err := b.Kill(); err != nil {
				t.Fatal(err)
			}
		}
		rest(pause)
		if phase.broker {
			if err := b.Restart(ctx); err != nil {
				t.Fatal(err)
			}
			o.write(ctx, 50) // while the database may be away yet
			rest(pause)
		}
		for phase.database && !phase.broker && proxy.Cuts() == 0 && ctx.Err() == nil {
			rest(100 * time.Millisecond) // it has yet to ask the database
		}
		passed := o.look(ctx, phase.name)
		away(false)
		o.t.Logf("%s: %d of %d offsets are passed, rightly", phase.name, passed, o.written)
		for ctx.Err() == nil && o.look(ctx, "after "+phase.name) < int64(o.written) {
			rest(100 * time.Millisecond)
		}
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if passed := o.look(context.WithoutCancel(ctx), "after it ended"); passed != int64(o.written) {
		t.Errorf("%d of %d offsets are passed", passed, o.written)
	}
	if proxy.Cuts() == 0 {
		t.Error("the database was never away")
	}
}

// write produces n messages, one in twenty of them poison, and waits until the broker has them.
func (o *outages) write(ctx context.Context, n int) {
	o.t.Helper()
	for range n {
		kind := "good"
		if o.written%20 == 7 {
			kind = "poison"
		}
		o.client.Produce(ctx, &kgo.Record{Topic: o.topic, Key: fmt.Append(nil, "k", o.written%37), Value: fmt.Appendf(nil, "%s-%d", kind, o.written)}, func(_ *kgo.Record, err error) {
			if err != nil {
				o.t.Errorf("the test's own writer: %v", err)
			}
		})
		o.written++
	}
	if err := o.client.Flush(ctx); err != nil {
		o.t.Fatal(err)
	}
}

// look reads how far the group has committed, and then whether each message before that was handled or is a dead letter.
// It returns how many offsets are passed.
func (o *outages) look(ctx context.Context, when string) (passed int64) {
	o.t.Helper()
	offsets, err := o.admin.FetchOffsets(ctx, o.topic)
	if err != nil {
		o.t.Fatalf("%s: read the offsets: %v", when, err)
	}
	accounted := map[string]bool{}
	rows, err := o.pool.Query(ctx, `select message_id from inbox_message where consumer_group = $1`, o.topic)
	if err != nil {
		o.t.Fatal(err)
	}
	ids, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		o.t.Fatal(err)
	}
	for _, id := range ids {
		place, _, _ := strings.Cut(strings.TrimPrefix(id, "record:"), "@")
		accounted[place] = true
	}
	for place := range o.deadLetters(ctx) {
		if accounted[place] {
			o.t.Errorf("%s: %s was handled and is a dead letter", when, place)
		}
		accounted[place] = true
	}
	for _, at := range offsets[o.topic] {
		for offset := range at.At {
			if place := fmt.Sprintf("%s/%d/%d", o.topic, at.Partition, offset); !accounted[place] {
				o.t.Errorf("%s: partition %d is committed up to %d, and %s was neither handled nor is it a dead letter", when, at.Partition, at.At, place)
			}
		}
		passed += max(at.At, 0)
	}
	return passed
}

// deadLetters are the places of the messages that are dead letters by now.
func (o *outages) deadLetters(ctx context.Context) map[string]bool {
	o.t.Helper()
	ends, err := o.admin.ListEndOffsets(ctx, o.topic+".dlq")
	if err != nil {
		o.t.Fatal(err)
	}
	want := int64(0)
	ends.Each(func(e kadm.ListedOffset) { want += e.Offset })
	places := map[string]bool{}
	if want == 0 {
		return places
	}
	reader, err := kgo.NewClient(kgo.SeedBrokers(o.broker.Addr()), kgo.ConsumeTopics(o.topic+".dlq"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.DisableClientMetrics())
	if err != nil {
		o.t.Fatal(err)
	}
	defer reader.Close()
	for read := int64(0); read < want; {
		fetches := reader.PollFetches(ctx)
		if ctx.Err() != nil {
			o.t.Fatalf("read %d of %d dead letters: %v", read, want, ctx.Err())
		}
		fetches.EachRecord(func(r *kgo.Record) {
			read++
			h := map[string]string{}
			for _, one := range r.Headers {
				h[one.Key] = string(one.Value)
			}
			if !strings.HasPrefix(string(r.Value), "poison") {
				o.t.Errorf("%s is a dead letter", r.Value)
			}
			places[h[message.HeaderOriginTopic]+"/"+h[message.HeaderOriginPartition]+"/"+h[message.HeaderOriginOffset]] = true
		})
	}
	return places
}

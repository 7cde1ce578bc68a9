package app

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/postrider/postrider/cmd/internal/config"
	"github.com/postrider/postrider/consumer"
	"github.com/postrider/postrider/consumer/inbox"
	"github.com/postrider/postrider/consumer/kafka"
	"github.com/postrider/postrider/internal/dlq"
	"github.com/postrider/postrider/internal/testenv/kafkatest"
	"github.com/postrider/postrider/internal/testenv/pgtest"
	"github.com/postrider/postrider/message"
)

// readingGroups are consumer groups with inboxes, and what each has done with each message.
type readingGroups struct {
	*redriveRig
	sender dlq.Redriver
	healed atomic.Bool
}

// reads starts a consumer group of the library. It gives up the messages that it cannot handle until it is healed.
func (g *readingGroups) reads(group string, fails func(m *consumer.Message) bool) {
	g.t.Helper()
	client, err := kafka.NewClient(kafka.Config{Brokers: g.broker.Addrs, CreateTopics: true})
	g.must(err)
	p, err := inbox.New(g.pool, inbox.Options{Group: group})
	g.must(err)
	c, err := consumer.New(consumer.Config{Client: client, Group: group, Topics: []string{g.topic},
		Policy: consumer.Policy{DeadLetterTopic: g.config.DLQ.Topic, Breaker: consumer.Breaker{Off: true}}},
		inbox.Handler(p, func(ctx context.Context, tx pgx.Tx, m *consumer.Message) error {
			if fails(m) && !g.healed.Load() {
				return consumer.Permanent(errors.New("no such account"))
			}
			return g.done(ctx, tx, group, m.Value)
		}))
	g.must(err)
	g.background(c.Run)
}

// done notes that a group has handled a message.
func (g *readingGroups) done(ctx context.Context, tx pgx.Tx, group string, value []byte) error {
	_, err := tx.Exec(ctx, `insert into effect (who, what) values ($1, $2)`, group, string(value))
	return err
}

// readsInPython starts a group that does what examples/python/README.md says, with its SQL.
func (g *readingGroups) readsInPython(group string) {
	g.t.Helper()
	client := g.broker.Client(g.t, kgo.ConsumerGroup(group), kgo.ConsumeTopics(g.topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	g.background(func(ctx context.Context) error {
		for {
			fetches := client.PollFetches(ctx)
			if ctx.Err() != nil {
				return nil
			}
			for _, r := range fetches.Records() {
				err := pgx.BeginFunc(ctx, g.pool, func(tx pgx.Tx) error {
					id := header(r, "postrider-redrive-of")
					if event := header(r, "postrider-event-id"); id == "" && event != "" {
						id = "event:" + event
					} else if id == "" {
						id = fmt.Sprintf("record:%s/%d/%d@%d", r.Topic, r.Partition, r.Offset, r.Timestamp.UnixMilli())
					}
					tag, err := tx.Exec(ctx, `insert into inbox_message (consumer_group, message_id) values ($1, $2) on conflict do nothing`, group, id)
					if err != nil || tag.RowsAffected() == 0 {
						return err
					}
					return g.done(ctx, tx, group, r.Value)
				})
				if err != nil && ctx.Err() == nil {
					return err
				}
			}
		}
	})
}

// background runs something until the test ends.
func (g *readingGroups) background(run func(context.Context) error) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- run(ctx) }()
	g.t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			g.t.Error(err)
		}
	})
}

// did waits until the groups have done all of this, and says what they did.
func (g *readingGroups) did(want ...string) {
	g.t.Helper()
	slices.Sort(want)
	eventually(g.t, "the groups have done "+strings.Join(want, ", "), func() (bool, string) {
		got := pgtest.Column[string](g.t, g.pool, `select who || ' ' || what || case when count(*) > 1 then ' ' || count(*) || ' times' else '' end from effect group by who, what order by 1`)
		slices.Sort(got)
		return slices.Equal(got, want), strings.Join(got, ", ")
	})
}

// sends redrives all that is open and waits until it has closed by delivery. It returns whom it reached.
func (g *readingGroups) sends(entries []dlq.Entry, target string) []dlq.Reach {
	g.t.Helper()
	req := dlq.RedriveRequest{Target: target, Actor: "ada"}
	for _, e := range entries {
		req.Entries = append(req.Entries, e.UUID)
	}
	would, err := g.sender.Preview(g.ctx, req)
	g.must(err)
	done, err := g.sender.Redrive(g.ctx, req)
	g.must(err)
	if fmt.Sprint(would.Reaches) != fmt.Sprint(done.Reaches) || len(done.Entries) != len(entries) || len(would.Entries) != len(entries) {
		g.t.Fatalf("the preview said %+v, and it was %+v", would, done)
	}
	for _, id := range req.Entries {
		g.closed(id, dlq.ManuallyResolved)
	}
	return done.Reaches
}

// TestARedriveReachesTheGroupThatFailed: three groups note what they handle, one of them with the SQL for other languages.
// One gives three messages up. They are sent again, first by default and then to the topic that all read: each group has
// handled each message once, also one that was read twice.
func TestARedriveReachesTheGroupThatFailed(t *testing.T) {
	t.Parallel()
	kafkatest.Each(t, func(t *testing.T, b *kafkatest.Broker) {
		g := newReadingGroups(t, b)
		suffix := "-" + uuid.NewString()[:8]
		billing, mail, python := "billing"+suffix, "mail"+suffix, "python"+suffix
		g.reads(billing, func(m *consumer.Message) bool { return strings.Contains(string(m.Value), "poison") })
		g.reads(mail, func(*consumer.Message) bool { return false })
		g.readsInPython(python)
		all := func(values ...string) (want []string) {
			for _, v := range values {
				want = append(want, billing+" "+v, mail+" "+v, python+" "+v)
			}
			return want
		}
		givenUp := func(want []string) []string {
			return slices.DeleteFunc(want, func(s string) bool { return strings.HasPrefix(s, billing) && strings.Contains(s, "poison") })
		}
		heal := func() { g.healed.Store(true) }

		// By default it goes to the retry topic of the group that failed.
		g.write("k", "1", "poison 2", "poison 3", "4", "poison 5")
		first := all("1", "poison 2", "poison 3", "4", "poison 5")
		g.did(givenUp(slices.Clone(first))...)
		open := g.pending(3)
		heal()
		reach := g.sends(open, "")
		if len(reach) != 1 || reach[0].Topic != g.topic+"."+billing+".retry" || reach[0].Messages != 3 || !slices.Equal(reach[0].Failed, []string{billing}) || reach[0].Unknown != "" || len(reach[0].Others) != 0 {
			t.Errorf("by default it reaches %+v", reach)
		}
		g.did(first...)

		// Events and records that are no events, to the topic that all groups read.
		g.healed.Store(false)
		g.write("k", "poison 6")
		produced := g.broker.Client(t).ProduceSync(t.Context(), &kgo.Record{Topic: g.topic, Key: []byte("k"), Value: []byte("poison 7")})
		g.must(produced.FirstErr())
		second := all("poison 6", "poison 7")
		g.did(append(givenUp(slices.Clone(second)), first...)...)
		second = append(second, first...)
		open = g.pending(2)
		heal()
		reach = g.sends(open, dlq.TargetOrigin)
		if len(reach) != 1 || reach[0].Topic != g.topic || !slices.Equal(reach[0].Others, []string{mail, python}) || !strings.Contains(reach[0].Explain(), "2 other groups read "+g.topic) {
			t.Errorf("the topic of all reaches %+v", reach)
		}
		g.write("k", "after") // all before it was read
		g.did(append(second, all("after")...)...)

		// What Spring gave up names no retry topic: the group of Spring gets it, and the others have had it.
		var record *kgo.Record
		for _, r := range b.ReadAll(t, g.topic, 9) {
			if string(r.Value) == "1" {
				record = r
			}
		}
		spring := "spring" + suffix
		hs := append(slices.Clone(record.Headers), kgo.RecordHeader{Key: "kafka_dlt-original-topic", Value: []byte(g.topic)},
			kgo.RecordHeader{Key: "kafka_dlt-original-partition", Value: binary.BigEndian.AppendUint32(nil, uint32(record.Partition))},
			kgo.RecordHeader{Key: "kafka_dlt-original-offset", Value: binary.BigEndian.AppendUint64(nil, uint64(record.Offset))},
			kgo.RecordHeader{Key: "kafka_dlt-original-timestamp", Value: binary.BigEndian.AppendUint64(nil, uint64(record.Timestamp.UnixMilli()))},
			kgo.RecordHeader{Key: "kafka_dlt-original-consumer-group", Value: []byte(spring)})
		g.must(g.broker.Client(t).ProduceSync(t.Context(), &kgo.Record{Topic: g.config.DLQ.Topic, Key: record.Key, Value: record.Value, Headers: hs}).FirstErr())
		reach = g.sends(g.pending(1), "")
		if len(reach) != 1 || reach[0].Topic != g.topic || !slices.Equal(reach[0].Failed, []string{spring}) || !slices.Equal(reach[0].Others, []string{billing, mail, python}) {
			t.Errorf("the letter of Spring reaches %+v", reach)
		}
		records := b.ReadAll(t, g.topic, 11)
		last := records[len(records)-1]
		if got, want := header(last, message.HeaderEventID), header(record, message.HeaderEventID); got != want || header(last, message.HeaderRedriveOf) != "event:"+want || header(last, message.HeaderRedriveFor) != spring {
			t.Errorf("it was sent again as %v", last.Headers)
		}
		g.write("k", "the end")
		g.did(append(second, all("after", "the end")...)...)
	})
}

func newReadingGroups(t *testing.T, b *kafkatest.Broker) *readingGroups {
	t.Helper()
	// One partition: a message that was handled says that all before it were.
	g := &readingGroups{redriveRig: newRedriveRig(t, b, nil, func(c *config.Config) {})}
	g.topic = b.Topic(t, 1, nil)
	pgtest.Exec(t, g.pool, `create table effect (who text not null, what text not null)`)
	g.must(inbox.Migrate(t.Context(), g.pool))
	d, err := NewServices(g.pool, config.Config{})
	g.must(err)
	originals, err := NewOriginals(g.config, slog.New(slog.DiscardHandler), nil)
	g.must(err)
	t.Cleanup(originals.Close)
	g.must(d.AskBrokers(originals, slog.New(slog.DiscardHandler)))
	g.sender = d.Sender()
	g.operate()
	return g
}

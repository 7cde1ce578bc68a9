package cluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/postrider/postrider/cmd/internal/api"
	"github.com/postrider/postrider/cmd/internal/config"
	"github.com/postrider/postrider/internal/testenv/kafkatest"
	"github.com/postrider/postrider/internal/testenv/pgtest"
)

// looking is a Cluster of a broker, with topics of its own and a clock that the test moves.
type looking struct {
	*Cluster
	now                 time.Time
	orders, retry, dlq  string
	missing, collectors string
	ours                string // a topic that a pattern chooses
	log                 bytes.Buffer
	admin               *kadm.Client
	client              *kgo.Client
}

func look(t *testing.T, b *kafkatest.Broker) *looking {
	t.Helper()
	l := &looking{now: time.Now(), orders: b.Topic(t, 2, nil), dlq: b.Topic(t, 1, nil), admin: b.Admin(t), client: b.Client(t, kgo.RecordPartitioner(kgo.ManualPartitioner()))}
	l.missing, l.collectors = l.orders+"-missing", l.orders+"-collectors"
	l.retry, l.ours = l.orders+".billing.retry.10s", l.orders+"-dlt"
	b.CreateTopic(t, l.retry, 1, nil)
	b.CreateTopic(t, l.ours, 1, nil)
	settings, err := config.Load(config.From{Flags: map[string]string{
		"kafka.brokers": strings.Join(b.Addrs, ","), "dlq.topic": l.dlq, "dlq.group": l.collectors, "tasks.lifecycle_topic": l.missing, "collector.patterns": l.orders + "-dlt",
	}})
	if err != nil {
		t.Fatal(err)
	}
	pool := pgtest.New(t).Pool(t)
	pgtest.Exec(t, pool, `select postrider.outbox_publish($1, 'k', '{}')`, l.orders)
	if l.Cluster, err = New(Config{Settings: settings, Database: pool, Logger: slog.New(slog.NewTextHandler(&l.log, nil)), Now: func() time.Time { return l.now }}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.Close)
	return l
}

// consumers are the groups that read the topics that there are now.
func (l *looking) consumers(ctx context.Context) (api.ConsumerGroups, error) {
	used, err := l.Topics(ctx)
	if err != nil {
		return api.ConsumerGroups{}, err
	}
	return l.Consumers(ctx, used)
}

// TestTopics: what Postrider uses topics for, and what the brokers say of them. On kfake and on a real broker.
func TestTopics(t *testing.T) {
	t.Parallel()
	kafkatest.Each(t, func(t *testing.T, b *kafkatest.Broker) {
		l := look(t, b)
		other := b.Topic(t, 1, nil)
		got, err := l.Topics(t.Context())
		if err != nil || !got.LookedAt.Equal(l.now) {
			t.Fatalf("%v, %v", got, err)
		}
		found := map[string]api.Topic{}
		for _, topic := range got.Items {
			found[topic.Name] = topic
		}
		for name, want := range map[string]api.Topic{
			l.orders:                 {Exists: true, Partitions: 2, Uses: []api.TopicUse{api.UsedForEvents}, Waits: true},
			l.dlq:                    {Exists: true, Partitions: 1, Uses: []api.TopicUse{api.UsedForDeadLetters, api.UsedForCollecting}},
			"postrider.consumer.dlq": {Uses: []api.TopicUse{api.UsedForCollecting}},
			l.missing:                {Uses: []api.TopicUse{api.UsedForLifecycle}},
			l.retry:                  {Exists: true, Partitions: 1, Uses: []api.TopicUse{api.UsedForRetries}},
			l.ours:                   {Exists: true, Partitions: 1, Uses: []api.TopicUse{api.UsedForCollecting}},
		} {
			got := found[name]
			if got.Exists != want.Exists || got.Partitions != want.Partitions || !slices.Equal(got.Uses, want.Uses) || got.Waits != want.Waits || got.Problem != nil || got.Leaderless != 0 || got.Exists && got.Replicas < 1 {
				t.Errorf("%s: %+v, want %+v", name, got, want)
			}
		}
		if len(got.Items) != 6 {
			t.Errorf("%d topics, want 6 without %s: %+v", len(got.Items), other, got.Items)
		}
	})
}

// TestConsumers: a group is behind by what it has not committed, and stands when messages wait and half a minute of answers
// had no commit. On kfake and on a real broker.
func TestConsumers(t *testing.T) {
	t.Parallel()
	kafkatest.Each(t, func(t *testing.T, b *kafkatest.Broker) {
		l := look(t, b)
		group := l.orders + "-billing"
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
		defer cancel()
		produce := func(partition int32) {
			t.Helper()
			if err := l.client.ProduceSync(ctx, &kgo.Record{Topic: l.orders, Partition: partition, Value: []byte("x")}).FirstErr(); err != nil {
				t.Fatal(err)
			}
		}
		commit := func(partition int32, at int64) {
			t.Helper()
			offsets := kadm.Offsets{}
			offsets.AddOffset(l.orders, partition, at, -1)
			if err := l.admin.CommitAllOffsets(ctx, group, offsets); err != nil {
				t.Fatal(err)
			}
		}
		ours := func() api.ConsumerGroup {
			t.Helper()
			got, err := l.consumers(ctx)
			if err != nil {
				t.Fatal(err)
			}
			for _, g := range got.Items {
				if g.Name == group {
					return g
				}
				if len(g.Topics) == 0 {
					t.Errorf("%s reads none of our topics", g.Name)
				}
			}
			t.Fatalf("the group is not there: %+v", got.Items)
			return api.ConsumerGroup{}
		}
		commit(0, 0)
		commit(1, 0)
		for range 3 {
			produce(0)
		}
		if g := ours(); g.Lag != 3 || g.Standing != 0 || len(g.Partitions) != 2 || *g.Partitions[0].Lag != 3 || *g.Partitions[0].End != 3 || *g.Partitions[1].Lag != 0 || g.Members != 0 || !slices.Equal(g.Topics, []string{l.orders}) {
			t.Errorf("at first: %+v", g)
		}
		first := l.now
		l.now = l.now.Add(29 * time.Second)
		if g := ours(); g.Standing != 0 {
			t.Errorf("after 29 seconds: %+v", g)
		}
		l.now = l.now.Add(time.Second)
		if g := ours(); g.Standing != 1 || !g.Partitions[0].Standing || g.Partitions[1].Standing || !g.Partitions[0].BehindSince.Equal(first) {
			t.Errorf("after 30 seconds: %+v", g)
		}
		commit(0, 1) // it moves
		produce(1)   // and this one has only begun to wait
		if g := ours(); g.Standing != 0 || g.Lag != 3 || !g.Partitions[0].BehindSince.Equal(l.now) {
			t.Errorf("after a commit: %+v", g)
		}
		commit(0, 3)
		l.now = l.now.Add(time.Minute)
		if g := ours(); g.Lag != 1 || g.Partitions[0].BehindSince != nil || !g.Partitions[1].Standing {
			t.Errorf("read to the end: %+v", g)
		}
		// A member that has committed nothing reads a topic, too.
		reader := b.Client(t, kgo.ConsumerGroup(group+"-new"), kgo.ConsumeTopics(l.ours))
		for {
			reading, stop := context.WithTimeout(ctx, 200*time.Millisecond)
			reader.PollFetches(reading)
			stop()
			got, err := l.consumers(ctx)
			if err != nil {
				t.Fatal(err)
			}
			if slices.ContainsFunc(got.Items, func(g api.ConsumerGroup) bool {
				return g.Name == group+"-new" && g.Members == 1 && slices.Contains(g.Topics, l.ours)
			}) {
				return
			}
		}
	})
}

// TestBrokersAway: that no broker answers is an error which says so, and no empty list. It has no address of a broker, which the
// log has.
func TestBrokersAway(t *testing.T) {
	t.Parallel()
	b := kafkatest.Kfake(t)
	l := look(t, b)
	b.Cluster.Close()
	for name, ask := range map[string]func() error{
		"topics":    func() error { _, err := l.Topics(t.Context()); return err },
		"consumers": func() error { _, err := l.Consumers(t.Context(), api.Topics{}); return err },
	} {
		l.log.Reset()
		if err := ask(); !errors.Is(err, ErrBrokers) || strings.Contains(err.Error(), "127.0.0.1") || !strings.HasSuffix(err.Error(), ": no answer") {
			t.Errorf("%s: %v", name, err)
		}
		if !strings.Contains(l.log.String(), "127.0.0.1") {
			t.Errorf("%s: the log has %s", name, &l.log)
		}
	}
}

func TestRetryTopicsAreKnownByName(t *testing.T) {
	t.Parallel()
	sources := map[string]bool{"orders": true, "eu.orders": true}
	for name, want := range map[string]bool{
		"orders.billing.retry": true, "orders.billing.retry.10s": true, "eu.orders.a.b.retry": true, "orders.retry": false, "orders..retry": false,
		"payments.billing.retry": false, "orders.billing.retry.10s.x": false, "orders.billing.retries": false, "orders": false,
	} {
		if isRetry(name, sources) != want {
			t.Errorf("%s: %v, want %v", name, !want, want)
		}
	}
}

// TestOneBrokerSilent: the groups of the other brokers are there, and the answer says that it is not whole.
func TestOneBrokerSilent(t *testing.T) {
	t.Parallel()
	b := kafkatest.Kfake(t, kfake.NumBrokers(3))
	l := look(t, b)
	commit := func(group string) {
		t.Helper()
		offsets := kadm.Offsets{}
		offsets.AddOffset(l.orders, 0, 0, -1)
		if err := l.admin.CommitAllOffsets(t.Context(), group, offsets); err != nil {
			t.Fatal(err)
		}
	}
	for n := range 12 {
		commit(fmt.Sprint("group-", n))
	}
	all, err := l.consumers(t.Context())
	if err != nil || len(all.Items) != 12 || all.Incomplete != nil {
		t.Fatalf("%d groups, %v, %v", len(all.Items), all.Incomplete, err)
	}
	b.Cluster.ControlKey(kmsg.ListGroups.Int16(), func(kmsg.Request) (kmsg.Response, error, bool) {
		b.Cluster.KeepControl()
		return nil, errors.New("silent"), b.Cluster.CurrentNode() == 0
	})
	some, err := l.consumers(t.Context())
	if err != nil || len(some.Items) == 0 || len(some.Items) == 12 || some.Incomplete == nil || *some.Incomplete != "a broker did not list its groups: no answer" {
		t.Errorf("%d groups, %v, %v", len(some.Items), some.Incomplete, err)
	}
}

// TestAGroupStandsThoughItsOffsetsWereNotRead: an answer without the offsets of a group is no progress of the group.
func TestAGroupStandsThoughItsOffsetsWereNotRead(t *testing.T) {
	t.Parallel()
	b := kafkatest.Kfake(t)
	l := look(t, b)
	group := l.orders + "-billing"
	offsets := kadm.Offsets{}
	offsets.AddOffset(l.orders, 0, 0, -1)
	if err := l.admin.CommitAllOffsets(t.Context(), group, offsets); err != nil {
		t.Fatal(err)
	}
	if err := l.client.ProduceSync(t.Context(), &kgo.Record{Topic: l.orders, Value: []byte("x")}).FirstErr(); err != nil {
		t.Fatal(err)
	}
	first := l.now
	if got, err := l.consumers(t.Context()); err != nil || len(got.Items) != 1 || got.Items[0].Lag != 1 {
		t.Fatalf("%+v, %v", got.Items, err)
	}
	refused := make(chan bool, 1)
	b.Cluster.ControlKey(kmsg.OffsetFetch.Int16(), func(req kmsg.Request) (kmsg.Response, error, bool) {
		asked := req.(*kmsg.OffsetFetchRequest)
		resp := asked.ResponseKind().(*kmsg.OffsetFetchResponse)
		resp.ErrorCode = kerr.GroupAuthorizationFailed.Code
		for _, g := range asked.Groups {
			resp.Groups = append(resp.Groups, kmsg.OffsetFetchResponseGroup{Group: g.Group, ErrorCode: kerr.GroupAuthorizationFailed.Code})
		}
		refused <- true
		return resp, nil, true
	})
	l.now = l.now.Add(20 * time.Second)
	// What the group reads is unknown now, and the answer says why.
	if got, err := l.consumers(t.Context()); err != nil || len(got.Items) != 1 || got.Items[0].Name != group || got.Items[0].Problem == nil ||
		!strings.Contains(*got.Items[0].Problem, "its offsets cannot be read: GROUP_AUTHORIZATION_FAILED") || len(got.Items[0].Topics) != 0 {
		t.Errorf("with its offsets refused: %+v, %v", got.Items, err)
	}
	<-refused
	l.now = l.now.Add(20 * time.Second)
	got, err := l.consumers(t.Context())
	if err != nil || len(got.Items) != 1 || got.Items[0].Standing != 1 || !got.Items[0].Partitions[0].BehindSince.Equal(first) {
		t.Errorf("%+v, %v", got.Items, err)
	}
}

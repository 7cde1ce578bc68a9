package postgres

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/postrider/postrider/internal/relay"
	"github.com/postrider/postrider/internal/relay/kafka"
	"github.com/postrider/postrider/internal/testenv/kafkatest"
	"github.com/postrider/postrider/internal/testenv/pgtest"
)

func TestLogCarries(t *testing.T) {
	db := pgtest.New(t)
	pool := db.Pool(t)
	broker := kafkatest.Kfake(t)
	addr := broker.Addrs
	broker.CreateTopic(t, "t", 3, nil)
	relayPool, err := NewPool(t.Context(), db.URL, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer relayPool.Close()
	publisher, err := kafka.NewPublisher(kafka.Config{Brokers: addr})
	if err != nil {
		t.Fatal(err)
	}
	defer publisher.Close()
	r, err := relay.New(relay.Config{Store: NewStore(relayPool, StoreOptions{}), Publisher: publisher, Logger: slog.New(slog.NewTextHandler(t.Output(), nil))})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	for i := range 1000 {
		pgtest.Exec(t, pool, `insert into postrider.outbox_event (topic, key, payload) values ('t', $1, $2)`, fmt.Appendf(nil, "k%d", i%7), fmt.Appendf(nil, "%d", i))
	}
	c, err := kgo.NewClient(kgo.SeedBrokers(addr...), kgo.ConsumeTopics("t"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	got := map[string][]string{}
	n := 0
	deadline, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	for n < 1000 {
		f := c.PollFetches(deadline)
		if deadline.Err() != nil {
			t.Fatalf("%d events arrived", n)
		}
		f.EachRecord(func(r *kgo.Record) {
			got[string(r.Key)] = append(got[string(r.Key)], string(r.Value))
			n++
		})
	}
	stop()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	for k, vs := range got {
		ints := make([]int, len(vs))
		for i, v := range vs {
			fmt.Sscan(v, &ints[i])
		}
		if !slices.IsSorted(ints) {
			t.Errorf("key %s out of order", k)
		}
	}
	if p := pgtest.Value[int64](t, pool, "select position from postrider.outbox_progress"); p != 1000 {
		t.Errorf("position %d", p)
	}
	if p := pgtest.Value[string](t, pool, "select note from postrider.outbox_receipt order by number desc limit 1"); p != "ended" {
		t.Errorf("note %s", p)
	}
	if p := pgtest.Value[int64](t, pool, "select count(*) from postrider.v_outbox_event where status = 'succeeded' and sent_at is not null"); p != 1000 {
		t.Errorf("%d succeeded", p)
	}
}

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

// Events that wait for a missing topic come in order when the topic is there, together with events written meanwhile.
func TestWaitsForItsTopic(t *testing.T) {
	db := pgtest.New(t)
	pool := db.Pool(t)
	broker := kafkatest.Kfake(t)
	relayPool, err := NewPool(t.Context(), db.URL, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer relayPool.Close()
	publisher, err := kafka.NewPublisher(kafka.Config{Brokers: broker.Addrs})
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
	write := func(from, to int) {
		for i := from; i < to; i++ {
			pgtest.Exec(t, pool, `insert into postrider.outbox_event (topic, key, payload) values ('t', $1, $2)`, fmt.Appendf(nil, "k%d", i%7), fmt.Appendf(nil, "%d", i))
		}
	}
	const events = 1500
	write(0, 500)
	for pgtest.Value[int64](t, pool, `select count(*) from postrider.outbox_exception where state = 'parked'`) < 500 {
		if t.Context().Err() != nil {
			t.Fatal("nothing is parked")
		}
	}
	broker.CreateTopic(t, "t", 3, nil)
	write(500, events)
	c := broker.Client(t, kgo.ConsumeTopics("t"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	got := map[string][]int{}
	n := 0
	deadline, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	for n < events {
		f := c.PollFetches(deadline)
		if deadline.Err() != nil {
			t.Fatalf("%d events arrived", n)
		}
		f.EachRecord(func(r *kgo.Record) {
			var i int
			_, _ = fmt.Sscan(string(r.Value), &i)
			got[string(r.Key)] = append(got[string(r.Key)], i)
			n++
		})
	}
	for pgtest.Value[int64](t, pool, `select count(*) from postrider.outbox_hold`) > 0 {
		if deadline.Err() != nil {
			t.Fatal("the hold does not end")
		}
	}
	stop()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	for k, is := range got {
		if !slices.IsSorted(is) {
			t.Errorf("key %s is out of order: %v", k, is)
		}
	}
	if left := pgtest.Value[int64](t, pool, `select count(*) from postrider.outbox_exception`); left != 0 {
		t.Errorf("%d exceptions are left", left)
	}
	if n != events {
		t.Errorf("%d records for %d events", n, events)
	}
}

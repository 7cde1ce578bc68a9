package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/postrider/postrider/consumer"
	"github.com/postrider/postrider/consumer/kafka"
)

// runMember is the child that consumes: it says how many seconds passed from the first record until all were done with.
func runMember(ctx context.Context, g *gate) error {
	var w consumed
	if err := json.Unmarshal([]byte(os.Getenv("BENCH_CONSUME")), &w); err != nil {
		return fmt.Errorf("BENCH_CONSUME: %w", err)
	}
	if err := g.await(ctx); err != nil {
		return err
	}
	run := runConsumer
	if w.Bare {
		run = runPollLoop
	}
	took, err := run(ctx, w)
	if err != nil {
		return err
	}
	fmt.Println("done", took.Seconds())
	<-ctx.Done()
	return nil
}

// runPollLoop is a program on the client alone: poll, look at each record, commit once a second.
func runPollLoop(ctx context.Context, w consumed) (time.Duration, error) {
	client, err := kgo.NewClient(kgo.SeedBrokers(w.Broker), kgo.ConsumerGroup(w.Group), kgo.ConsumeTopics(w.Topic), kgo.DisableAutoCommit(),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.DisableClientMetrics())
	if err != nil {
		return 0, err
	}
	defer client.Close()
	var began, committed time.Time
	for n := 0; n < w.Records; {
		fetches := client.PollFetches(ctx)
		if err := fetches.Err0(); err != nil {
			return 0, err
		}
		if began.IsZero() {
			began, committed = time.Now(), time.Now()
		}
		fetches.EachRecord(func(r *kgo.Record) {
			if len(r.Value) > 0 {
				n++
			}
		})
		if time.Since(committed) >= time.Second {
			if err := client.CommitUncommittedOffsets(ctx); err != nil {
				return 0, err
			}
			committed = time.Now()
		}
	}
	if err := client.CommitUncommittedOffsets(ctx); err != nil {
		return 0, err
	}
	return time.Since(began), nil
}

// runConsumer is the library, until as many records were handled; a run over all of the topic waits until they are
// committed.
func runConsumer(ctx context.Context, w consumed) (time.Duration, error) {
	client, err := kafka.NewClient(kafka.Config{Brokers: []string{w.Broker}, CreateTopics: true})
	if err != nil {
		return 0, err
	}
	var handled, first atomic.Int64
	enough := make(chan struct{})
	c, err := consumer.New(consumer.Config{Client: client, Group: w.Group, Topics: []string{w.Topic}, Concurrency: w.Concurrency},
		consumer.HandlerFunc(func(_ context.Context, m *consumer.Message) error {
			if w.Handler > 0 {
				time.Sleep(w.Handler)
			}
			if len(m.Value) == 0 {
				return nil
			}
			switch handled.Add(1) {
			case 1:
				first.Store(time.Now().Add(-w.Handler).UnixNano())
			case int64(w.Records):
				close(enough)
			}
			return nil
		}))
	if err != nil {
		return 0, err
	}
	running, stop := context.WithCancel(ctx)
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- c.Run(running) }()
	select {
	case <-enough:
	case err := <-ended:
		return 0, err
	}
	last := time.Now()
	stop() // commits
	if err := <-ended; err != nil {
		return 0, err
	}
	began := time.Unix(0, first.Load())
	if w.Handler > 0 {
		return last.Sub(began), nil
	}
	took := time.Since(began) // with the commit, and leaving the group
	return took, allCommitted(w)
}

// allCommitted checks that the group is done with everything.
func allCommitted(w consumed) error {
	client, err := kgo.NewClient(kgo.SeedBrokers(w.Broker), kgo.DisableClientMetrics())
	if err != nil {
		return err
	}
	defer client.Close()
	offsets, err := kadm.NewClient(client).FetchOffsets(context.Background(), w.Group)
	if err != nil {
		return err
	}
	sum := int64(0)
	for _, o := range offsets[w.Topic] {
		sum += o.At
	}
	if sum != int64(w.Records) {
		return fmt.Errorf("%d records are committed, not %d", sum, w.Records)
	}
	return nil
}

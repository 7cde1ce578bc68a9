package main

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
	"github.com/twmb/franz-go/pkg/kgo"
)

// publish is a job that sends one record: what an outbox on a job queue looks like.
type publish struct {
	Topic   string `json:"topic"`
	Key     string `json:"key"`
	Payload []byte `json:"payload"`
}

func (publish) Kind() string { return "publish" }

// publisher works these jobs with one shared producer, which sends what the workers hand over at the same time together.
type publisher struct {
	river.WorkerDefaults[publish]
	client *kgo.Client
}

func (p *publisher) Work(ctx context.Context, job *river.Job[publish]) error {
	return p.client.ProduceSync(ctx, &kgo.Record{Topic: job.Args.Topic, Key: []byte(job.Args.Key), Value: job.Args.Payload}).FirstErr()
}

// riverPeer is a River queue. It keeps no order, and says so.
type riverPeer struct{ *task }

func newRiver(t *task) *riverPeer { return &riverPeer{t} }

// insertAtOnce is how many jobs are inserted with one copy.
const insertAtOnce = 5000

func (p *riverPeer) load(ctx context.Context) error {
	migrator, err := rivermigrate.New(riverpgxv5.New(p.pool), nil)
	if err != nil {
		return err
	}
	if _, err := migrator.Migrate(ctx, rivermigrate.DirectionUp, nil); err != nil {
		return err
	}
	client, err := river.NewClient(riverpgxv5.New(p.pool), &river.Config{})
	if err != nil {
		return err
	}
	end := p.first + p.events
	for from := p.first; from < end; from += insertAtOnce {
		var jobs []river.InsertManyParams
		for n := from; n < min(from+insertAtOnce, end); n++ {
			jobs = append(jobs, river.InsertManyParams{Args: publish{p.topic, p.key(n), p.body(n)}})
		}
		if _, err := client.InsertManyFast(ctx, jobs); err != nil {
			return err
		}
	}
	return nil
}

func (p *riverPeer) work(ctx context.Context) error {
	producer, err := kgo.NewClient(kgo.SeedBrokers(p.broker), kgo.DisableClientMetrics())
	if err != nil {
		return err
	}
	defer producer.Close()
	workers := river.NewWorkers()
	river.AddWorker(workers, &publisher{client: producer})
	// 100 workers are what River's documentation begins with; it has no default.
	queue := river.QueueConfig{MaxWorkers: 100}
	config := &river.Config{Workers: workers, Logger: slog.New(slog.DiscardHandler)}
	if p.tuned {
		queue.MaxWorkers = 2000
		config.FetchCooldown, config.FetchPollInterval = 5*time.Millisecond, 50*time.Millisecond
	}
	config.Queues = map[string]river.QueueConfig{river.QueueDefault: queue}
	client, err := river.NewClient[pgx.Tx](riverpgxv5.New(p.pool), config)
	if err != nil {
		return err
	}
	if err := client.Start(context.WithoutCancel(ctx)); err != nil {
		return fmt.Errorf("start River: %w", err)
	}
	<-ctx.Done()
	stopping, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	return client.StopAndCancel(stopping)
}

package main

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill-kafka/v3/pkg/kafka"
	"github.com/ThreeDotsLabs/watermill-sql/v4/pkg/sql"
	"github.com/ThreeDotsLabs/watermill/components/forwarder"
	"github.com/ThreeDotsLabs/watermill/message"
)

// keyHeader carries the Kafka key through Watermill, which has no field for it.
const keyHeader = "key"

// tunedLanes is how many forwarders the tuned form runs, each on an outbox table of its own: one forwards a
// message at a time and waits for its acknowledgement. A key stays in one lane and so keeps its order.
const tunedLanes = 8

// watermillPeer is watermill-sql with the forwarder to Kafka.
type watermillPeer struct {
	*task
	lanes  int
	schema sql.DefaultPostgreSQLSchema
	logger watermill.LoggerAdapter
}

func newWatermill(t *task) *watermillPeer {
	p := &watermillPeer{task: t, lanes: 1, logger: watermill.NopLogger{}}
	if t.tuned {
		p.lanes = tunedLanes
		p.schema.SubscribeBatchSize = 2000
	}
	return p
}

func lane(n int) string { return fmt.Sprintf("outbox_%d", n) }

// load writes each message in a transaction of its own, as services do: the subscriber's query is about
// transaction ids, and one large transaction would be another case. None waits for the disk.
func (p *watermillPeer) load(ctx context.Context) error {
	sub, err := p.subscriber()
	if err != nil {
		return err
	}
	defer func() { _ = sub.Close() }()
	for n := range p.lanes {
		if err := sub.SubscribeInitialize(lane(n)); err != nil {
			return err
		}
	}
	conn, err := p.pool.Acquire(ctx)
	if err != nil {
		return err
	}
	defer conn.Release()
	if _, err := conn.Exec(ctx, "set synchronous_commit = off"); err != nil {
		return err
	}
	out, err := sql.NewPublisher(sql.BeginnerFromPgx(conn), sql.PublisherConfig{SchemaAdapter: p.schema}, p.logger)
	if err != nil {
		return err
	}
	writers := make([]*forwarder.Publisher, p.lanes)
	for n := range writers {
		writers[n] = forwarder.NewPublisher(out, forwarder.PublisherConfig{ForwarderTopic: lane(n)})
	}
	for n := p.first; n < p.first+p.events; n++ {
		m := message.NewMessage(watermill.NewUUID(), p.body(n))
		m.Metadata.Set(keyHeader, p.key(n))
		m.SetContext(ctx)
		h := fnv.New32a()
		_, _ = h.Write([]byte(p.key(n)))
		if err := writers[int(h.Sum32())%p.lanes].Publish(p.topic, m); err != nil {
			return err
		}
	}
	_, err = conn.Exec(ctx, "set synchronous_commit = on")
	return err
}

func (p *watermillPeer) subscriber() (*sql.Subscriber, error) {
	config := sql.SubscriberConfig{SchemaAdapter: p.schema, OffsetsAdapter: sql.DefaultPostgreSQLOffsetsAdapter{}, InitializeSchema: true}
	if p.tuned {
		config.PollInterval = 10 * time.Millisecond
	}
	return sql.NewSubscriber(sql.BeginnerFromPgx(p.pool), config, p.logger)
}

func (p *watermillPeer) work(ctx context.Context) error {
	publisher, err := kafka.NewPublisher(kafka.PublisherConfig{
		Brokers: []string{p.broker},
		Marshaler: kafka.NewWithPartitioningMarshaler(func(_ string, m *message.Message) (string, error) {
			return m.Metadata.Get(keyHeader), nil
		}),
	}, p.logger)
	if err != nil {
		return err
	}
	defer func() { _ = publisher.Close() }()
	ended := make(chan error, p.lanes)
	for n := range p.lanes {
		sub, err := p.subscriber()
		if err != nil {
			return err
		}
		f, err := forwarder.NewForwarder(sub, publisher, p.logger, forwarder.Config{ForwarderTopic: lane(n), CloseTimeout: 5 * time.Second})
		if err != nil {
			return err
		}
		go func() {
			err := f.Run(ctx)
			if ctx.Err() != nil && errors.Is(err, context.Canceled) {
				err = nil // told to stop while it began
			}
			ended <- errors.Join(err, sub.Close())
		}()
	}
	var errs []error
	for range p.lanes {
		errs = append(errs, <-ended)
	}
	return errors.Join(errs...)
}

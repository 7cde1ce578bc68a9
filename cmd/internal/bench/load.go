package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kgo"
)

// warmUp is how many events pass, at warmRate a second, before those that count: by then connections are open,
// statements parsed and the topic known.
const warmUp, warmRate = 200, 1000

// load is a relay at work between writers that keep a schedule and a consumer.
type load struct {
	b        *broker
	url      string
	topic    string
	events   int
	relay    *child
	schedule schedule
	arrivals *arrivals
	client   *kgo.Client
	cancel   context.CancelFunc
	consumed chan error
}

// startLoad starts the relay and the consumer and sends the first events through. configs are the topic's. A
// load is returned with an error too and must be stopped.
func (r *rig) startLoad(ctx context.Context, b *broker, d *database, s relaySide, rate, events int, configs map[string]*string) (*load, error) {
	l := &load{b: b, url: d.url, events: events, arrivals: newArrivals(warmUp + events), consumed: make(chan error, 1)}
	if err := d.empty(ctx); err != nil {
		return l, err
	}
	var err error
	if l.topic, err = b.newTopic(ctx, configs); err != nil {
		return l, err
	}
	if l.client, err = b.consumer(l.topic); err != nil {
		return l, err
	}
	consuming, cancel := context.WithCancel(ctx)
	l.cancel = cancel
	go func() { l.consumed <- l.arrivals.consume(consuming, l.client) }()
	if l.relay, err = r.startRelay(b, d.url, s, "load"); err != nil {
		return l, err
	}
	if err := l.relay.start(); err != nil {
		return l, err
	}
	l.schedule = schedule{topic: l.topic, rate: warmRate, clients: r.o.clients, keys: r.o.keys, payload: r.o.payload}
	if err := l.schedule.run(ctx, l.url, warmUp, l.arrivals.committed); err != nil {
		return l, fmt.Errorf("warm up: %w", err)
	}
	if err := l.arrivals.all(ctx, warmUp); err != nil {
		return l, fmt.Errorf("warm up: %w", err)
	}
	l.arrivals.latency.take()
	l.schedule.late.take()
	l.schedule.first, l.schedule.rate = warmUp, rate
	return l, nil
}

// write keeps the schedule to its end.
func (l *load) write(ctx context.Context) error {
	return l.schedule.run(ctx, l.url, l.events, l.arrivals.committed)
}

// complete waits until everything that was written has arrived.
func (l *load) complete(ctx context.Context) error { return l.arrivals.all(ctx, warmUp+l.events) }

// stop ends the consumer and the relay.
func (l *load) stop() error {
	var errs []error
	if l.cancel != nil {
		l.cancel()
		errs = append(errs, <-l.consumed)
	}
	if l.client != nil {
		l.client.Close()
	}
	if l.relay != nil {
		errs = append(errs, l.relay.stop())
	}
	if l.topic != "" {
		l.b.deleteTopic(l.topic)
	}
	return errors.Join(errs...)
}

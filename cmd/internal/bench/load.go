package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kgo"
)

// warmRate is how many events a second warm a side up that is measured under a load.
const warmRate = 2000

// load is a side at work between writers that keep a schedule and a consumer.
type load struct {
	*stage
	clients  *clients
	arrivals *arrivals
	own      int // events that it writes itself; behind them are the events of others
	client   *kgo.Client
	cancel   context.CancelFunc
	consumed chan error
}

// loadSize says how many events a load has: events that warm up, events that count, and events of others to its topic
// that the load does not write itself.
type loadSize struct{ warm, events, extra int }

// startLoad starts the side and the consumer and sends the first events through. configs are the topic's. A load is
// returned with an error too and must be stopped.
func (r *rig) startLoad(ctx context.Context, b *broker, s side, size loadSize, configs map[string]*string) (l *load, err error) {
	if l, err = r.newLoad(ctx, b, s, size, configs); err != nil {
		return l, err
	}
	return l, l.begin(ctx, size.warm)
}

// newLoad makes what a load stands on, and starts nothing. It is returned with an error too and must be stopped.
func (r *rig) newLoad(ctx context.Context, b *broker, s side, size loadSize, configs map[string]*string) (l *load, err error) {
	l = &load{own: size.warm + size.events, arrivals: newArrivals(size.warm+size.events, size.extra), consumed: make(chan error, 1)}
	l.stage, err = r.newStage(ctx, b, s, configs)
	return l, err
}

// begin starts the side and the consumer, and sends the events through that warm them up.
func (l *load) begin(ctx context.Context, warm int) (err error) {
	if l.client, err = l.b.consumer(l.topic); err != nil {
		return err
	}
	consuming, cancel := context.WithCancel(ctx)
	l.cancel = cancel
	go func() { l.consumed <- l.arrivals.consume(consuming, l.client) }()
	if err := l.run(ctx); err != nil {
		return err
	}
	if l.clients, err = l.connect(ctx, l.o.clients, l.arrivals.writes); err != nil {
		return err
	}
	if err := l.write(ctx, 0, warm, warmRate); err != nil {
		return fmt.Errorf("warm up: %w", err)
	}
	if l.proc != nil {
		if err := l.arrivals.all(ctx, warm); err != nil {
			return fmt.Errorf("warm up: %w", err)
		}
	}
	l.arrivals.latency.take()
	l.clients.commit.take()
	l.clients.late.take()
	return nil
}

// write keeps a schedule of n events from a number on.
func (l *load) write(ctx context.Context, first, n, rate int) error {
	return l.writeTogether(ctx, first, n, rate, 1)
}

// writeTogether is write with so many events in each transaction.
func (l *load) writeTogether(ctx context.Context, first, n, rate, together int) error {
	working, cancel := alive(ctx, l.processes()...)
	defer cancel()
	return because(working, l.clients.scheduleTogether(working, func(seq int) event { return l.o.event(l.topic, seq) }, first, n, rate, together, l.arrivals.committed))
}

// complete waits until everything that was written has arrived, if anything carries it.
func (l *load) complete(ctx context.Context, events int) error {
	if l.proc == nil {
		return nil
	}
	working, cancel := alive(ctx, l.processes()...)
	defer cancel()
	return because(working, l.arrivals.all(working, events))
}

// contents reads the topic when the side has ended.
func (l *load) contents(ctx context.Context, events int) (contents, error) {
	if l.proc == nil {
		return contents{}, nil
	}
	if err := l.stage.stop(); err != nil {
		return contents{}, err
	}
	return l.b.contents(ctx, events, l.written, l.topic)
}

// written is the history of its events; the events of others were inserted by their numbers, and have keys of their own.
func (l *load) written(seq int) (began, done int64) {
	if seq >= l.own {
		return loaded(seq)
	}
	return l.arrivals.writes.times(seq)
}

// meter reads the time of all that takes part, the writers' backends apart.
func (l *load) meter() meter {
	return meter{rig: l.rig, b: l.b, sides: l.processes(), writers: l.clients.backends()}
}

// end ends the consumer and the side.
func (l *load) end() error {
	var errs []error
	if l.cancel != nil {
		l.cancel()
		errs = append(errs, <-l.consumed)
	}
	if l.client != nil {
		l.client.Close()
	}
	if l.clients != nil {
		l.clients.close()
	}
	if l.stage != nil {
		errs = append(errs, l.close())
	}
	return errors.Join(errs...)
}

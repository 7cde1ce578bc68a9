package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/postrider/postrider/internal/loop"
)

// disturbance describes the events of another writer.
type disturbance struct {
	name   string
	events int
	oneKey bool // all with one key, in the topic of the others; otherwise with many, in a topic of their own
}

// disturbedAtOnce is how many of them are written in a transaction.
const disturbedAtOnce = 1000

// isolationSample is how the others fared, in milliseconds, and how long the disturbance lasted.
type isolationSample struct {
	p50, p99, longest float64
	seconds           float64 // from the first insert of the disturbance to its last event's arrival
	outlasted         bool    // the load ended before the disturbance did
	contents
}

// hotKey measures the others' events beside a key with a great many.
func hotKey(ctx context.Context, r *rig, b *broker, t *table) error {
	return r.isolation(ctx, b, t, disturbance{fmt.Sprintf("beside a hot key with %d events", r.o.hotEvents), r.o.hotEvents, true})
}

// burst measures them beside a topic with a great many.
func burst(ctx context.Context, r *rig, b *broker, t *table) error {
	return r.isolation(ctx, b, t, disturbance{fmt.Sprintf("beside a burst of %d events of one topic", r.o.burstEvents), r.o.burstEvents, false})
}

func (r *rig) isolation(ctx context.Context, b *broker, t *table, d disturbance) error {
	type isolationCase struct {
		side
		d *disturbance
	}
	var cases []isolationCase
	for _, s := range r.carriers(b, "postrider", "logical", "poller") {
		cases = append(cases, isolationCase{s, nil}, isolationCase{s, &d})
	}
	all, err := inTurns(r.o.runs, cases, func(c isolationCase) (isolationSample, error) {
		name, _ := c.title()
		sample, err := r.isolationOnce(ctx, b, c.side, c.d)
		return sample, about(name, err)
	})
	if err != nil {
		return err
	}
	for i, c := range cases {
		of := func(f func(isolationSample) float64) []float64 { return pick(all[i], f) }
		p99 := func(s isolationSample) float64 { return s.p99 }
		name, settings := c.title()
		cells := []cell{{Name: "others' p50 ms", Runs: of(func(s isolationSample) float64 { return s.p50 })}, {Name: "others' p99 ms", Runs: of(p99)}}
		if c.d == nil {
			name += ", alone"
		} else {
			name += ", " + c.d.name
			cells = append(cells, cell{Name: "p99, of alone", Runs: paired(of(p99), pick(all[i-1], p99))})
		}
		cells = append(cells, cell{Name: "others' longest ms", Runs: of(func(s isolationSample) float64 { return s.longest })})
		if c.d != nil {
			cells = append(cells, cell{Name: "over after s", Runs: of(func(s isolationSample) float64 { return s.seconds })})
		}
		t.add(b, name, settings, append(cells, contentCells(pick(all[i], func(s isolationSample) contents { return s.contents }))...)...)
		for _, sample := range all[i] {
			if sample.outlasted {
				t.note("%s: the disturbance outlasted the load; raise -duration.", name)
			}
		}
	}
	t.note("The others write %d events a second for %v; a connection writes the disturbance in transactions of %d as fast as it goes. Beside it, their times are of the events committed from its first insert until its last event arrived; alone, of all.", r.o.rate, r.o.duration, disturbedAtOnce)
	return nil
}

func (r *rig) isolationOnce(ctx context.Context, b *broker, s side, d *disturbance) (sample isolationSample, err error) {
	n, warm, extra := max(1, int(float64(r.o.rate)*r.o.duration.Seconds())), r.warming(warmLoad), 0
	if d != nil && d.oneKey {
		extra = d.events
	}
	l, err := r.startLoad(ctx, b, s, loadSize{warm, n, extra}, nil)
	defer func() { err = errors.Join(err, l.end()) }()
	if err != nil {
		return sample, err
	}
	var others sync.WaitGroup
	var writing error
	var ended int64
	from := l.arrivals.writes.now()
	others.Go(func() {
		writing = l.write(ctx, warm, n, r.o.rate)
		ended = l.arrivals.writes.now()
	})
	to := int64(0)
	if d != nil {
		from, to, err = l.disturb(ctx, *d, warm+n)
	}
	others.Wait()
	if err := errors.Join(err, writing); err != nil {
		return sample, err
	}
	if err := l.complete(ctx, warm+n); err != nil {
		return sample, err
	}
	if to == 0 {
		to = ended
	}
	h := l.arrivals.between(from, to)
	sample.p50, sample.p99, sample.longest = h.quantile(0.5), h.quantile(0.99), h.quantile(1)
	sample.seconds, sample.outlasted = time.Duration(to-from).Seconds(), to > ended
	name, _ := s.title()
	r.say("isolation, %s: others' p99 %.2f ms, longest %.1f ms, over after %.1f s", name, sample.p99, sample.longest, sample.seconds)
	sample.contents, err = l.contents(ctx, warm+n+extra)
	return sample, err
}

// disturb writes the disturbance, numbered from first on, waits until it is over, and returns when it began and ended.
func (l *load) disturb(ctx context.Context, d disturbance, first int) (from, to int64, err error) {
	if err := loop.Sleep(ctx, l.o.duration/10); err != nil {
		return 0, 0, err
	}
	topic := l.topic
	if !d.oneKey {
		if topic, err = l.b.newTopic(ctx, nil); err != nil {
			return 0, 0, err
		}
		defer l.b.deleteTopic(topic)
	}
	hot := []byte("hot")
	from = l.arrivals.writes.now()
	if err := l.side.outbox().load(ctx, l.d.conn, first, d.events, disturbedAtOnce, func(seq int) event {
		e := l.o.event(topic, seq)
		if d.oneKey {
			e.key = hot
		}
		return e
	}); err != nil {
		return 0, 0, err
	}
	if !d.oneKey {
		err = l.allDelivered(ctx, int64(d.events), topic)
		return from, l.arrivals.writes.now(), err
	}
	working, cancel := alive(ctx, l.processes()...)
	defer cancel()
	working, end := context.WithTimeoutCause(working, drainLimit, errors.New("the disturbance did not end"))
	defer end()
	for l.arrivals.extra.Load() < int64(d.events) {
		if err := loop.Sleep(working, everyTime); err != nil {
			return 0, 0, err
		}
	}
	return from, l.arrivals.writes.now(), nil
}

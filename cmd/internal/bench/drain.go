package main

import (
	"context"
	"fmt"
	"time"
)

// drainSide is one way to empty a backlog.
type drainSide struct {
	name   string
	floor  bool
	relays int // defaults to 1
	relaySide
	traced  bool // some of the events have a recorded trace
	scraped bool // its metrics are read while it works; it must serve them
}

// drainSample is one emptied backlog.
type drainSample struct {
	rate         float64 // events a second
	cost         cpu     // per 100,000 events
	peakMemory   float64 // of one relay, MiB
	sampleMemory float64
}

func rates(samples []drainSample) []float64 {
	return pick(samples, func(s drainSample) float64 { return s.rate })
}

func drainCosts(samples []drainSample) []cpu {
	return pick(samples, func(s drainSample) cpu { return s.cost })
}

// drain finds the best settings of each side with one run each, and then lets the sides take turns at theirs:
// the runs that were searched do not count, or luck would.
func drain(ctx context.Context, r *rig, b *broker, t *table) error {
	d, err := r.newDatabase(ctx, "bench_drain", true)
	if err != nil {
		return err
	}
	defer d.drop()
	sides := []drainSide{
		{name: "floor", floor: true},
		{name: "relay, deletes"},
		{name: "relay, marks", relaySide: relaySide{days: 30}},
	}
	for i := range sides {
		if err := r.search(ctx, b, d, &sides[i]); err != nil {
			return err
		}
	}
	all, err := r.takeTurns(ctx, b, d, sides)
	if err != nil {
		return err
	}
	floor := rates(all[0])
	for i, s := range sides {
		cells := []cell{{Name: "events/s", Runs: rates(all[i])}}
		switch s.name {
		case "relay, deletes":
			cells = append(cells, cell{"of floor", paired(rates(all[i]), floor), atLeast(0.60)})
		case "relay, marks":
			cells = append(cells, cell{"of floor", paired(rates(all[i]), floor), atLeast(0.45)})
		}
		t.add(b, s.name, s.text(), append(cells, costs(drainCosts(all[i]), "side")...)...)
	}
	t.note("%d waiting events. Each side at the best of batch sizes %v and workers %v, found by one run each that does not count.",
		r.o.events, r.o.batches, r.o.workers)
	return nil
}

// search sets the side to its best batch size and number of workers.
func (r *rig) search(ctx context.Context, b *broker, d *database, s *drainSide) error {
	best, batch, workers := 0.0, 0, 0
	for _, s.batch = range r.o.batches {
		for _, s.workers = range r.o.workers {
			sample, err := r.drainOnce(ctx, b, d, *s)
			if err != nil {
				return err
			}
			if sample.rate > best {
				best, batch, workers = sample.rate, s.batch, s.workers
			}
		}
	}
	s.batch, s.workers = batch, workers
	return nil
}

// text names the settings; a floor neither deletes nor marks.
func (s drainSide) text() string {
	if s.floor {
		return fmt.Sprintf("batch %d, %d workers", s.batch, s.workers)
	}
	return s.relaySide.text()
}

// takeTurns drains with each side, in turns.
func (r *rig) takeTurns(ctx context.Context, b *broker, d *database, sides []drainSide) ([][]drainSample, error) {
	return inTurns(r.o.runs, sides, func(s drainSide) (drainSample, error) { return r.drainOnce(ctx, b, d, s) })
}

// drainOnce loads a backlog and lets one side empty it. The clock runs from the word until nothing waits,
// and so includes opening the connections.
func (r *rig) drainOnce(ctx context.Context, b *broker, d *database, s drainSide) (sample drainSample, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("%s, %s: %w", s.name, s.text(), err)
		}
	}()
	topic, err := b.newTopic(ctx, nil)
	if err != nil {
		return sample, err
	}
	defer b.deleteTopic(topic)
	if err := d.empty(ctx); err != nil {
		return sample, err
	}
	if err := d.fill(ctx, topic, r.o.events); err != nil {
		return sample, err
	}
	if s.traced {
		if err := d.trace(ctx, sampledOneIn); err != nil {
			return sample, err
		}
	}
	children, err := r.startDrain(ctx, b, d, s)
	defer func() { _ = stopAll(children) }() // stopped below where all went well
	if err != nil {
		return sample, err
	}
	m := meter{r, b, children}
	before, start := m.now(), time.Now()
	for _, c := range children {
		if err := c.start(); err != nil {
			return sample, err
		}
	}
	stopScraping := func() error { return nil }
	if s.scraped {
		if stopScraping, err = scrapeChild(ctx, children[0]); err != nil {
			return sample, err
		}
	}
	memory := watchMemory(children[0].pid())
	if s.floor {
		_, err = children[0].line()
	} else {
		working, cancel := alive(ctx, children...)
		err = because(working, d.drained(working, b, topic, int64(r.o.events)))
		cancel()
	}
	took, after := time.Since(start), m.now()
	sample.sampleMemory, sample.peakMemory = memory.stop()
	if scrapeErr := stopScraping(); err == nil {
		err = scrapeErr
	}
	if err != nil {
		return sample, err
	}
	sample.rate, sample.cost = float64(r.o.events)/took.Seconds(), after.minus(before).per100k(int64(r.o.events))
	if err := stopAll(children); err != nil {
		return sample, err
	}
	r.say("%s (%s): %.0f events/s", s.name, s.text(), sample.rate)
	return sample, exactly(ctx, b, topic, int64(r.o.events))
}

// startDrain starts the side's processes. Those that run are returned with an error too.
func (r *rig) startDrain(ctx context.Context, b *broker, d *database, s drainSide) (children []*child, err error) {
	if s.floor {
		first, last, err := d.idRange(ctx)
		if err != nil {
			return nil, err
		}
		c, err := startFloor(floorWork{Database: d.url, Broker: b.address, Workers: s.workers, Batch: s.batch, First: first, Last: last})
		if c != nil {
			children = append(children, c)
		}
		return children, err
	}
	for range max(1, s.relays) {
		c, err := r.startRelay(b, d.url, s.relaySide, "drain")
		if c != nil {
			children = append(children, c)
		}
		if err != nil {
			return children, err
		}
	}
	return children, nil
}

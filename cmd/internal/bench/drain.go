package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"
)

// notANumber stands for what was not measured.
var notANumber = math.NaN()

// drainSample is one emptied backlog.
type drainSample struct {
	rate, middle         float64 // events a second: from the word to the last, and from the tenth to the ninetieth percent
	cost                 cpu     // per 100,000 events
	peakMemory, resident float64 // MiB
	contents
	part bool // time was up before the backlog was empty
}

func rates(samples []drainSample) []float64 {
	return pick(samples, func(s drainSample) float64 { return s.rate })
}

func drainCosts(samples []drainSample) []cpu {
	return pick(samples, func(s drainSample) cpu { return s.cost })
}

// drain lets all sides empty a backlog, Postrider as it comes.
func drain(ctx context.Context, r *rig, b *broker, t *table) error {
	sides := r.carriers(b)
	all, err := turns(r, sides, func(s side) (drainSample, error) { return r.drainOnce(ctx, b, s, nil) })
	if err != nil {
		return err
	}
	floor := nth(sides, floorSide.name)
	for i, s := range sides {
		cells := []cell{{Name: "events/s", Runs: rates(all[i])}}
		if floor >= 0 && i != floor {
			cells = append(cells, cell{Name: "of floor", Runs: paired(rates(all[i]), rates(all[floor]))})
		}
		if name, settings := s.title(); name == postriderName && settings == "defaults" {
			for j, other := range sides {
				if times := timesName(other); times != "" {
					cells = append(cells, cell{Name: times, Runs: paired(rates(all[i]), rates(all[j]))})
				}
			}
		}
		cells = append(cells, cell{Name: "10 % to 90 %", Runs: pick(all[i], func(s drainSample) float64 { return s.middle })})
		cells = append(append(cells, costs(drainCosts(all[i]), "side")...),
			cell{Name: "peak MiB", Runs: pick(all[i], func(s drainSample) float64 { return s.peakMemory })})
		name, settings := s.title()
		t.add(b, name, settings, append(cells, contentCells(pick(all[i], func(s drainSample) contents { return s.contents }))...)...)
		for _, sample := range all[i] {
			if sample.part {
				t.note("%s, %s: what passed in %v; what is missing was not waited for.", name, settings, r.o.peerLimit)
			}
		}
	}
	t.note("%d waiting events (%d for watermill and river). Each process has sent %d events before (a Java machine %d, watermill and river %d), is frozen while the backlog is written, vacuum and a checkpoint are done, and then goes on: that starts the clock, and the topic's last record ends it.",
		r.o.events, r.o.peerEvents, r.warming(warmEvents), r.warming(warmJavaEvents), r.warming(peer{}.warming()))
	t.note("Only Postrider retries, holds keys, partitions and topics back, and dead-letters. The floor loses events that commit late. Watermill's producer waits for the leader alone (acks=1), tuned it runs eight forwarders, a key always in the same. River is a job queue: a job sends one event, no order is kept; its documentation's 100 workers, tuned 2000.")
	return nil
}

// timesName names how many times faster Postrider is than a side; empty where it is not asked.
func timesName(s side) string {
	switch s := s.(type) {
	case program:
		if s.name != floorSide.name {
			return "times " + s.name
		}
	case captor:
		if s.tuned {
			return "times Debezium, tuned"
		}
	}
	return ""
}

// warming bounds the events that warm a side up by the option.
func (r *rig) warming(n int) int { return min(n, r.o.warm) }

// drainOnce loads a backlog and lets a side that has run before empty it. beside is done meanwhile, if given: it is
// started with the clock, and what it returns ends it.
func (r *rig) drainOnce(ctx context.Context, b *broker, s side, beside func(context.Context, process) (func() error, error)) (sample drainSample, err error) {
	st, err := r.newStage(ctx, b, s, nil)
	if err != nil {
		return sample, err
	}
	defer func() { err = errors.Join(err, st.close()) }()
	events, limit := r.o.events, drainLimit
	if slow(s) {
		events, limit = r.o.peerEvents, r.o.peerLimit
		if err := s.load(ctx, st, 0, 0); err != nil { // its tables are there before it works
			return sample, err
		}
	}
	if err := st.run(ctx); err != nil {
		return sample, err
	}
	warm := r.warming(s.warming())
	if err := st.warm(ctx, warm); err != nil {
		return sample, err
	}
	if err := freeze(st.proc); err != nil {
		return sample, err
	}
	if err := s.load(ctx, st, warm, events); err != nil {
		return sample, err
	}
	if err := st.d.tidy(ctx); err != nil {
		return sample, err
	}
	m := meter{rig: r, b: b, sides: st.processes()}
	before, start := m.now(), time.Now()
	if err := thaw(st.proc); err != nil {
		return sample, err
	}
	end := func() error { return nil }
	if beside != nil {
		if end, err = beside(ctx, st.proc); err != nil {
			return sample, err
		}
	}
	p, err := st.delivered(ctx, int64(warm+events), limit)
	took, after := time.Since(start), m.now()
	if err := errors.Join(err, end()); err != nil {
		return sample, err
	}
	n := p.events - int64(warm)
	if sample.part = n < int64(events); n <= 0 || sample.part && !slow(s) {
		return sample, fmt.Errorf("%d of %d events were delivered within %v", n, events, limit)
	}
	sample.rate, sample.middle, sample.cost = float64(n)/took.Seconds(), p.middle(), after.minus(before).per100k(n)
	if sample.resident, sample.peakMemory, err = memoryOf(st.proc.pid()); err != nil {
		return sample, err
	}
	if err := st.stop(); err != nil {
		return sample, err
	}
	name, settings := s.title()
	r.say("drain, %s, %s: %.0f events/s", name, settings, sample.rate)
	sample.contents, err = b.contents(ctx, warm+events, loaded, st.topic)
	return sample, err
}

package main

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// warmJavaLoad is how many events warm a Java machine up that is measured under a load, warmLoad others.
const warmJavaLoad, warmLoad = 40_000, 4000

// steadyCase is a side under a load.
type steadyCase struct {
	side
	rate     int
	duration time.Duration
	quiet    bool // the slow one
}

func (c steadyCase) events() int { return max(1, int(float64(c.rate)*c.duration.Seconds())) }

func (c steadyCase) title() (name, settings string) {
	name, settings = c.side.title()
	if c.quiet {
		name += ", quiet"
	}
	return fmt.Sprintf("%s, %d/s", name, c.rate), settings
}

// steadySample is one run. Times are in milliseconds.
type steadySample struct {
	commit50, commit99, p50, p99, highest, late float64
	cost                                        cpu
	wal                                         float64 // bytes an event
	resident                                    float64
	contents
}

// steadyCases are the tables alone and the sides at the rate, and Postrider at the slow one.
func (r *rig) steadyCases(b *broker) []side {
	var out []side
	for _, s := range r.carriers(b, "postrider", "logical", "poller", "debezium", "debezium-tuned") {
		out = append(out, steadyCase{s, r.o.rate, r.o.duration, false})
	}
	out = append(out, steadyCase{alone{bare}, r.o.rate, r.o.duration, false}, steadyCase{alone{ours}, r.o.rate, r.o.duration, false})
	for _, s := range r.carriers(b, "postrider") {
		out = append(out, steadyCase{s, r.o.slowRate, r.o.slowDuration, true})
	}
	return out
}

// steady measures what a commit and an event take, and what they cost, while writers keep a rate.
func steady(ctx context.Context, r *rig, b *broker, t *table) error {
	cases := r.steadyCases(b)
	if err := r.steadyFirst(ctx, b, cases[0]); err != nil {
		return fmt.Errorf("warm up: %w", err)
	}
	all, err := turns(r, cases, func(s side) (steadySample, error) { return r.steadyOnce(ctx, b, s.(steadyCase)) })
	if err != nil {
		return err
	}
	for i, s := range cases {
		of := func(f func(steadySample) float64) []float64 { return pick(all[i], f) }
		cells := []cell{
			{Name: "commit p50 ms", Runs: of(func(s steadySample) float64 { return s.commit50 })},
			{Name: "commit p99 ms", Runs: of(func(s steadySample) float64 { return s.commit99 })},
		}
		if nothing := nth(cases, fmt.Sprintf("%s, %d/s", bare.name, r.o.rate)); !s.(steadyCase).quiet && i != nothing {
			p50 := func(s steadySample) float64 { return s.commit50 }
			cells = append(cells, cell{Name: "commit p50, of a bare table's", Runs: paired(of(p50), pick(all[nothing], p50))})
		}
		if _, idle := s.(steadyCase).side.(alone); !idle {
			cells = append(cells,
				cell{Name: "event p50 ms", Runs: of(func(s steadySample) float64 { return s.p50 })},
				cell{Name: "event p99 ms", Runs: of(func(s steadySample) float64 { return s.p99 })},
				cell{Name: "longest ms", Runs: of(func(s steadySample) float64 { return s.highest })})
		}
		cells = append(cells, cell{Name: "writers late p99 ms", Runs: of(func(s steadySample) float64 { return s.late })})
		cells = append(cells, writtenCosts(pick(all[i], func(s steadySample) cpu { return s.cost }))...)
		cells = append(cells, cell{Name: "WAL bytes an event", Runs: of(func(s steadySample) float64 { return s.wal })})
		if _, idle := s.(steadyCase).side.(alone); !idle {
			cells = append(cells, cell{Name: "MiB", Runs: of(func(s steadySample) float64 { return s.resident })})
			cells = append(cells, contentCells(pick(all[i], func(s steadySample) contents { return s.contents }))...)
		}
		name, settings := s.title()
		t.add(b, name, settings, cells...)
	}
	t.note("Single-row transactions on %d connections at exact times; an event's time is from the answer to its commit until a consumer in the bench has the record, by one clock. WAL is the writer's insert and all that the side adds. PostgreSQL beside them is all of it but the writers' backends.", r.o.clients)
	return nil
}

// steadyFirst is a short run that does not count, for work that the broker does only when a consumer reads.
func (r *rig) steadyFirst(ctx context.Context, b *broker, s side) error {
	first := s.(steadyCase)
	first.duration = min(first.duration, 5*time.Second)
	_, err := r.steadyOnce(ctx, b, first)
	return err
}

func (r *rig) steadyOnce(ctx context.Context, b *broker, c steadyCase) (sample steadySample, err error) {
	warm := warmLoad
	if c.warming() >= warmJavaEvents {
		warm = warmJavaLoad
	}
	warm = r.warming(warm)
	n := c.events()
	l, err := r.startLoad(ctx, b, c.side, loadSize{warm: warm, events: n}, nil)
	defer func() { err = errors.Join(err, l.end()) }()
	if err != nil {
		return sample, err
	}
	if err := l.d.exec(ctx, "checkpoint"); err != nil {
		return sample, err
	}
	wal, err := l.d.logged(ctx)
	if err != nil {
		return sample, err
	}
	m := l.meter()
	before := m.now()
	if err := l.write(ctx, warm, n, c.rate); err != nil {
		return sample, err
	}
	if err := l.complete(ctx, warm+n); err != nil {
		return sample, err
	}
	sample.cost = m.now().minus(before).per100k(int64(n))
	end, err := l.d.logged(ctx)
	if err != nil {
		return sample, err
	}
	sample.wal = float64(end-wal) / float64(n)
	h, commit := &l.arrivals.latency, &l.clients.commit
	sample.commit50, sample.commit99 = commit.quantile(0.5), commit.quantile(0.99)
	sample.p50, sample.p99, sample.highest = h.quantile(0.5), h.quantile(0.99), h.quantile(1)
	sample.late = l.clients.late.quantile(0.99)
	if l.proc != nil {
		if sample.resident, _, err = memoryOf(l.proc.pid()); err != nil {
			return sample, err
		}
	}
	name, settings := c.title()
	r.say("steady, %s, %s: commit p50 %s ms, event p50 %s ms, p99 %s ms", name, settings, figure(sample.commit50), figure(sample.p50), figure(sample.p99))
	sample.contents, err = l.contents(ctx, warm+n)
	return sample, err
}

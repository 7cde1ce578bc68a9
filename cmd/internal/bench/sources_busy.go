package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
)

// busySide is so many sources on some servers.
type busySide struct {
	sources int
	servers []*rig
}

func (s busySide) String() string {
	if len(s.servers) == 1 {
		return fmt.Sprintf("sources: %d", s.sources)
	}
	return fmt.Sprintf("sources: %d, each on a server of its own", s.sources)
}

// busy compares many sources that are written to, on one server and each on a server of its own, with one that is written to at
// the rate of all, in one process each time.
func busy(ctx context.Context, r *rig, b *broker, t *table) error {
	servers := make([]*rig, 0, r.o.busyServers)
	defer func() {
		for _, s := range servers {
			s.close()
		}
	}()
	for range r.o.busyServers {
		s, err := r.another(ctx)
		if err != nil {
			return err
		}
		servers = append(servers, s)
	}
	sides := []busySide{{1, []*rig{r}}, {r.o.busySources, []*rig{r}}, {r.o.busySources, servers}}
	all, err := inTurns(r.o.runs, sides, func(side busySide) (busySample, error) {
		s, err := r.busyOnce(ctx, b, side)
		return s, about(side.String(), err)
	})
	if err != nil {
		return err
	}
	for i, side := range sides {
		of := func(f func(busySample) float64) []float64 { return pick(all[i], f) }
		p99 := func(s busySample) float64 { return s.p99 }
		cells := []cell{{Name: "event p50 ms", Runs: of(func(s busySample) float64 { return s.p50 })}, {Name: "event p99 ms", Runs: of(p99)}}
		if i > 0 {
			cells = append(cells, cell{Name: "p99, of one source's", Runs: paired(of(p99), pick(all[0], p99))})
		}
		cells = append(cells, cell{Name: "longest ms", Runs: of(func(s busySample) float64 { return s.longest })},
			cell{Name: "writers late p99 ms", Runs: of(func(s busySample) float64 { return s.late })})
		cells = append(cells, writtenCosts(pick(all[i], func(s busySample) cpu { return s.cost }))...)
		cells = append(cells, contentCells(pick(all[i], func(s busySample) contents { return s.contents }))...)
		t.add(b, side.String(), fmt.Sprintf("%d/s each", r.o.rate/side.sources), cells...)
	}
	t.note("One process carries them, each in a database of its own, on one server where nothing else is said. All servers run on this machine all the time. Single-row transactions at exact times; an event's time is from the answer to its commit until a consumer has the record.")
	return nil
}

// busySample is one run. Times are in milliseconds.
type busySample struct {
	p50, p99, longest, late float64
	cost                    cpu
	contents
}

func (r *rig) busyOnce(ctx context.Context, b *broker, side busySide) (s busySample, err error) {
	n := side.sources
	set, err := r.newSources(ctx, n, "", side.servers...)
	if err != nil {
		return s, err
	}
	defer func() { err = errors.Join(err, set.drop()) }()
	rate := max(1, r.o.rate/n)
	warm, events := r.warming(warmLoad)/n, max(1, int(float64(rate)*r.o.duration.Seconds()))
	loads, err := set.loads(ctx, b, max(2, r.o.clients/n), warm+events)
	if err != nil {
		return s, err
	}
	defer func() { err = errors.Join(err, endLoads(loads)) }()
	k, err := set.carry(b, "", "relay,http")
	if err != nil {
		return s, err
	}
	stop := sync.OnceValue(k.stop)
	defer func() { err = errors.Join(err, stop()) }()
	if err := set.awaitLed(ctx, k); err != nil {
		return s, err
	}
	pass := func(first, n int) error {
		working, cancel := alive(ctx, k.child)
		defer cancel()
		return because(working, writeAll(working, loads, first, n, rate))
	}
	if err := pass(0, warm); err != nil {
		return s, fmt.Errorf("warm up: %w", err)
	}
	m := meter{rig: side.servers[0], also: side.servers[1:], b: b, sides: []process{k.child}}
	for _, l := range loads {
		l.arrivals.latency.take()
		l.clients.late.take()
		m.writers = append(m.writers, l.clients.backends()...)
	}
	before := m.now()
	if err := pass(warm, events); err != nil {
		return s, err
	}
	s.cost = m.now().minus(before).per100k(int64(events * n))
	var latency, late histogram
	for _, l := range loads {
		latency.addAll(&l.arrivals.latency)
		late.addAll(&l.clients.late)
	}
	s.p50, s.p99, s.longest, s.late = latency.quantile(0.5), latency.quantile(0.99), latency.quantile(1), late.quantile(0.99)
	r.say("busy, %s: p50 %s ms, p99 %s ms, longest %s ms", side, figure(s.p50), figure(s.p99), figure(s.longest))
	if err := stop(); err != nil {
		return s, err
	}
	for _, l := range loads {
		there, err := b.contents(ctx, warm+events, l.arrivals.writes.times, l.topic)
		if err != nil {
			return s, err
		}
		s.contents = s.plus(there)
	}
	return s, nil
}

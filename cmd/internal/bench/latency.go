package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

// latencyCase is one rate and one way of waking the relay.
type latencyCase struct {
	name     string
	rate     int
	duration time.Duration
	relaySide
	p50, p99 *target
}

func (c *latencyCase) events() int { return max(1, int(float64(c.rate)*c.duration.Seconds())) }

// latencySample is one run.
type latencySample struct {
	p50, p99, p999, highest, late float64 // ms
	cost                          cpu
}

// latencyCases are the cases with their bounds. The bounds of the higher rate are those of the default
// settings.
func latencyCases(o *options, fake, doorbell bool) []latencyCase {
	p50, p99 := atMost(2), atMost(6)
	if !fake {
		p50, p99 = atMost(5), atMost(25)
	}
	deletes := relaySide{}
	rung, polled := deletes, deletes
	rung.doorbell, polled.doorbell = "on", "off"
	fast := latencyCase{fmt.Sprintf("%d/s, polling", o.rate), o.rate, o.duration, polled, nil, nil}
	slow := latencyCase{fmt.Sprintf("%d/s, polling", o.slowRate), o.slowRate, o.slowDuration, polled, atMost(30), atMost(60)}
	if !doorbell {
		fast.p50, fast.p99 = p50, p99
		return []latencyCase{fast, slow}
	}
	return []latencyCase{
		{fmt.Sprintf("%d/s, doorbell", o.rate), o.rate, o.duration, rung, p50, p99}, fast,
		{fmt.Sprintf("%d/s, doorbell", o.slowRate), o.slowRate, o.slowDuration, rung, atMost(3), atMost(10)}, slow,
	}
}

// latency measures from the moment a writer knows that its commit is done until a consumer has the record.
func latency(ctx context.Context, r *rig, b *broker, t *table) error {
	d, err := r.newDatabase(ctx, "bench_latency", true)
	if err != nil {
		return err
	}
	defer d.drop()
	cases := latencyCases(r.o, strings.HasPrefix(b.name, "kfake"), hasDoorbell())
	// One short run that does not count, for what the broker does only when somebody reads.
	first := cases[0]
	first.duration = min(first.duration, 5*time.Second)
	if _, err := r.latencyOnce(ctx, b, d, first); err != nil {
		return fmt.Errorf("warm up: %w", err)
	}
	samples, err := inTurns(r.o.runs, cases, func(c latencyCase) (latencySample, error) {
		s, err := r.latencyOnce(ctx, b, d, c)
		return s, about(c.name, err)
	})
	if err != nil {
		return err
	}
	for i, c := range cases {
		of := func(f func(latencySample) float64) []float64 { return pick(samples[i], f) }
		cells := []cell{
			{"p50 ms", of(func(s latencySample) float64 { return s.p50 }), c.p50},
			{"p99 ms", of(func(s latencySample) float64 { return s.p99 }), c.p99},
			{Name: "p99.9 ms", Runs: of(func(s latencySample) float64 { return s.p999 })},
			{Name: "longest ms", Runs: of(func(s latencySample) float64 { return s.highest })},
			{Name: "writers late p99 ms", Runs: of(func(s latencySample) float64 { return s.late })},
		}
		t.add(b, c.name, c.text(), append(cells, costs(pick(samples[i], func(s latencySample) cpu { return s.cost }), "relay")...)...)
	}
	t.note("Single-row transactions on %d connections at exact times; from the answer to the commit until a consumer in the bench has the record. PostgreSQL's CPU includes the writers' transactions.", r.o.clients)
	if !hasDoorbell() {
		t.note("This version has no %s: polling only.", doorbellKey)
	}
	return nil
}

func (r *rig) latencyOnce(ctx context.Context, b *broker, d *database, c latencyCase) (sample latencySample, err error) {
	l, err := r.startLoad(ctx, b, d, c.relaySide, c.rate, c.events(), nil)
	defer func() { err = errors.Join(err, l.stop()) }()
	if err != nil {
		return sample, err
	}
	m := meter{r, b, []*child{l.relay}}
	working, cancel := alive(ctx, l.relay)
	defer cancel()
	before := m.now()
	if err := l.write(working); err != nil {
		return sample, because(working, err)
	}
	if err := l.complete(working); err != nil {
		return sample, because(working, err)
	}
	sample.cost = m.now().minus(before).per100k(int64(c.events()))
	h := &l.arrivals.latency
	sample.p50, sample.p99, sample.p999, sample.highest = h.quantile(0.5), h.quantile(0.99), h.quantile(0.999), h.quantile(1)
	sample.late = l.schedule.late.quantile(0.99)
	r.say("%s: p50 %.2f ms, p99 %.2f ms", c.name, sample.p50, sample.p99)
	return sample, nil
}

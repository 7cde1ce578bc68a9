package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/postrider/postrider/internal/loop"
)

// takeoverAfter is how much longer than before it the load goes on after a kill.
const takeoverAfter = 2

// takeoverSample is one kill.
type takeoverSample struct {
	first   float64 // ms from the kill to the first event of the other
	longest float64 // ms, of all events of the load
}

// takeover kills the relay that works, again and again, while another stands by, and measures how long nothing is sent.
func takeover(ctx context.Context, r *rig, b *broker, t *table) (err error) {
	before := r.o.takeoverCalm
	n := int(float64(r.o.rate) * before.Seconds() * (1 + takeoverAfter))
	warm := r.warming(warmLoad)
	s := newPostrider(nil)
	l, err := r.startLoad(ctx, b, s, loadSize{warm: warm, events: n * r.o.takeovers}, nil)
	relays := &pair{load: l}
	defer func() { err = errors.Join(err, relays.stop(), l.end()) }()
	if err != nil {
		return err
	}
	var samples []takeoverSample
	for i := range r.o.takeovers {
		if err := relays.standBy(ctx); err != nil {
			return err
		}
		sample, err := relays.killOnce(ctx, warm+i*n, n, before)
		if err != nil {
			return fmt.Errorf("kill %d: %w", i+1, err)
		}
		r.say("takeover %d: %.0f ms, longest event %.0f ms", i+1, sample.first, sample.longest)
		samples = append(samples, sample)
	}
	if err := relays.stop(); err != nil {
		return err
	}
	there, err := b.contents(ctx, warm+n*r.o.takeovers, l.arrivals.writes.times, l.topic)
	if err != nil {
		return err
	}
	cells := []cell{
		{Name: "takeover ms", Runs: pick(samples, func(s takeoverSample) float64 { return s.first })},
		{Name: "longest event ms", Runs: pick(samples, func(s takeoverSample) float64 { return s.longest })},
	}
	name, settings := s.title()
	t.add(b, name, settings, append(cells, contentCells([]contents{there})...)...)
	t.note("%d times kill -9 of the one of two relays that used more CPU in the second before, under %d events a second. Takeover is from the kill to the arrival of the first event that was written after it: the killed one cannot have sent it. Copies are of all kills.",
		r.o.takeovers, r.o.rate)
	return nil
}

// pair are the relays of an outbox: one that works and one that stands by.
type pair struct {
	load   *load
	second *child
}

// standBy starts the other, and gives it time to find out that there is one.
func (p *pair) standBy(ctx context.Context) (err error) {
	if p.second, err = p.load.startServe(p.load.b, p.load.d.url, nil, ""); err != nil {
		return err
	}
	if err := p.second.start(); err != nil {
		return err
	}
	return loop.Sleep(ctx, calm)
}

// killOnce kills the one that works in the middle of a load, and leaves the other as the first.
func (p *pair) killOnce(ctx context.Context, first, n int, before time.Duration) (sample takeoverSample, err error) {
	l := p.load
	var writing sync.WaitGroup
	var writeErr error
	schedule, cancel := context.WithCancel(ctx)
	defer cancel()
	writing.Go(func() {
		writeErr = l.clients.schedule(schedule, func(seq int) event { return l.o.event(l.topic, seq) }, first, n, l.o.rate, l.arrivals.committed)
	})
	killed, err := p.kill(ctx, before)
	if err != nil {
		cancel()
	}
	writing.Wait()
	if err := errors.Join(err, writeErr); err != nil {
		return sample, err
	}
	if err := l.complete(ctx, first+n); err != nil {
		return sample, err
	}
	arrived, longest := []int64{}, int64(0)
	for seq := first; seq < first+n; seq++ {
		began, done := l.arrivals.writes.times(seq)
		seen := l.arrivals.seen[seq].Load()
		longest = max(longest, seen-done)
		if began > killed {
			arrived = append(arrived, seen)
		}
	}
	if len(arrived) == 0 {
		return sample, errors.New("nothing was written after the kill: raise -takeover-calm")
	}
	return takeoverSample{milliseconds(time.Duration(slices.Min(arrived) - killed)), milliseconds(time.Duration(longest))}, nil
}

// kill waits, kills the relay that works, and returns when it did.
func (p *pair) kill(ctx context.Context, before time.Duration) (at int64, err error) {
	l := p.load
	if err := loop.Sleep(ctx, before/2); err != nil {
		return 0, err
	}
	busy := func(pid int) func() float64 {
		spent := cpuSeconds(pid, false)
		return func() float64 { return cpuSeconds(pid, false) - spent }
	}
	a, b := busy(l.proc.pid()), busy(p.second.pid())
	if err := loop.Sleep(ctx, before/2); err != nil {
		return 0, err
	}
	works, other := l.proc.(*child), p.second
	if b() > a() {
		works, other = other, works
	}
	at = l.arrivals.writes.now()
	err = works.kill()
	l.proc, p.second = other, nil
	return at, err
}

// stop ends both.
func (p *pair) stop() error {
	var errs []error
	if p.second != nil {
		errs = append(errs, p.second.stop())
		p.second = nil
	}
	if p.load.stage != nil {
		errs = append(errs, p.load.stage.stop())
	}
	return errors.Join(errs...)
}

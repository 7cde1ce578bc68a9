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

const (
	// killedProcesses share killedSources, which have killedRate events a second each.
	killedProcesses, killedSources, killedRate = 3, 12, 20
)

// killed kills one of several processes that share sources, again and again, and measures when each source moves again.
func killed(ctx context.Context, r *rig, b *broker, t *table) (err error) {
	set, err := r.newSources(ctx, killedSources, "")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, set.drop()) }()
	before, after := r.o.takeoverCalm, 2*r.o.takeoverCalm
	n := int(killedRate * (before + after).Seconds())
	loads, err := set.loads(ctx, b, 2, n*r.o.takeovers)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, endLoads(loads)) }()
	running := make([]*carrier, killedProcesses)
	stop := sync.OnceValue(func() error {
		var errs []error
		for _, k := range running {
			if k != nil {
				errs = append(errs, k.stop())
			}
		}
		return errors.Join(errs...)
	})
	defer func() { err = errors.Join(err, stop()) }()
	var all, moved, longest []float64
	for i := range r.o.takeovers {
		for p := range running {
			if running[p] == nil {
				if running[p], err = set.carry(b, "", "relay,http"); err != nil {
					return err
				}
			}
		}
		if err := set.awaitLed(ctx, running...); err != nil {
			return err
		}
		ends := running[i%killedProcesses]
		had, err := ends.leads(ctx)
		if err != nil {
			return err
		}
		running[i%killedProcesses] = nil
		waits, late, err := killOne(ctx, loads, ends, i*n, n, before)
		if err != nil {
			return fmt.Errorf("kill %d: %w", i+1, err)
		}
		slices.Sort(waits)
		r.say("killed %d: it led %d of %d sources; the last moves after %.0f ms, longest event %.0f ms", i+1, had, killedSources, waits[len(waits)-1], late)
		all, moved, longest = append(all, waits[len(waits)-1]), append(moved, float64(had)), append(longest, late)
	}
	if err := stop(); err != nil {
		return err
	}
	var there contents
	for _, l := range loads {
		one, err := b.contents(ctx, n*r.o.takeovers, l.arrivals.writes.times, l.topic)
		if err != nil {
			return err
		}
		there = there.plus(one)
	}
	cells := []cell{{Name: "all move after ms", Runs: all}, {Name: "sources of the killed one", Runs: moved, Whole: true}, {Name: "longest event ms", Runs: longest}}
	t.add(b, fmt.Sprintf("sources: %d", killedSources), fmt.Sprintf("%d processes, %d/s each", killedProcesses, killedRate), append(cells, contentCells([]contents{there})...)...)
	t.note("%d times kill -9 of one of the processes. All move when the first event of the last source has arrived that was written after the kill: also those of the other processes count.", r.o.takeovers)
	return nil
}

// killOne kills a process in the middle of a load, and returns for each source in milliseconds when it moved again, and the
// longest that an event took.
func killOne(ctx context.Context, loads []*sourceLoad, ends *carrier, first, n int, before time.Duration) (waits []float64, longest float64, err error) {
	written := make(chan error, 1)
	go func() { written <- writeAll(ctx, loads, first, n, killedRate) }()
	err = loop.Sleep(ctx, before)
	at := make([]int64, len(loads)) // each has a clock of its own
	for i, l := range loads {
		at[i] = l.arrivals.writes.now()
	}
	if err := errors.Join(err, ends.kill(), <-written); err != nil {
		return nil, 0, err
	}
	for i, l := range loads {
		next := int64(0)
		for seq := first; seq < first+n; seq++ {
			began, done := l.arrivals.writes.times(seq)
			seen := l.arrivals.seen[seq].Load()
			longest = max(longest, milliseconds(time.Duration(seen-done)))
			if began > at[i] && (next == 0 || seen < next) {
				next = seen
			}
		}
		if next == 0 {
			return nil, 0, errors.New("nothing was written after the kill: raise -takeover-calm")
		}
		waits = append(waits, milliseconds(time.Duration(next-at[i])))
	}
	return waits, longest, nil
}

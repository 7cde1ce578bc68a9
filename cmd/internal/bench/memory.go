package main

import (
	"context"
	"time"
)

// memoryLimit is what a relay may use, in MiB.
const memoryLimit = 100

// memory drains a backlog with the product's defaults, and with the largest batches it allows.
func memory(ctx context.Context, r *rig, b *broker, t *table) error {
	d, err := r.newDatabase(ctx, "bench_memory", true)
	if err != nil {
		return err
	}
	defer d.drop()
	sides := []drainSide{
		{name: "defaults, deletes"},
		{name: "defaults, marks", relaySide: relaySide{days: 30}},
		{name: "largest batches, deletes", relaySide: relaySide{batch: 10_000, workers: 4}},
	}
	all, err := r.takeTurns(ctx, b, d, sides)
	if err != nil {
		return err
	}
	for i, s := range sides {
		t.add(b, s.name, s.text(),
			cell{"peak MiB (VmHWM)", pick(all[i], func(s drainSample) float64 { return s.peakMemory }), atMost(memoryLimit)},
			cell{Name: "largest sample MiB (RSS)", Runs: pick(all[i], func(s drainSample) float64 { return s.sampleMemory })},
			cell{Name: "events/s", Runs: rates(all[i])})
	}
	t.note("Resident memory of the relay's process while it drains %d events; sampled every %v.", r.o.events, sampleEvery)
	return nil
}

// sampleEvery is how often resident memory is read.
const sampleEvery = 20 * time.Millisecond

// memoryWatch samples the resident memory of a process.
type memoryWatch struct {
	pid     int
	end     chan struct{}
	largest chan float64
}

func watchMemory(pid int) *memoryWatch {
	w := &memoryWatch{pid: pid, end: make(chan struct{}), largest: make(chan float64, 1)}
	go func() {
		largest, tick := 0.0, time.NewTicker(sampleEvery)
		defer tick.Stop()
		for {
			if now, _, err := memoryOf(pid); err == nil {
				largest = max(largest, now)
			}
			select {
			case <-w.end:
				w.largest <- largest
				return
			case <-tick.C:
			}
		}
	}()
	return w
}

// stop returns the largest sample and the kernel's own peak, in MiB.
func (w *memoryWatch) stop() (sampled, peak float64) {
	close(w.end)
	_, peak, _ = memoryOf(w.pid) // a process that is gone fails elsewhere
	return <-w.largest, peak
}

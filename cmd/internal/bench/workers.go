package main

import (
	"context"
	"fmt"
	"slices"
)

// workers drains with more and more workers, and with two relays. Throughput must not fall: each case is
// compared, run by run, with the best of those before it.
func workers(ctx context.Context, r *rig, b *broker, t *table) error {
	d, err := r.newDatabase(ctx, "bench_workers", true)
	if err != nil {
		return err
	}
	defer d.drop()
	batch := r.o.batches[0]
	var sides []drainSide
	for _, n := range []int{1, 2, 4, 8} {
		sides = append(sides, drainSide{name: fmt.Sprintf("%d workers", n), relaySide: relaySide{batch: batch, workers: n}})
	}
	sides = append(sides, drainSide{name: "two relays of 4 workers", relays: 2, relaySide: relaySide{batch: batch, workers: 4}})
	all, err := r.takeTurns(ctx, b, d, sides)
	if err != nil {
		return err
	}
	best := rates(all[0])
	for i, s := range sides {
		now := rates(all[i])
		cells := []cell{{Name: "events/s", Runs: now}}
		if i > 0 {
			cells = append(cells, cell{"of the best before", paired(now, best), atLeast(1)})
		}
		t.add(b, s.name, s.text(), append(cells, costs(drainCosts(all[i]), "relay")...)...)
		if median(now) > median(best) {
			best = slices.Clone(now)
		}
	}
	t.note("%d waiting events.", r.o.events)
	return nil
}

package main

import (
	"context"
)

// memory drains a backlog with the product's defaults, and with larger batches.
func memory(ctx context.Context, r *rig, b *broker, t *table) error {
	larger := map[string]string{}
	for key, value := range map[string]string{"outbox.batch_size": "20000", "outbox.dispatches": "16"} {
		if hasKey(key) {
			larger[key] = value
		}
	}
	sides := []side{newPostrider(nil)}
	if len(larger) > 0 {
		sides = append(sides, newPostrider(larger))
	}
	all, err := turns(r, sides, func(s side) (drainSample, error) { return r.drainOnce(ctx, b, s, nil) })
	if err != nil {
		return err
	}
	for i, s := range sides {
		name, settings := s.title()
		t.add(b, name, settings,
			cell{Name: "peak MiB (VmHWM)", Runs: pick(all[i], func(s drainSample) float64 { return s.peakMemory })},
			cell{Name: "at the end MiB (RSS)", Runs: pick(all[i], func(s drainSample) float64 { return s.resident })},
			cell{Name: "events/s", Runs: rates(all[i])})
	}
	t.note("Resident memory of the relay's process when it has drained %d events.", r.o.events)
	return nil
}

package main

import "context"

// deepBatches are the settings that docs/running.md advises for brokers whose answers take long.
var deepBatches = map[string]string{"outbox.batch_size": "20000"}

// slowAnswers lets sides empty a backlog to a broker whose answers take long.
func slowAnswers(ctx context.Context, r *rig, b *broker, t *table) error {
	sides := []side{newPostrider(nil), newPostrider(deepBatches), floorSide, pollerSide}
	all, err := turns(r, sides, func(s side) (drainSample, error) { return r.drainOnce(ctx, b, s, nil) })
	if err != nil {
		return err
	}
	poller := rates(all[len(all)-1])
	for i, s := range sides {
		name, settings := s.title()
		cells := []cell{{Name: "events/s", Runs: rates(all[i])}, {Name: "times " + pollerSide.name, Runs: paired(rates(all[i]), poller)}}
		cells = append(cells, cell{Name: "10 % to 90 %", Runs: pick(all[i], func(s drainSample) float64 { return s.middle })},
			cell{Name: "peak MiB", Runs: pick(all[i], func(s drainSample) float64 { return s.peakMemory })})
		t.add(b, name, settings, append(cells, contentCells(pick(all[i], func(s drainSample) contents { return s.contents }))...)...)
	}
	t.note("%d waiting events, as in the drain. An answer to records comes %v after their request; requests in flight, five at most, share that time.", r.o.events, slowAnswer)
	return nil
}

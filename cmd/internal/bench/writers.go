package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/postrider/postrider/internal/loop"
)

// writerClients write one row each, one transaction after the other.
const writerClients = 8

// writersWarm is how long they write before that counts, at most.
const writersWarm = 2 * time.Second

// writersSample is one run.
type writersSample struct {
	rate   float64 // transactions a second
	behind float64 // events that still waited when the writers stopped
	wal    float64 // bytes an event, until all were delivered
	cost   cpu
	contents
}

// writersSides are the tables alone, the really bare one first among them, and beside what carries their events. What
// Postrider's table costs by itself and beside the relay comes first.
func (r *rig) writersSides(b *broker) []side {
	out := r.carriers(b, "postrider")
	if slices.Contains(r.o.sides, "postrider") {
		byFunction := newPostrider(nil)
		byFunction.table = published
		out = append(out, byFunction)
	}
	out = append(out, alone{ours}, alone{published}, alone{bare}, alone{polled}, alone{captured}, alone{removed})
	return append(out, r.carriers(b, "logical", "poller", "debezium-tuned")...)
}

// writers compares the transactions that the same clients manage with and without what an outbox adds.
func writers(ctx context.Context, r *rig, b *broker, t *table) error {
	sides := r.writersSides(b)
	all, err := turns(r, sides, func(s side) (writersSample, error) { return r.writersOnce(ctx, b, s) })
	if err != nil {
		return err
	}
	rate := func(s writersSample) float64 { return s.rate }
	base := nth(sides, bare.name)
	for i, s := range sides {
		of := func(f func(writersSample) float64) []float64 { return pick(all[i], f) }
		cells := []cell{{Name: "commits/s", Runs: of(rate)}}
		if i != base {
			cells = append(cells, cell{Name: "of a bare table", Runs: paired(of(rate), pick(all[base], rate))})
		}
		cells = append(cells, writtenCosts(pick(all[i], func(s writersSample) cpu { return s.cost }))...)
		cells = append(cells, cell{Name: "WAL bytes an event", Runs: of(func(s writersSample) float64 { return s.wal })})
		name, settings := s.title()
		if _, idle := s.(alone); !idle {
			name += ", " + s.outbox().name
			cells = append(cells, cell{Name: "waiting at the end", Runs: of(func(s writersSample) float64 { return s.behind })})
			counts := contentCells(pick(all[i], func(s writersSample) contents { return s.contents }))
			cells = append(cells, counts...)
		}
		t.add(b, name, settings, cells...)
	}
	t.note("%d clients, each on a connection of its own, write one row a transaction for %v, on the same cores as everything else. The bare table has an id, a topic, a key and a payload and its primary key, and nothing runs. WAL is the writer's insert and, until all was delivered, what the side adds.", writerClients, r.o.duration)
	return nil
}

func (r *rig) writersOnce(ctx context.Context, b *broker, s side) (sample writersSample, err error) {
	st, err := r.newStage(ctx, b, s, nil)
	if err != nil {
		return sample, err
	}
	defer func() { err = errors.Join(err, st.close()) }()
	if err := st.run(ctx); err != nil {
		return sample, err
	}
	w := newWrites()
	c, err := st.connect(ctx, writerClients, w)
	if err != nil {
		return sample, err
	}
	defer c.close()
	working, cancel := alive(ctx, st.processes()...)
	defer cancel()
	of := func(seq int) event { return r.o.event(st.topic, seq) }
	warm, _, err := c.flatOut(working, of, 0, min(writersWarm, r.o.duration))
	if err != nil {
		return sample, because(working, err)
	}
	if st.proc != nil {
		if err := st.allDelivered(ctx, warm); err != nil {
			return sample, fmt.Errorf("warm up: %w", err)
		}
	}
	if err := st.d.exec(ctx, "checkpoint"); err != nil {
		return sample, err
	}
	wal, err := st.d.logged(ctx)
	if err != nil {
		return sample, err
	}
	m := meter{rig: r, b: b, sides: st.processes(), writers: c.backends()}
	before := m.now()
	n, took, err := c.flatOut(working, of, int(warm), r.o.duration)
	if err != nil {
		return sample, because(working, err)
	}
	sample.rate, sample.cost = float64(n)/took.Seconds(), m.now().minus(before).per100k(n)
	if st.proc != nil {
		p, err := b.produced(ctx, st.topic)
		if err != nil {
			return sample, err
		}
		sample.behind = float64(warm + n - p)
		if err := st.allDelivered(ctx, warm+n); err != nil {
			return sample, err
		}
		if err := loop.Sleep(ctx, calm); err != nil { // work after the last event is part of the log
			return sample, err
		}
	}
	end, err := st.d.logged(ctx)
	if err != nil {
		return sample, err
	}
	sample.wal = float64(end-wal) / float64(n)
	name, settings := s.title()
	r.say("writers, %s, %s: %.0f commits/s", name, settings, sample.rate)
	if st.proc == nil {
		return sample, nil
	}
	if err := st.stop(); err != nil {
		return sample, err
	}
	sample.contents, err = b.contents(ctx, int(warm+n), w.times, st.topic)
	return sample, err
}

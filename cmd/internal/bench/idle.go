package main

import (
	"context"
	"time"

	"github.com/postrider/postrider/internal/loop"
)

// calmDown is how long a process has after its start until it counts as idle.
const calmDown = 2 * time.Second

// dlqTopic is the product's dead-letter topic: nothing ever comes to it here.
const dlqTopic = "postrider.dlq"

// idle lets a whole process, with all of its roles, stand by, and PostgreSQL alone beside it for comparison.
func idle(ctx context.Context, r *rig, b *broker, t *table) error {
	d, err := r.newDatabase(ctx, "bench_idle", true)
	if err != nil {
		return err
	}
	defer d.drop()
	if err := b.createTopic(ctx, dlqTopic, nil); err != nil {
		return err
	}
	defer b.deleteTopic(dlqTopic)
	var with, without []cpu
	for range r.o.runs {
		share, err := r.idleOnce(ctx, b, nil)
		if err != nil {
			return err
		}
		without = append(without, share)
		c, err := r.startServe(b, d.url, nil, everyRole())
		if err == nil {
			if err = c.start(); err == nil {
				share, err = r.idleOnce(ctx, b, c)
			}
		}
		if c != nil {
			if stopErr := c.stop(); err == nil {
				err = stopErr
			}
		}
		if err != nil {
			return err
		}
		with = append(with, share)
		r.say("idle: relay %.2f %%, PostgreSQL %.2f %%, broker %.2f %% of a core", share.side, share.database, share.broker)
	}
	database, brokers := func(c cpu) float64 { return c.database }, func(c cpu) float64 { return c.broker }
	t.add(b, postriderName, "defaults, all roles",
		cell{Name: "process, % of a core", Runs: pick(with, func(c cpu) float64 { return c.side })},
		cell{Name: "PostgreSQL", Runs: pick(with, database)}, cell{Name: "broker", Runs: pick(with, brokers)})
	t.add(b, "nothing connected", "", cell{Name: "PostgreSQL", Runs: pick(without, database)}, cell{Name: "broker", Runs: pick(without, brokers)})
	t.note("CPU time over %v with empty tables and no writers, %v after the start.", r.o.idleDuration, calmDown)
	return nil
}

// idleOnce measures the CPU time of all parts, in percent of a core, while nothing is asked of them.
func (r *rig) idleOnce(ctx context.Context, b *broker, c *child) (cpu, error) {
	m := meter{rig: r, b: b}
	if c != nil {
		m.sides = append(m.sides, c)
	}
	if err := loop.Sleep(ctx, calmDown); err != nil {
		return cpu{}, err
	}
	before, start := m.now(), time.Now()
	if err := loop.Sleep(ctx, r.o.idleDuration); err != nil {
		return cpu{}, err
	}
	spent, seconds := m.now().minus(before), time.Since(start).Seconds()
	return cpu{side: 100 * spent.side / seconds, database: 100 * spent.database / seconds, broker: 100 * spent.broker / seconds}, nil
}

package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/loop"
)

// hourSample is what a checkpoint of a long run saw since the one before.
type hourSample struct {
	at         time.Duration
	rate       float64
	p50, p99   float64 // ms
	table      float64 // MiB, with TOAST
	indexes    float64 // MiB
	dead, live float64 // rows, as the statistics have them
	cost       cpu
}

// hour keeps a steady load for a long time. In its middle another connection holds a snapshot open for a sixth of it,
// in which vacuum can remove nothing. A line is about the time before the snapshot, meanwhile, and after it.
func hour(ctx context.Context, r *rig, b *broker, t *table) error {
	whole := r.o.hourDuration
	from, until := whole*5/12, whole*7/12
	if err := r.hourOnce(ctx, b, t, from, until, []time.Duration{from, until, whole}); err != nil {
		return err
	}
	t.note("%d events/s for %v. Each line is about the time since the line before, sizes and dead rows are at its end. The snapshot is open from %v to %v.",
		r.o.hourRate, whole, from, until)
	return nil
}

func (r *rig) hourOnce(ctx context.Context, b *broker, t *table, from, until time.Duration, marks []time.Duration) (err error) {
	// Long enough for the consumer, short enough for the disk and for a broker in memory.
	bytes, segment := "134217728", "33554432"
	events, warm := int(r.o.hourDuration.Seconds()*float64(r.o.hourRate)), r.warming(warmLoad)
	l, err := r.startLoad(ctx, b, newPostrider(nil), loadSize{warm: warm, events: events}, map[string]*string{"retention.bytes": &bytes, "segment.bytes": &segment})
	defer func() { err = errors.Join(err, l.end()) }()
	if err != nil {
		return err
	}
	start := time.Now()
	working, cancel := alive(ctx, l.proc)
	defer cancel()
	var all sync.WaitGroup
	var writing, holding error
	// The first that fails ends the others: an hour is long.
	all.Go(func() {
		if writing = l.write(working, warm, events, r.o.hourRate); writing != nil {
			cancel()
		}
	})
	all.Go(func() {
		if holding = because(working, holdSnapshot(working, l.d.url, start.Add(from), until-from)); holding != nil {
			cancel()
		}
	})
	samples, err := r.checkpoints(working, l, start, marks)
	if err != nil {
		cancel()
	}
	all.Wait()
	if err := errors.Join(writing, holding, err); err != nil {
		return err
	}
	for i, s := range samples {
		cells := []cell{
			{Name: "events/s", Runs: []float64{s.rate}}, {Name: "p50 ms", Runs: []float64{s.p50}}, {Name: "p99 ms", Runs: []float64{s.p99}},
			{Name: "table MiB", Runs: []float64{s.table}}, {Name: "indexes MiB", Runs: []float64{s.indexes}},
			{Name: "dead rows", Runs: []float64{s.dead}}, {Name: "live rows", Runs: []float64{s.live}},
		}
		cells = append(cells, writtenCosts([]cpu{s.cost})...)
		if i > 0 {
			first := samples[0]
			cells = append(cells, cell{Name: "events/s, of the first line", Runs: []float64{s.rate / first.rate}},
				cell{Name: "p99, of the first line", Runs: []float64{s.p99 / first.p99}},
				cell{Name: "CPU of relay and PostgreSQL, of the first line", Runs: []float64{s.cost.relaying() / first.cost.relaying()}})
		}
		t.add(b, fmt.Sprintf("until %v", s.at), "defaults", cells...)
	}
	return l.complete(ctx, warm+events)
}

// checkpoints looks at the run at these times.
func (r *rig) checkpoints(ctx context.Context, l *load, start time.Time, marks []time.Duration) ([]hourSample, error) {
	var samples []hourSample
	m := l.meter()
	cost, arrived, at := m.now(), l.arrivals.matched.Load(), start
	for _, mark := range marks {
		if err := loop.Sleep(ctx, time.Until(start.Add(mark))); err != nil {
			return nil, err
		}
		now, spent, n := time.Now(), m.now(), l.arrivals.matched.Load()
		h := l.arrivals.latency.take()
		s := hourSample{at: mark, rate: float64(n-arrived) / now.Sub(at).Seconds(), p50: h.quantile(0.5), p99: h.quantile(0.99),
			cost: spent.minus(cost).per100k(max(1, n-arrived))}
		if err := l.d.conn.QueryRow(ctx, `select pg_table_size('postrider.outbox_event') / 1048576.0, pg_indexes_size('postrider.outbox_event') / 1048576.0,
				n_dead_tup, n_live_tup from pg_stat_user_tables where relid = 'postrider.outbox_event'::regclass`).Scan(&s.table, &s.indexes, &s.dead, &s.live); err != nil {
			return nil, fmt.Errorf("read the size of the outbox: %w", err)
		}
		r.say("hour, %v: %.0f events/s, p99 %.1f ms, table %.0f MiB, indexes %.0f MiB, %.0f dead rows", mark, s.rate, s.p99, s.table, s.indexes, s.dead)
		samples = append(samples, s)
		cost, arrived, at = spent, n, now
	}
	return samples, nil
}

// holdSnapshot keeps a snapshot open from then on, as a report or a dump would.
func holdSnapshot(ctx context.Context, url string, from time.Time, held time.Duration) error {
	if err := loop.Sleep(ctx, time.Until(from)); err != nil {
		return err
	}
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	tx, err := conn.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly})
	if err != nil {
		return err
	}
	var n int
	if err := tx.QueryRow(ctx, "select 1").Scan(&n); err != nil { // the snapshot is taken by the first statement
		return err
	}
	if err := loop.Sleep(ctx, held); err != nil {
		return err
	}
	return tx.Rollback(ctx)
}

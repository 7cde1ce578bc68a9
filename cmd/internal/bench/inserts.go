package main

import (
	"context"
	"errors"
	"slices"

	"github.com/jackc/pgx/v5"
)

// insertsWarm are inserts of a connection that do not count.
const insertsWarm = 500

// insertSample is one round.
type insertSample struct {
	micros float64 // of the backend's CPU an event
	wal    float64 // bytes an event
}

// inserts measures what one backend takes for an insert: prepared, in a transaction of its own whose commit does not wait
// for the disk. That is time of the processor alone, which other work on the machine disturbs little; the least of many
// rounds is disturbed least.
func inserts(ctx context.Context, r *rig, b *broker, t *table) error {
	tables := []side{alone{ours}, alone{published}, alone{bare}, alone{polled}, alone{captured}, alone{forwarded}, alone{capturedMany}, alone{forwardedMany}, alone{removed}}
	all, err := inTurns(r.o.insertRounds, tables, func(s side) (insertSample, error) {
		sample, err := r.insertOnce(ctx, b, s)
		return sample, about(s.outbox().name, err)
	})
	if err != nil {
		return err
	}
	micros := func(s insertSample) float64 { return s.micros }
	base := nth(tables, bare.name)
	least := func(i int) float64 { return slices.Min(pick(all[i], micros)) }
	for i, s := range tables {
		cells := []cell{{Name: "least µs", Runs: []float64{least(i)}}, {Name: "µs", Runs: pick(all[i], micros)}}
		if i != base {
			cells = append(cells, cell{Name: "least, of a bare table's", Runs: []float64{least(i) / least(base)}})
		}
		cells = append(cells, cell{Name: "WAL bytes", Runs: pick(all[i], func(s insertSample) float64 { return s.wal })})
		t.add(b, s.outbox().name, "nothing running", cells...)
	}
	t.note("CPU of one backend an event, of %d events in transactions of their own (or of 100 in one statement), prepared, synchronous_commit off; %d rounds.", r.o.inserts, r.o.insertRounds)
	return nil
}

func (r *rig) insertOnce(ctx context.Context, b *broker, s side) (sample insertSample, err error) {
	st, err := r.newStage(ctx, b, s, nil)
	if err != nil {
		return sample, err
	}
	defer func() { err = errors.Join(err, st.close()) }()
	conn, err := pgx.Connect(ctx, st.d.url)
	if err != nil {
		return sample, err
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	if _, err := conn.Exec(ctx, "set synchronous_commit = off"); err != nil {
		return sample, err
	}
	write := func(first, n int) error {
		at := max(1, s.outbox().many)
		for seq := first; seq < first+n; seq += at {
			events := make([]event, at)
			for i := range events {
				events[i] = r.o.event(st.topic, seq+i)
			}
			if err := s.outbox().write(ctx, conn, events...); err != nil {
				return err
			}
		}
		return nil
	}
	if err := write(0, insertsWarm); err != nil {
		return sample, err
	}
	wal, err := st.d.logged(ctx)
	if err != nil {
		return sample, err
	}
	pid := int(conn.PgConn().PID())
	before := cpuSeconds(pid, false)
	if err := write(insertsWarm, r.o.inserts); err != nil {
		return sample, err
	}
	spent := cpuSeconds(pid, false) - before
	end, err := st.d.logged(ctx)
	if err != nil {
		return sample, err
	}
	n := float64(r.o.inserts)
	return insertSample{1e6 * spent / n, float64(end-wal) / n}, nil
}
